"""What training did, for the page: the race, the rounds, thinned to what a chart can show, and a policy's parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl._typing import IntArray
from bopl.policy import BlendedPolicy, BoostedPolicy
from bopl.race import AutoPolicy
from bopl.report.plain import plain

MAX_POINTS = 300  # rounds that are drawn
COLUMNS = (
    "recursive_bound",
    "theorem_bound",
    "opt_emp_risk",
    "gradient_norm",
    "snips_value",
    "validation_value",
    "effective_sample_size",
)


def winner(policy: Any) -> Any:
    """Return what acts for a policy: the best of its race, or itself."""
    return policy.best_policy_ if isinstance(policy, AutoPolicy) else policy


def boosted_parts(policy: Any) -> list[BoostedPolicy]:
    """Return the boosted policies that a policy is made of; none if it is of another kind."""
    acting = winner(policy)
    if isinstance(acting, BlendedPolicy):
        return list(acting.policies_)
    return [acting] if isinstance(acting, BoostedPolicy) else []


def describe_race(policy: Any) -> dict[str, Any] | None:
    """Return the leaderboard of the race that chose a policy, or None for a policy that no race has chosen."""
    if not isinstance(policy, AutoPolicy):
        return None
    found = policy.leaderboard_.to_dict()
    return {**plain(found), "is_logging": policy.is_logging_, "is_interrupted": policy.is_interrupted_}


def describe_training(policy: Any) -> dict[str, Any] | None:
    """Return the history of a boosted policy, or None for a policy that has none; of a blend, that of its first part.

    The parts of a blend stand in the order of the race, the best first.
    """
    parts = boosted_parts(policy)
    if not parts or parts[0].history_.n_rounds == 0:
        return None
    shown, history = parts[0], parts[0].history_
    rows = _shown_rounds(history.n_rounds, shown.n_rounds_)
    columns = {name: history[name][rows] for name in COLUMNS if np.isfinite(history[name]).any()}
    return {
        "objective": history.objective,
        "n_rounds": history.n_rounds,
        "chosen_round": shown.n_rounds_,
        "n_parts": len(parts),
        "is_validated": bool(np.isfinite(history["validation_value"]).any()),
        "stop_reason": shown.stop_reason_,
        "reward_translation": plain(float(shown.reward_translation)),
        "columns": plain({"round": history["round"][rows], "risk": history.objective_risk[rows], **columns}),
    }


def _shown_rounds(n_rounds: int, chosen: int) -> IntArray:
    """Return the rounds to draw: evenly spaced, with the first, the last and the chosen one."""
    spaced = np.linspace(0, n_rounds - 1, min(n_rounds, MAX_POINTS)).round().astype(np.int64)
    return np.unique(np.append(spaced, max(chosen - 1, 0)))
