"""Baselines: reward regression, BanditNet, the uniform policy and an estimate of the logging policy.

Names are imported when first used: a network needs no compiled engine, a boosted reward model no torch.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.baseline.boosted_reward import BoostedRewardPolicy as BoostedRewardPolicy
    from bopl.baseline.deep import BanditNetPolicy as BanditNetPolicy
    from bopl.baseline.deep import DeepRewardPolicy as DeepRewardPolicy
    from bopl.baseline.deep import fit_together as fit_together
    from bopl.baseline.simple import LoggingPolicy as LoggingPolicy
    from bopl.baseline.simple import UniformPolicy as UniformPolicy
    from bopl.baseline.xgb_reward import XGBRewardPolicy as XGBRewardPolicy

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "boosted_reward": "BoostedRewardPolicy",
        "deep": "BanditNetPolicy DeepRewardPolicy fit_together",
        "simple": "LoggingPolicy UniformPolicy",
        "xgb_reward": "XGBRewardPolicy",
    },
)
