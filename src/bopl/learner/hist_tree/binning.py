"""Where each context column is cut: found once from the training contexts, then applied to them.

A column with at most ``max_bins`` distinct values gets one bin for each of them, so every split of those values is
open, as in XGBoost. A column with more is cut at quantiles. Missing values have the last bin of their column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

BIN_DTYPE = np.uint8  # at most 256 bins a column, the missing one included
MAX_BINS = 256


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column.

    Attributes
    ----------
    edges : ndarray of float32
        Ordered column: bin ``b`` holds ``edges[b - 1] <= x < edges[b]``. Categorical column: the categories, ascending,
        bin ``b`` holding ``x == edges[b]``.
    is_categorical : bool
    has_missing : bool
        Whether a training value is NaN; those are in bin ``n_bins - 1``.
    low, high : float
        Least and largest finite training value (0 where there is none).
    """

    edges: NDArray[np.float32]
    is_categorical: bool
    has_missing: bool
    low: float
    high: float

    @property
    def n_bins(self) -> int:
        """Number of bins, the missing one included."""
        n_values = len(self.edges) if self.is_categorical else len(self.edges) + 1
        return n_values + int(self.has_missing)

    @property
    def is_indicator(self) -> bool:
        """Whether the column has exactly the two values 0 and one above it."""
        return not self.is_categorical and not self.has_missing and len(self.edges) == 1 and self.low == 0.0


def fit_column(
    values: NDArray[np.float32], max_bins: int, *, n_zeros: int = 0, is_categorical: bool = False, name: str = ""
) -> ColumnBins:
    """Choose the bins of one column from its values and ``n_zeros`` more that are zero.

    Raises
    ------
    ValueError
        If a categorical column has more distinct categories than bins.
    """
    distinct, count = np.unique(values, return_counts=True)
    if n_zeros:
        distinct, count = _add_zeros(distinct, count, n_zeros)
    has_missing = bool(len(distinct)) and bool(np.isnan(distinct[-1]))
    if has_missing:
        distinct, count = distinct[:-1], count[:-1]
    low, high = (float(distinct[0]), float(distinct[-1])) if len(distinct) else (0.0, 0.0)
    room = min(max_bins, MAX_BINS - int(has_missing))
    if is_categorical:
        if len(distinct) > room:
            raise ValueError(
                f"categorical column {name} has {len(distinct)} distinct categories and max_bins leaves {room}; "
                "merge rare categories or pass the column as an ordered one."
            )
        return ColumnBins(distinct.astype(np.float32), True, has_missing, low, high)
    last = np.arange(len(distinct) - 1) if len(distinct) <= room else _quantile_positions(count, room)
    return ColumnBins(_midpoints(distinct[last], distinct[last + 1]), False, has_missing, low, high)


def _add_zeros(distinct: Any, count: Any, n_zeros: int) -> tuple[Any, Any]:
    """Merge zeros that a sparse matrix does not store into the distinct values."""
    at = int(np.searchsorted(distinct, 0.0))
    if at < len(distinct) and distinct[at] == 0.0:
        count[at] += n_zeros
        return distinct, count
    return np.insert(distinct, at, np.float32(0.0)), np.insert(count, at, n_zeros)


def _quantile_positions(count: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """Return after which distinct values to cut so that the bins hold about the same number of samples."""
    upto = np.cumsum(count)
    goal = upto[-1] * np.arange(1, n_bins) / n_bins
    position = np.unique(np.searchsorted(upto, goal))
    return position[position < len(count) - 1]


def _midpoints(below: NDArray[np.float32], above: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return thresholds ``below < t <= above`` that float32 can hold."""
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2
    edges = middle.astype(np.float32)
    # Neighbouring floats have no number between them: x < above then separates them.
    return np.where(edges <= below, above, edges).astype(np.float32)


def fit_columns(context: Any, max_bins: int, categorical: NDArray[np.bool_]) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column of a dense or CSR matrix."""
    n_samples, n_features = context.shape
    if not sparse.issparse(context):
        return tuple(
            fit_column(np.ascontiguousarray(context[:, j]), max_bins, is_categorical=bool(categorical[j]), name=str(j))
            for j in range(n_features)
        )
    by_column = context.tocsc()
    ends = by_column.indptr
    return tuple(
        fit_column(
            by_column.data[ends[j] : ends[j + 1]],
            max_bins,
            n_zeros=n_samples - int(ends[j + 1] - ends[j]),
            is_categorical=bool(categorical[j]),
            name=str(j),
        )
        for j in range(n_features)
    )


def bin_values(values: NDArray[np.float32], column: ColumnBins) -> NDArray[np.uint8]:
    """Return the bin of every value of one column."""
    bins_out = np.empty(len(values), BIN_DTYPE)
    missing_bin = column.n_bins - 1 if column.has_missing else 0
    shift = 1 if column.is_categorical else 0
    _assign_bins(np.ascontiguousarray(values), column.edges, missing_bin, shift, bins_out)
    return bins_out


@njit(nogil=True, cache=True)
def _assign_bins(values, edges, missing_bin, shift, bins_out):  # type: ignore[no-untyped-def]
    """Count the edges at or below each value; a category's bin is one less than that count."""
    n_edges = len(edges)
    for i in range(len(values)):
        x = values[i]
        if np.isnan(x):
            bins_out[i] = missing_bin
            continue
        low, size = 0, n_edges
        while size > 0:
            half = size >> 1
            step = edges[low + half] <= x
            low = low + half + 1 if step else low
            size = size - half - 1 if step else half
        bins_out[i] = max(low - shift, 0)
