"""Columns in bins: a few dozen values each, so that what a column knows can be counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from bopl._typing import AnyArray, FloatArray, IntArray

MISSING = 0  # the bin of missing values; it may be empty
MAX_CATEGORIES = 64  # bins of categories; rarer ones share a bin
MIN_CATEGORY = 20  # samples below which a category shares a bin with other rare ones
MAX_SORTED = 20_000  # values that quantiles are read from
_TAILS = np.array([0.001, 0.002, 0.005, 0.01, 0.02])  # what rare rewards leave behind lies in the tails
_SHARES = np.unique(np.concatenate([_TAILS, np.arange(1, 32) / 32.0, 1.0 - _TAILS]))


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """One column in bins."""

    code: IntArray  # (n_samples,): the bin of each sample; 0 is missing
    n_bins: int
    # the fullest bin, if it holds a single value or what is missing; else -1. What came later often leaves such
    # a bin behind: nothing, or zero, in all samples in which it did not come.
    common: int

    def coarse(self) -> BinnedColumn | None:
        """Return the column in two bins, the common one (0) and all others; None if it has no such or no more."""
        if self.common < 0 or self.n_bins <= 2:
            return None
        return BinnedColumn((self.code != self.common).astype(np.int64), 2, 0)


def constant_column(n_samples: int) -> BinnedColumn:
    """Return a column without any information."""
    return BinnedColumn(np.zeros(n_samples, dtype=np.int64), 1, 0)


def bin_column(values: AnyArray, *, is_category: bool = False, n_events: int = 0) -> BinnedColumn:
    """Return a column of numbers or of positions of categories in bins; NaN is missing.

    ``n_events`` samples have an unusual reward: numbers that are larger, or smaller, in these alone have bins of their
    own.
    """
    is_missing = np.isnan(values)
    find_bins = _bin_categories if is_category else partial(_bin_numbers, n_events=n_events)
    code: IntArray
    if is_missing.any():
        code = np.zeros(len(values), dtype=np.int64)
        present = values[~is_missing]
        if len(present):
            code[~is_missing] = 1 + find_bins(present)
    else:
        code = 1 + find_bins(values)
    count = np.bincount(code)
    fullest = int(count.argmax())
    held = values[code == fullest]
    is_single = fullest == MISSING or bool((held == held[0]).all())
    return BinnedColumn(code, len(count), fullest if is_single else -1)


def _bin_numbers(values: FloatArray, n_events: int) -> IntArray:
    return np.searchsorted(_edges(values, n_events / len(values)), values, side="left")


def _edges(values: FloatArray, event_share: float) -> FloatArray:
    """Return the upper ends of the bins: quantiles; a value that fills several of them has a bin of its own."""
    step = -(-len(values) // MAX_SORTED)
    shares = np.union1d(_SHARES, [event_share, 1.0 - event_share]) if 0.0 < event_share < 1.0 else _SHARES
    found, count = np.unique(np.quantile(values[::step], shares, method="lower"), return_counts=True)
    below = np.nextafter(found[count > 1], np.float32(-np.inf), dtype=values.dtype)
    return np.unique(np.concatenate([found.astype(values.dtype), below]))


def _bin_categories(values: FloatArray) -> IntArray:
    """Return 0 for rare categories, and a bin of its own for each of the others."""
    category, position, count = _distinct(values)
    order = np.argsort(-count, kind="stable")[:MAX_CATEGORIES]
    kept = order[count[order] >= MIN_CATEGORY]
    bin_of = np.zeros(len(category), dtype=np.int64)
    bin_of[kept] = 1 + np.arange(len(kept))
    return bin_of[position]


def _distinct(values: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return what `numpy.unique` does, values with their inverse and counts; positions are counted, not sorted."""
    whole = values.astype(np.int64)
    if whole.min() < 0 or whole.max() > len(values) or (whole != values).any():
        return np.unique(values, return_inverse=True, return_counts=True)
    count = np.bincount(whole)
    category = np.flatnonzero(count)
    return category.astype(values.dtype), (np.cumsum(count > 0) - 1)[whole], count[category]
