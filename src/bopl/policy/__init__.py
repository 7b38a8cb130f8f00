"""Policies: scores to probabilities to actions, and the file they are kept in.

Names are imported when first used: `Policy` alone needs no compiled engine.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.policy.blend import BlendedPolicy as BlendedPolicy
    from bopl.policy.boosted import BoostedPolicy as BoostedPolicy
    from bopl.policy.decision import Decision as Decision
    from bopl.policy.learned import LearnedPolicy as LearnedPolicy
    from bopl.policy.model_file import load as load
    from bopl.policy.model_file import register_policy as register_policy
    from bopl.policy.paper import PAPER_VARIANTS as PAPER_VARIANTS
    from bopl.policy.paper import paper_policy as paper_policy
    from bopl.policy.policy import Policy as Policy
    from bopl.policy.scored import ScoredPolicy as ScoredPolicy

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "blend": "BlendedPolicy",
        "boosted": "BoostedPolicy",
        "decision": "Decision",
        "learned": "LearnedPolicy",
        "model_file": "load register_policy",
        "paper": "PAPER_VARIANTS paper_policy",
        "policy": "Policy",
        "scored": "ScoredPolicy",
    },
)
