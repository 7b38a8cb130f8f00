"""The boosted policies that a policy is made of: itself, the winner of a race, or the parts of a blend."""

from __future__ import annotations

from typing import Any

from bopl.policy import BlendedPolicy, BoostedPolicy
from bopl.race import AutoPolicy


def winner(policy: Any) -> Any:
    """Return what acts for a policy: the best of its race, or itself."""
    return policy.best_policy_ if isinstance(policy, AutoPolicy) else policy


def boosted_parts(policy: Any) -> list[BoostedPolicy]:
    """Return the boosted policies that a policy is made of; none if it is of another kind."""
    acting = winner(policy)
    if isinstance(acting, BlendedPolicy):
        return list(acting.policies_)
    return [acting] if isinstance(acting, BoostedPolicy) else []
