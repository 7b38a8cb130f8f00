"""What a race has found, for the page."""

from __future__ import annotations

from typing import Any

from bopl.race import AutoPolicy
from bopl.report.plain import plain


def describe_race(policy: Any) -> dict[str, Any] | None:
    """Return the leaderboard of the race that chose a policy, or None for a policy that no race has chosen."""
    if not isinstance(policy, AutoPolicy):
        return None
    found = policy.leaderboard_.to_dict()
    return {**plain(found), "is_logging": policy.is_logging_, "is_interrupted": policy.is_interrupted_}
