"""Histogram columns in the making: their bins, and for each the context column and threshold of its split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.binning import ColumnBins
from bopl.learner.hist_tree.storage import (
    BLOCK,
    COLUMN,
    INDICATORS,
    ONE_AGAINST_REST,
    ORDERED,
    PART,
    POSITION,
    TOP_THRESHOLD,
    Binned,
    BinnedContext,
    SplitTable,
)

MAX_BLOCK = 1 << 16  # positions that 16 bits can count; smaller blocks gain less in cache than they cost in loops
NO_BIN = -1


@dataclass
class HistogramColumn:
    """One histogram column being laid out; lists have an entry for every bin."""

    kind: int  # ORDERED, ONE_AGAINST_REST or INDICATORS
    parts: list[int]  # partition column that a split compares with
    bins: list[int]  # bin of that column
    features: list[int]
    thresholds: list[float]
    is_left: list[bool]  # indicator whose rarer value is the smaller one
    first: int = 0  # first bin that is a split
    common: int = NO_BIN  # bin without codes; -1 if there is none
    missing: int = NO_BIN  # bin of missing values; -1 if there is none

    @property
    def n_bins(self) -> int:
        """Number of positions."""
        return len(self.bins)

    @property
    def own_features(self) -> list[int]:
        """Context columns that have codes here: all of a run of indicators, otherwise one."""
        return self.features if self.kind == INDICATORS else self.features[:1]


def missing_bin(column: ColumnBins) -> int:
    """Return the bin for which a side is learnt: a missing category is just one more category."""
    return column.n_bins - 1 if column.has_missing and not column.is_categorical else NO_BIN


def plain_column(feature: int, column: ColumnBins, part: int, common: int = NO_BIN) -> HistogramColumn:
    """Return the histogram column of one context column."""
    n = column.n_bins
    return HistogramColumn(
        ONE_AGAINST_REST if column.is_categorical else ORDERED,
        parts=[part] * n,
        bins=list(range(n)),
        features=[feature] * n,
        thresholds=_split_values(column),
        is_left=[False] * n,
        common=common,
        missing=missing_bin(column),
    )


def _split_values(column: ColumnBins) -> list[float]:
    """Return the raw comparison of every bin of an ordered or categorical column."""
    values = [float(v) for v in column.edges]
    if column.is_categorical:
        return values + [np.nan] * int(column.has_missing)
    return values + [float(TOP_THRESHOLD)] * (1 + int(column.has_missing))


def bundle_column(members: list[int], columns: Sequence[ColumnBins], part: int) -> HistogramColumn:
    """Return the column of indicators of which no row has two; bin 0, "none of them", is not a split of its own."""
    n, thresholds = len(members), [float(columns[j].edges[0]) for j in members]
    return HistogramColumn(
        ONE_AGAINST_REST,
        parts=[part] * (n + 1),
        bins=list(range(n + 1)),
        features=[members[0], *members],
        thresholds=[thresholds[0], *thresholds],
        is_left=[False] * (n + 1),
        first=1,
    )


def indicator_column(members: list[int], columns: Sequence[ColumnBins], common: NDArray[np.int64]) -> HistogramColumn:
    """Return a run of two-valued columns, one position each: that of the rarer value."""
    return HistogramColumn(
        INDICATORS,
        parts=list(members),
        bins=[0] * len(members),
        features=list(members),
        thresholds=[float(columns[j].edges[0]) for j in members],
        is_left=[bool(common[j] == 1) for j in members],
    )


def sparse_columns(
    columns: tuple[ColumnBins, ...], live: list[int], common: NDArray[np.int64]
) -> list[HistogramColumn]:
    """Lay out ordered and categorical columns, then all two-valued ones as a run of single positions."""
    # A two-valued column needs one position: the other value is the node's total less this one. Thousands of indicators
    # then take thousands of positions, not twice as many, and one scan.
    is_pair = {
        j for j in live if columns[j].n_bins == 2 and not columns[j].has_missing and not columns[j].is_categorical
    }
    laid_out = [plain_column(j, columns[j], j, int(common[j])) for j in live if j not in is_pair]
    pairs = [j for j in live if j in is_pair]
    runs = (pairs[first : first + MAX_BLOCK] for first in range(0, len(pairs), MAX_BLOCK))
    return laid_out + [indicator_column(run, columns, common) for run in runs]


def cut_blocks(laid_out: list[HistogramColumn]) -> list[list[int]]:
    """Divide histogram columns into runs of at most ``MAX_BLOCK`` positions."""
    # A column is never divided: its running sums are taken within one block. No column is longer than a block.
    blocks: list[list[int]] = [[]]
    size = 0
    for k, column in enumerate(laid_out):
        if size + column.n_bins > MAX_BLOCK and blocks[-1]:
            blocks.append([])
            size = 0
        blocks[-1].append(k)
        size += column.n_bins
    return blocks


def find_parts(
    laid_out: list[HistogramColumn], blocks: list[list[int]], columns: tuple[ColumnBins, ...]
) -> NDArray[Any]:
    """Return where each context column's codes lie in the rows of a sparse layout, of PART."""
    part = np.zeros(len(columns), PART)
    part["missing"] = [missing_bin(column) for column in columns]
    span = part[["block", "first_code", "n_codes", "first_bin", "common"]]
    for number, block in enumerate(blocks):
        offset = 0
        for k in block:
            column = laid_out[k]
            if column.kind == INDICATORS:  # the rarer value has the code; the common one is its absence
                for local, feature in enumerate(column.features):
                    common = int(column.is_left[local])
                    span[feature] = number, offset + local, 1, 1 - common, common
            else:
                span[column.features[0]] = number, offset, column.n_bins, 0, column.common
            offset += column.n_bins
    return part


class StoredRows(NamedTuple):
    """Those arrays of `Binned` that are made of the rows, and how columns are found in them."""

    codes: NDArray[np.uint16]
    row_start: NDArray[np.int64]
    block_code: NDArray[np.int64]
    part_bins: NDArray[np.uint8]
    part: NDArray[Any]


def assemble(
    laid_out: list[HistogramColumn],
    columns: tuple[ColumnBins, ...],
    n_samples: int,
    stored: StoredRows,
    *,
    has_width: bool,
) -> BinnedContext:
    """Return binned contexts from histogram columns and the rows stored in them.

    With ``has_width`` every row has one code for each column.
    """
    column = _columns_of(laid_out)
    position = _positions_of(laid_out)
    arrays = Binned(block=_blocks_of(laid_out, has_width), column=column, position=position, **stored._asdict())
    thresholds = np.array([value for one in laid_out for value in one.thresholds], np.float32)
    feature = np.ascontiguousarray(position["feature"])
    is_category = np.array([columns[j].is_categorical for j in feature], bool)
    splits = SplitTable(feature, thresholds, position["is_equal"] & is_category)
    return BinnedContext(columns, arrays, splits, n_samples)


def _columns_of(laid_out: list[HistogramColumn]) -> NDArray[Any]:
    column = np.zeros(len(laid_out), COLUMN)
    for name in ("n_bins", "common", "missing", "first", "kind"):
        column[name] = [getattr(one, name) for one in laid_out]
    column["start"] = np.cumsum(column["n_bins"]) - column["n_bins"]
    return column


def _positions_of(laid_out: list[HistogramColumn]) -> NDArray[Any]:
    position = np.zeros(sum(one.n_bins for one in laid_out), POSITION)
    for name, values in (("feature", "features"), ("part", "parts"), ("bin", "bins"), ("is_left", "is_left")):
        position[name] = [value for one in laid_out for value in getattr(one, values)]
    position["is_equal"] = [one.kind == ONE_AGAINST_REST for one in laid_out for _ in one.bins]
    return position


def _blocks_of(laid_out: list[HistogramColumn], has_width: bool) -> NDArray[Any]:
    cut = cut_blocks(laid_out)
    block = np.zeros(len(cut), BLOCK)
    n_columns = np.array([len(one) for one in cut])
    n_positions = np.array([sum(laid_out[k].n_bins for k in one) for one in cut])
    block["row_width"] = n_columns if has_width else 0
    block["column_end"], block["position_end"] = np.cumsum(n_columns), np.cumsum(n_positions)
    block["column_start"] = block["column_end"] - n_columns
    block["position_start"] = block["position_end"] - n_positions
    return block
