"""Where each context column is cut: found once from the training contexts, then applied to them.

The cuts are those of XGBoost's ``hist`` on the expanded matrix, to the last bit: values of the data, ``x < cut`` going
left. A column with at most ``max_bins`` distinct values gets one bin for each of them, so every split of those values
is open. A column with more is cut at values of about equal distance in rank; see `quantile_cuts`. Missing values have
the last bin of their column, so a column with missing values has room for one value less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bopl._kernel import njit

BIN_DTYPE = np.uint8  # at most 256 bins a column, the missing one included
MAX_BINS = 256
RANK_DTYPE = np.float32  # ranks and goals are rounded as XGBoost rounds them, or a cut here and there would differ
SKETCH_FACTOR = 8  # XGBoost's summaries hold so many values for each bin before the last choice among them


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column."""

    # Of an ordered column: bin ``b`` holds ``edges[b - 1] <= x < edges[b]``. Of a categorical one: the categories,
    # ascending; bin ``b`` holds ``x == edges[b]``.
    edges: NDArray[np.float32]
    is_categorical: bool
    has_missing: bool  # whether a training value is NaN; those are in bin ``n_bins - 1``
    low: float  # smallest finite training value; 0 if there is none
    high: float  # largest finite training value; 0 if there is none

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
    values: NDArray[np.float32],
    max_bins: int,
    *,
    n_zeros: int = 0,
    n_actions: int = 1,
    is_categorical: bool = False,
    name: str = "",
) -> ColumnBins:
    """Choose the bins of one column from its values and ``n_zeros`` more that are zero.

    Every value counts ``n_actions`` times, once for each row of its context in the expanded matrix.

    Raises
    ------
    ValueError
        If a categorical column has more distinct categories than bins.
    """
    counts = ColumnCounts.of(values, n_zeros)
    return bins_from(counts, max_bins, n_actions=n_actions, is_categorical=is_categorical, name=name)


@dataclass(frozen=True)
class ColumnCounts:
    """The distinct values of a column, ascending, NaN last, and how often each occurs; parts are added."""

    distinct: NDArray[np.float32]
    count: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[np.float32], n_zeros: int = 0) -> ColumnCounts:
        """Count some values, and ``n_zeros`` more that are zero."""
        distinct, count = np.unique(values, return_counts=True)
        if n_zeros:
            distinct, count = _add_zeros(distinct, count, n_zeros)
        return cls(distinct + np.float32(0.0), count)  # one zero, whichever of the two came first

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        both, count = np.concatenate([self.distinct, other.distinct]), np.concatenate([self.count, other.count])
        order = np.argsort(both, kind="stable")  # which merges the two ascending runs
        both, count = both[order], count[order]
        is_new = (both[1:] != both[:-1]) & ~np.isnan(both[:-1])  # NaN comes last, and is one value
        begin = np.flatnonzero(np.concatenate([np.ones(min(len(both), 1), bool), is_new]))
        return ColumnCounts(both[begin], np.add.reduceat(count, begin, dtype=np.int64) if len(begin) else count)


def bins_from(
    counts: ColumnCounts, max_bins: int, *, n_actions: int = 1, is_categorical: bool = False, name: str = ""
) -> ColumnBins:
    """Choose the bins of one column; see `fit_column`."""
    distinct, count = counts.distinct, counts.count
    has_missing = bool(len(distinct)) and bool(np.isnan(distinct[-1]))
    if has_missing:
        distinct, count = distinct[:-1], count[:-1]
    low, high = (float(distinct[0]), float(distinct[-1])) if len(distinct) else (0.0, 0.0)
    max_values = min(max_bins, MAX_BINS - int(has_missing))
    if is_categorical:
        if len(distinct) > max_values:
            raise ValueError(
                f"categorical column {name} has {len(distinct)} distinct categories and max_bins leaves {max_values}; "
                "merge rare categories or pass the column as an ordered one."
            )
        return ColumnBins(distinct.astype(np.float32), True, has_missing, low, high)
    return ColumnBins(quantile_cuts(distinct, n_actions * count, max_values), False, has_missing, low, high)


def _add_zeros(distinct: Any, count: Any, n_zeros: int) -> tuple[Any, Any]:
    """Merge zeros that a sparse matrix does not store into the distinct values."""
    at = int(np.searchsorted(distinct, 0.0))
    if at < len(distinct) and distinct[at] == 0.0:
        count[at] += n_zeros
        return distinct, count
    return np.insert(distinct, at, np.float32(0.0)), np.insert(count, at, n_zeros)


class Summary(NamedTuple):
    """Distinct values, ascending, with the number of pairs below each and up to each: their ranks."""

    value: NDArray[np.float32]
    start: NDArray[np.float32]
    end: NDArray[np.float32]


def quantile_cuts(distinct: NDArray[np.float32], count: NDArray[np.int64], max_bins: int) -> NDArray[np.float32]:
    """Return the values at which XGBoost's ``hist`` cuts a column, its sentinels below and above all data left out.

    XGBoost feeds a weighted quantile summary (Chen and Guestrin, 2016, appendix) and prunes it: to what its sketch
    holds, then to ``8 * max_bins`` values, then to ``max_bins + 1``, of which all but the first and the last become
    cuts. Here the same prunings are applied to the exact summary.

    The cuts are XGBoost's wherever its sketch is exact before the prunings: for columns of at most `sketch_size`
    distinct values (2049 or more at 256 bins, 16385 for three million pairs), and for columns of at most twice as many
    rows. Beyond, it merges pruned summaries in the order of the rows, and beyond 2**24 pairs its float32 ranks lose
    units; its cuts then are approximations of these.

    Parameters
    ----------
    distinct : ndarray of float32
        The values, ascending, each once.
    count : ndarray of int64
        How many pairs have each value.
    max_bins : int
    """
    if len(distinct) <= max_bins:
        return distinct[1:].astype(np.float32)
    end = np.cumsum(count)
    n_pairs = int(end[-1])
    summary = Summary(distinct, (end - count).astype(RANK_DTYPE), end.astype(RANK_DTYPE))
    for size in (sketch_size(n_pairs, max_bins), min(n_pairs, SKETCH_FACTOR * max_bins), max_bins + 1):
        summary = pruned(summary, size)
    return summary.value[1:max_bins].astype(np.float32)


def pruned(summary: Summary, size: int) -> Summary:
    """Keep the first and the last value, and between them the nearest to each of ``size - 2`` evenly spaced ranks."""
    return summary if len(summary.value) <= size else prune(summary, size)


def prune(summary: Summary, size: int) -> Summary:
    """As `pruned`; the values that are none of those kept, nor next to one, may be left out beforehand."""
    value, start, end = summary
    step = np.arange(1, size - 1).astype(RANK_DTYPE)
    goal = step * (start[-1] - end[0]) / RANK_DTYPE(size - 1) + end[0]
    doubled = goal + goal  # twice a rank, so that middles need no division
    before = np.maximum(np.searchsorted((start + end)[1:], doubled, side="right"), 1)
    before = before[before < len(value) - 1]
    is_nearer = doubled[: len(before)] < end[before] + start[before + 1]  # the goal lies before the gap's middle
    inner = np.where(is_nearer, before, before + 1)
    kept = np.unique(np.concatenate([[0], inner, [len(value) - 1]]))
    return Summary(value[kept], start[kept], end[kept])


def sketch_size(n_pairs: int, max_bins: int) -> int:
    """Return how many values a level of XGBoost's sketch holds: enough for its error bound after all its merges."""
    per_level = SKETCH_FACTOR * min(max_bins, n_pairs)
    n_levels = 1
    while min(n_pairs, n_levels * per_level + 1) << n_levels < n_pairs:
        n_levels += 1
    return min(n_pairs, n_levels * per_level + 1)


def fit_columns(
    context: Any, max_bins: int, categorical: NDArray[np.bool_], *, n_actions: int = 1
) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column of a dense or CSR matrix of contexts with ``n_actions`` pairs each."""
    n_samples, n_features = context.shape
    if not sparse.issparse(context):
        return tuple(
            fit_column(
                np.ascontiguousarray(context[:, j]),
                max_bins,
                n_actions=n_actions,
                is_categorical=bool(categorical[j]),
                name=str(j),
            )
            for j in range(n_features)
        )
    by_column = context.tocsc()
    ends = by_column.indptr
    return tuple(
        fit_column(
            by_column.data[ends[j] : ends[j + 1]],
            max_bins,
            n_zeros=n_samples - int(ends[j + 1] - ends[j]),
            n_actions=n_actions,
            is_categorical=bool(categorical[j]),
            name=str(j),
        )
        for j in range(n_features)
    )


def count_values(context: Any, j: int) -> ColumnCounts:
    """Count the values of one column of a dense or CSR matrix."""
    if not sparse.issparse(context):
        return ColumnCounts.of(np.ascontiguousarray(context[:, j]))
    values = context[:, [j]].tocsc().data
    return ColumnCounts.of(values, context.shape[0] - len(values))


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
    # A search by halves without a branch that depends on the value: both selections compile to conditional moves.
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
        bins_out[i] = max(low - shift, 0)  # new data may have categories below all known ones


class ColumnEntries(NamedTuple):
    """The stored values of one column of a CSR matrix."""

    rows: NDArray[Any]  # ascending
    bins: NDArray[np.uint8]
    by_bin: NDArray[np.int64]  # (n_bins,) rows in each bin, zeros that are not stored included


def dense_bins(context: Any, columns: tuple[ColumnBins, ...]) -> NDArray[np.uint8]:
    """Return the bins of a dense matrix, (n_features, n_samples)."""
    bins = np.empty((len(columns), context.shape[0]), np.uint8)
    for j in range(len(columns)):
        bins[j] = bin_values(context[:, j], columns[j]) if columns[j].n_bins > 1 else 0
    return bins


def dense_counts(bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...]) -> list[NDArray[np.int64]]:
    """Return the number of rows in each bin of every column."""
    return [np.bincount(bins[j], minlength=columns[j].n_bins) for j in range(len(columns))]


def csr_entries(context: Any, columns: tuple[ColumnBins, ...]) -> list[ColumnEntries]:
    """Return the bins of a CSR matrix."""
    by_column = context.tocsc()
    by_column.sort_indices()
    ends, entries = by_column.indptr, []
    for j, column in enumerate(columns):
        rows = by_column.indices[ends[j] : ends[j + 1]]
        bins = bin_values(by_column.data[ends[j] : ends[j + 1]], column)
        count = np.bincount(bins, minlength=column.n_bins)
        count[zero_bin(column)] += context.shape[0] - len(rows)
        entries.append(ColumnEntries(rows, bins, count))
    return entries


def zero_bin(column: ColumnBins) -> int:
    """Return the bin of the value zero."""
    return int(bin_values(np.zeros(1, np.float32), column)[0])
