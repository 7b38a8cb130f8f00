"""A word to those who train in Python, where no audit comes first."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import LeakWarning
from bopl.log.leak.find import find_leaks

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_ROWS = 30_000  # that are looked at, so that it costs little beside a training
_SEED = 20_143


def warn_of_leaks(log: BanditLog) -> None:
    """Warn if context columns of a log surely leak; called by the function that the user calls.

    Does nothing where the warning is ignored.
    """
    if _is_ignored():
        return
    if log.n_samples > MAX_ROWS:
        log = log.subset(np.sort(np.random.default_rng(_SEED).permutation(log.n_samples)[:MAX_ROWS]))
    sure = [leak for leak in find_leaks(log) if leak.is_sure]
    if sure:
        columns = [leak.column for leak in sure]
        warnings.warn(
            f"{' '.join(leak.sentence for leak in sure)} Nothing useful can be learned from it: train "
            f"on log.without_columns({columns!r}). If it was known when the action was chosen, filter LeakWarning.",
            LeakWarning,
            stacklevel=3,
        )


def _is_ignored() -> bool:
    """Return whether a filter lets no such warning through, wherever it comes from."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(LeakWarning, category):  # the first filter that matches decides
            return action == "ignore" and message is None and module is None and line == 0
    return False
