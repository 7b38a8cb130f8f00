"""The bin of every value of some contexts, column by column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.binning import ColumnBins, bin_values


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
