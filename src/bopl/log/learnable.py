"""Requirements for learning from a log: rewards of a usual size, and scores that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bopl._machine import available_memory

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_REWARD = 1e100  # sums of squares of larger ones, weighted, leave the range of a float
MIN_REWARD = 1e-7  # learners take the differences between smaller ones for rounding, and learn nothing
_SCORE_BYTES = 8


def check_learnable(log: BanditLog) -> None:
    """Raise one sentence if nothing could be learned from a log, whatever the settings."""
    _check_reward_size(log)
    _check_score_size(log)


def _check_reward_size(log: BanditLog) -> None:
    row = int(np.argmax(np.abs(log.reward)))
    check_reward_size(float(log.reward[row]), lambda: f"row {row}")


def check_reward_size(largest: float, place: Callable[[], str]) -> None:
    """Raise if the reward that is largest in size, which stands at a place, is too large or too small to learn from."""
    if abs(largest) > MAX_REWARD:
        raise ValueError(
            f"reward must not exceed {MAX_REWARD:g} in size for a policy to learn from it; {place()} holds "
            f"{largest:g}. If that has a special meaning, drop the sample; otherwise divide all rewards "
            "by a constant."
        )
    if 0.0 < abs(largest) < MIN_REWARD:
        raise ValueError(
            f"rewards are too small to learn from: none exceeds {MIN_REWARD:g} in size, and the largest, in "
            f"{place()}, is {largest:g}. Multiply all of them by a constant, so that the largest is near 1."
        )


def _check_score_size(log: BanditLog) -> None:
    needed, available = _SCORE_BYTES * log.n_samples * log.n_actions, available_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"a score for each of {log.n_samples:,} samples and {log.n_actions:,} actions takes {needed / 2**30:.1f} "
            f"GiB, more than the {available / 2**30:.1f} GiB of memory that are free. Learn from fewer samples "
            "(log.subset), or from fewer actions: leave out rare ones, or merge similar ones."
        )
