"""What the rounds of a fit did, thinned to what a chart can show."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl._typing import IntArray
from bopl.boosting import History
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


def describe_training(policy: Any) -> dict[str, Any] | None:
    """Return the history of a boosted policy, or None for a policy that has none."""
    history = getattr(policy, "history_", None)
    if not isinstance(history, History) or history.n_rounds == 0:
        return None
    rows = _shown_rounds(history.n_rounds, policy.n_rounds_)
    columns = {name: history[name][rows] for name in COLUMNS if np.isfinite(history[name]).any()}
    return {
        "objective": history.objective,
        "n_rounds": history.n_rounds,
        "chosen_round": policy.n_rounds_,
        "is_validated": bool(np.isfinite(history["validation_value"]).any()),
        "stop_reason": policy.stop_reason_,
        "reward_translation": plain(float(policy.reward_translation)),
        "columns": plain({"round": history["round"][rows], "risk": history.objective_risk[rows], **columns}),
    }


def _shown_rounds(n_rounds: int, chosen: int) -> IntArray:
    """Return the rounds to draw: evenly spaced, with the first, the last and the chosen one."""
    spaced = np.linspace(0, n_rounds - 1, min(n_rounds, MAX_POINTS)).round().astype(np.int64)
    return np.unique(np.append(spaced, chosen - 1))
