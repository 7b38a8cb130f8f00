"""Folds of a log: which samples a model has not seen."""

from __future__ import annotations

import numpy as np

from bopl._typing import AnyArray, IntArray
from bopl.log import BanditLog


def draw_folds(log: BanditLog, n_folds: int, seed: int) -> IntArray:
    """Return a fold number per sample, of sizes as equal as possible; samples of one group share a fold."""
    return folds_of(log.n_samples, log.group, n_folds, seed)


def folds_of(n_samples: int, group: AnyArray | None, n_folds: int, seed: int) -> IntArray:
    """Return a fold number for each of this many samples; see `draw_folds`."""
    unit = np.arange(n_samples) if group is None else np.unique(group, return_inverse=True)[1]
    n_units = int(unit.max()) + 1
    if n_units < 2:
        what = "sample" if group is None else "group"
        raise ValueError(f"cross-fitting needs at least two {what}s; the log has one. Pass your own predictions.")
    # Units are permuted, then dealt out in turn: fold sizes differ by one unit at most.
    order = np.random.default_rng([seed, 2]).permutation(n_units)
    return (order % min(n_folds, n_units))[unit]
