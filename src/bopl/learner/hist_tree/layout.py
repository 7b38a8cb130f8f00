"""How contexts are stored: which of two layouts, and which indicator columns share a histogram column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bopl.learner.hist_tree.binning import MAX_BINS, ColumnBins, csr_entries, dense_bins, dense_counts

FIXED_EXCESS = 1.3  # the fixed layout's constant row length is worth this many more codes
MIN_BUNDLE_COVER = 0.5  # a bundle that is mostly "none of them" saves nothing


@dataclass(frozen=True)
class Layout:
    """How contexts are stored: the same for all rows, wherever they are."""

    columns: tuple[ColumnBins, ...]
    is_fixed: bool  # one code per histogram column and row; otherwise codes of values that differ from the common ones
    bundles: list[list[int]]  # indicator columns that share a histogram column of the fixed layout
    common: NDArray[np.int64]  # most common bin of every column, for the sparse layout

    @property
    def live(self) -> list[int]:
        """Columns with more than one bin."""
        return [j for j, column in enumerate(self.columns) if column.n_bins > 1]


@dataclass(frozen=True)
class BinFacts:
    """What the layout is chosen by; those of several parts of the rows are added."""

    n_samples: int
    counts: list[NDArray[np.int64]]  # rows in each bin of every column
    # (n_indicators, n_indicators): rows in which two indicator columns are both set; None if the contexts are sparse,
    # which are not bundled
    clashes: NDArray[np.int64] | None

    def __add__(self, other: BinFacts) -> BinFacts:
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        clashes = None if self.clashes is None or other.clashes is None else self.clashes + other.clashes
        return BinFacts(self.n_samples + other.n_samples, counts, clashes)


def bin_facts(context: Any, columns: tuple[ColumnBins, ...]) -> BinFacts:
    """Return the facts of some rows."""
    if sparse.issparse(context):
        return BinFacts(context.shape[0], [entries.by_bin for entries in csr_entries(context, columns)], None)
    bins = dense_bins(context, columns)
    is_set = bins[[j for j, column in enumerate(columns) if column.is_indicator]].astype(np.float32)
    return BinFacts(context.shape[0], dense_counts(bins, columns), (is_set @ is_set.T).astype(np.int64))


def choose_layout(columns: tuple[ColumnBins, ...], facts: BinFacts) -> Layout:
    """Return whichever layout needs fewer additions per row."""
    if facts.clashes is None:
        return layout_for(columns, facts.n_samples, facts.counts, None)
    indicators = [j for j, column in enumerate(columns) if column.is_indicator]
    place = {j: k for k, j in enumerate(indicators)}
    clashes = facts.clashes

    def is_free(j: int, members: list[int]) -> bool:
        return not any(clashes[place[j], place[other]] for other in members)

    def cover(members: list[int]) -> float:
        return sum(int(facts.counts[j][1]) for j in members) / facts.n_samples

    return layout_for(columns, facts.n_samples, facts.counts, _bundle(columns, is_free, cover))


def layout_for(
    columns: tuple[ColumnBins, ...], n_samples: int, counts: list[NDArray[np.int64]], bundles: list[list[int]] | None
) -> Layout:
    """Return the layout of columns with these counts by bin; ``bundles`` is None for sparse contexts."""
    # A round's time is proportional to the codes per row. Fixed: one for each column or bundle. Sparse: the mean number
    # of values that are not their column's most common one.
    common = np.array([int(count.argmax()) for count in counts], np.int64)
    if bundles is None:
        return Layout(columns, False, [], common)
    live = [j for j, column in enumerate(columns) if column.n_bins > 1]
    bundled = {j for members in bundles for j in members}
    n_fixed = len(live) - len(bundled) + len(bundles)
    n_sparse = sum(1.0 - counts[j].max() / max(n_samples, 1) for j in live)
    return Layout(columns, bool(n_fixed <= FIXED_EXCESS * n_sparse or n_fixed <= 1), bundles, common)


def _bundle(
    columns: tuple[ColumnBins, ...],
    is_free: Callable[[int, list[int]], bool],
    cover: Callable[[list[int]], float],
) -> list[list[int]]:
    """Group neighbouring indicator columns of which no row has two, where together they cover half of the rows."""
    bundles: list[list[int]] = []
    members: list[int] = []
    for j in [*range(len(columns)), -1]:
        is_indicator = j >= 0 and columns[j].is_indicator
        if is_indicator and len(members) < MAX_BINS - 1 and is_free(j, members):
            members.append(j)
            continue
        if len(members) > 1 and cover(members) >= MIN_BUNDLE_COVER:
            bundles.append(members)
        members = [j] if is_indicator else []
    return bundles


def find_bundles(bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...]) -> list[list[int]]:
    """Return the bundles of rows that are all here; ``bins`` is (n_features, n_samples)."""
    taken = np.zeros(bins.shape[1], bool)
    seen: list[int] = []

    def is_free(j: int, members: list[int]) -> bool:
        if members[: len(seen)] != seen:
            taken[:] = False
            seen.clear()
        for other in members[len(seen) :]:
            np.logical_or(taken, bins[other].view(bool), out=taken)
            seen.append(other)
        return not np.any(taken & bins[j].view(bool))

    def cover(members: list[int]) -> float:
        return sum(int(np.count_nonzero(bins[j])) for j in members) / bins.shape[1]

    return _bundle(columns, is_free, cover)
