"""Binned contexts as the kernels read them.

Every row is a short list of *codes*: positions in the histogram to which the row adds itself. Two layouts share that
idea:

- fixed: each histogram column contributes one code, mutually exclusive indicators being bundled into one column;
- sparse: only values that differ from their column's most common bin have a code; that bin is recovered from the
  node's total. All two-valued columns together form one histogram column, one position each.

Codes are 16 bit, so the histogram is cut into blocks of at most 65536 positions; a block also fits the second-level
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bopl._kernel import njit
from bopl.learner.hist_tree.binning import ColumnBins, bin_values

MAX_BLOCK = 1 << 16  # what 16 bits can count
BLOCK = MAX_BLOCK  # smaller blocks gain less in cache than they cost in loops over short rows
FIXED_EXCESS = 1.3  # the fixed layout's constant row length is worth this many more codes
MIN_BUNDLE_COVER = 0.5  # a bundle that is mostly "none of them" saves nothing

ORDERED, ONE_AGAINST_REST, INDICATORS = 0, 1, 2
TOP_THRESHOLD = np.finfo(np.float32).max  # every present value is below it: present left, missing right


class Binned(NamedTuple):
    """The arrays that the growing kernels read; positions are histogram positions.

    ``codes`` of row i in block b lie at ``block_code[b] + i * row_width[b]`` (fixed) or between ``row_start[b, i]`` and
    ``row_start[b, i + 1]`` (sparse, ``row_width[b] == 0``), relative to ``block_position[b]``.
    """

    codes: NDArray[np.uint16]
    row_start: NDArray[np.int64]
    row_width: NDArray[np.int64]
    block_code: NDArray[np.int64]
    block_position: NDArray[np.int64]  # (n_blocks + 1,)
    block_column: NDArray[np.int64]  # (n_blocks + 1,) first histogram column of each block
    column_start: NDArray[np.int64]  # first position of each histogram column
    column_bins: NDArray[np.int64]  # its number of positions, the missing one included
    column_common: NDArray[np.int64]  # bin without codes, or -1
    column_missing: NDArray[np.int64]  # bin of missing values, or -1
    column_kind: NDArray[np.int64]  # ORDERED, ONE_AGAINST_REST or INDICATORS
    column_first: NDArray[np.int64]  # first bin that is a split; 1 for bundles, whose bin 0 is "none of them"
    position_feature: NDArray[np.int32]  # context column that a split at this position reads
    position_part: NDArray[np.int32]  # partition column that a split at this position reads
    position_bin: NDArray[np.int32]  # ... and the bin it compares with
    position_is_equal: NDArray[np.bool_]  # bin == there goes right; otherwise bin <= there goes left
    position_is_left: NDArray[np.bool_]  # indicator whose rarer value is the smaller one
    part_bins: NDArray[np.uint8]  # (n_parts, n_samples) bins by column, or no rows for CSR contexts
    part_missing: NDArray[np.int64]
    part_span: NDArray[np.int64]  # (n_parts, 5): block, first code, number of codes, bin of the first, common bin


@dataclass(frozen=True)
class SplitTable:
    """What a split at each histogram position means for a raw context."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    is_equal: NDArray[np.bool_]  # x == threshold goes right (NaN: missing goes right)


@dataclass(frozen=True)
class BinnedContext:
    """Binned training contexts and the meaning of their splits."""

    columns: tuple[ColumnBins, ...]
    arrays: Binned
    splits: SplitTable
    n_samples: int

    @property
    def n_positions(self) -> int:
        """Length of a histogram."""
        return int(self.arrays.block_position[-1])


@dataclass
class _Column:
    """One histogram column being laid out: its bins, and for each the feature and threshold of its split."""

    kind: int
    n_bins: int
    first: int
    common: int
    missing: int
    parts: list[int]
    bins: list[int]
    features: list[int]
    thresholds: list[float]
    is_left: list[bool]


def _split_values(column: ColumnBins) -> list[float]:
    """Return the raw comparison of every bin of an ordered or categorical column."""
    values = [float(v) for v in column.edges]
    if column.is_categorical:
        return values + [np.nan] * int(column.has_missing)
    return values + [float(TOP_THRESHOLD)] * (1 + int(column.has_missing))


def _plain_column(feature: int, column: ColumnBins, part: int, common: int) -> _Column:
    kind = ONE_AGAINST_REST if column.is_categorical else ORDERED
    # A missing category is one more category; only an ordered column learns a side for it.
    missing = column.n_bins - 1 if column.has_missing and not column.is_categorical else -1
    n = column.n_bins
    return _Column(
        kind, n, 0, common, missing, [part] * n, list(range(n)), [feature] * n, _split_values(column), [False] * n
    )


def _grouped_column(
    kind: int, members: list[int], columns: Any, parts: list[int], bins: list[int], is_left: Any
) -> _Column:
    """Return a column whose positions are one indicator each."""
    thresholds = [float(columns[j].edges[0]) for j in members]
    n = len(members)
    return _Column(kind, n, 0, -1, -1, parts, bins, list(members), thresholds, list(is_left))


@dataclass(frozen=True)
class Layout:
    """How contexts are stored: the same for all rows, wherever they are.

    Attributes
    ----------
    columns : tuple of ColumnBins
    is_fixed : bool
        One code per histogram column and row; otherwise codes of values that differ from the common ones.
    bundles : list of list of int
        Indicator columns that share a histogram column of the fixed layout.
    common : ndarray of int64
        Most common bin of every column, for the sparse layout.
    """

    columns: tuple[ColumnBins, ...]
    is_fixed: bool
    bundles: list[list[int]]
    common: NDArray[np.int64]

    @property
    def live(self) -> list[int]:
        """Columns with more than one bin."""
        return [j for j, column in enumerate(self.columns) if column.n_bins > 1]


@dataclass(frozen=True)
class BinFacts:
    """What the layout is chosen by; those of several parts of the rows are added.

    Attributes
    ----------
    n_samples : int
    counts : list of ndarray of int64
        Rows in each bin of every column.
    clashes : ndarray of int64, shape (n_indicators, n_indicators), or None
        Rows in which two indicator columns are both set; None if the contexts are sparse, which are not bundled.
    """

    n_samples: int
    counts: list[NDArray[np.int64]]
    clashes: NDArray[np.int64] | None

    def __add__(self, other: BinFacts) -> BinFacts:
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        clashes = None if self.clashes is None or other.clashes is None else self.clashes + other.clashes
        return BinFacts(self.n_samples + other.n_samples, counts, clashes)


def bin_facts(context: Any, columns: tuple[ColumnBins, ...]) -> BinFacts:
    """Return the facts of some rows."""
    if sparse.issparse(context):
        return BinFacts(context.shape[0], [count for _, _, count in _csr_entries(context, columns)], None)
    bins = _dense_bins(context, columns)
    is_set = bins[[j for j, column in enumerate(columns) if column.is_indicator]].astype(np.float32)
    return BinFacts(context.shape[0], _dense_counts(bins, columns), (is_set @ is_set.T).astype(np.int64))


def choose_layout(columns: tuple[ColumnBins, ...], facts: BinFacts) -> Layout:
    """Return whichever layout needs fewer additions per row."""
    if facts.clashes is None:
        return _chosen(columns, facts.n_samples, facts.counts, None)
    indicators = [j for j, column in enumerate(columns) if column.is_indicator]
    place = {j: k for k, j in enumerate(indicators)}
    clashes = facts.clashes

    def is_free(j: int, members: list[int]) -> bool:
        return not any(clashes[place[j], place[other]] for other in members)

    def cover(members: list[int]) -> float:
        return sum(int(facts.counts[j][1]) for j in members) / facts.n_samples

    return _chosen(columns, facts.n_samples, facts.counts, _bundle(columns, is_free, cover))


def _chosen(
    columns: tuple[ColumnBins, ...], n_samples: int, counts: list[NDArray[np.int64]], bundles: list[list[int]] | None
) -> Layout:
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
    max_bins: int = 256,
) -> list[list[int]]:
    """Group neighbouring indicator columns of which no row has two, where together they cover half of the rows."""
    bundles: list[list[int]] = []
    members: list[int] = []
    for j in [*range(len(columns)), -1]:
        is_indicator = j >= 0 and columns[j].is_indicator
        if is_indicator and len(members) < max_bins - 1 and is_free(j, members):
            members.append(j)
            continue
        if len(members) > 1 and cover(members) >= MIN_BUNDLE_COVER:
            bundles.append(members)
        members = [j] if is_indicator else []
    return bundles


def find_bundles(bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...], max_bins: int = 256) -> list[list[int]]:
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

    return _bundle(columns, is_free, cover, max_bins)


def _dense_bins(context: Any, columns: tuple[ColumnBins, ...]) -> NDArray[np.uint8]:
    bins = np.empty((len(columns), context.shape[0]), np.uint8)
    for j in range(len(columns)):
        bins[j] = bin_values(context[:, j], columns[j]) if columns[j].n_bins > 1 else 0
    return bins


def _dense_counts(bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...]) -> list[NDArray[np.int64]]:
    return [np.bincount(bins[j], minlength=columns[j].n_bins) for j in range(len(columns))]


def bin_context(context: Any, columns: tuple[ColumnBins, ...]) -> BinnedContext:
    """Bin the training contexts into whichever layout needs fewer additions per row."""
    if sparse.issparse(context):
        entries = _csr_entries(context, columns)
        layout = _chosen(columns, context.shape[0], [count for _, _, count in entries], None)
        return _store_csr(entries, context.shape[0], layout)
    bins = _dense_bins(context, columns)
    layout = _chosen(columns, context.shape[0], _dense_counts(bins, columns), find_bundles(bins, columns))
    return _store_dense(bins, layout)


def store_context(context: Any, layout: Layout) -> BinnedContext:
    """Bin some rows into a layout that was chosen for all."""
    if sparse.issparse(context):
        return _store_csr(_csr_entries(context, layout.columns), context.shape[0], layout)
    return _store_dense(_dense_bins(context, layout.columns), layout)


def _store_dense(bins: NDArray[np.uint8], layout: Layout) -> BinnedContext:
    if layout.is_fixed:
        return _store_fixed(bins, layout.columns, layout.live, layout.bundles)
    return _store_sparse_dense(bins, layout.columns, layout.live, layout.common)


def _cut_blocks(layout: list[_Column]) -> list[list[int]]:
    """Divide histogram columns into runs of about ``BLOCK`` positions, never more than ``MAX_BLOCK``."""
    blocks: list[list[int]] = [[]]
    size = 0
    for k, column in enumerate(layout):
        if size + column.n_bins > BLOCK and blocks[-1]:
            blocks.append([])
            size = 0
        blocks[-1].append(k)
        size += column.n_bins
    return blocks


def _assemble(
    layout: list[_Column], columns: tuple[ColumnBins, ...], n_samples: int, storage: dict[str, Any], part_missing: Any
) -> BinnedContext:
    """Build the record from the laid-out columns and the stored codes."""
    size = [c.n_bins for c in layout]
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)

    def flat(name: str) -> list[Any]:
        return [v for c in layout for v in getattr(c, name)]

    equal = np.repeat([c.kind == ONE_AGAINST_REST for c in layout], size).astype(bool)
    arrays = Binned(
        block_column=np.cumsum([0] + [len(block) for block in _cut_blocks(layout)]).astype(np.int64),
        column_start=start[:-1],
        column_bins=np.array(size, np.int64),
        column_common=np.array([c.common for c in layout], np.int64),
        column_missing=np.array([c.missing for c in layout], np.int64),
        column_kind=np.array([c.kind for c in layout], np.int64),
        column_first=np.array([c.first for c in layout], np.int64),
        position_feature=np.array(flat("features"), np.int32),
        position_part=np.array(flat("parts"), np.int32),
        position_bin=np.array(flat("bins"), np.int32),
        position_is_equal=equal,
        position_is_left=np.array(flat("is_left"), bool),
        part_missing=np.asarray(part_missing, np.int64),
        **storage,
    )
    is_category = np.array([columns[j].is_categorical for j in arrays.position_feature], bool)
    splits = SplitTable(arrays.position_feature, np.array(flat("thresholds"), np.float32), equal & is_category)
    return BinnedContext(columns, arrays, splits, n_samples)


def _missing_bin(column: ColumnBins) -> int:
    return column.n_bins - 1 if column.has_missing and not column.is_categorical else -1


def _store_fixed(
    bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...], live: list[int], bundles: list[list[int]]
) -> BinnedContext:
    """One code per histogram column and row."""
    n_samples = bins.shape[1]
    first_of = {members[0]: members for members in bundles}
    skipped = {j for members in bundles for j in members[1:]}
    layout: list[_Column] = []
    part_rows: list[NDArray[np.uint8]] = []
    part_missing: list[int] = []
    for j in live:
        if j in skipped:
            continue
        part = len(part_rows)
        if j not in first_of:
            layout.append(_plain_column(j, columns[j], part, -1))
            part_rows.append(bins[j])
            part_missing.append(_missing_bin(columns[j]))
            continue
        members = first_of[j]
        code = np.zeros(n_samples, np.uint8)
        for k, member in enumerate(members):
            code += bins[member] * np.uint8(k + 1)
        column = _grouped_column(
            ONE_AGAINST_REST,
            members,
            columns,
            [part] * len(members),
            list(range(1, len(members) + 1)),
            [False] * len(members),
        )
        layout.append(_with_none_bin(column, part))
        part_rows.append(code)
        part_missing.append(-1)
    blocks = _cut_blocks(layout)
    codes, widths, code_start, position = [], [], [0], [0]
    for block in blocks:
        offset = np.concatenate([[0], np.cumsum([layout[k].n_bins for k in block])]).astype(np.int64)
        rows = np.empty((n_samples, len(block)), np.uint16)
        for local, k in enumerate(block):
            rows[:, local] = part_rows[k].astype(np.int64) + offset[local]
        codes.append(rows.ravel())
        widths.append(len(block))
        code_start.append(code_start[-1] + rows.size)
        position.append(position[-1] + int(offset[-1]))
    part_bins = np.ascontiguousarray(np.stack(part_rows)) if part_rows else np.zeros((0, n_samples), np.uint8)
    storage = {
        "codes": np.concatenate(codes),
        # Without any column that varies the block has width 0 and is read as a sparse one: every row is empty.
        "row_start": np.zeros((len(blocks), 1 if layout else n_samples + 1), np.int64),
        "row_width": np.array(widths, np.int64),
        "block_code": np.array(code_start[:-1], np.int64),
        "block_position": np.array(position, np.int64),
        "part_bins": part_bins,
        "part_span": np.zeros((len(part_rows), 5), np.int64),
    }
    return _assemble(layout, columns, n_samples, storage, part_missing)


def _with_none_bin(column: _Column, part: int) -> _Column:
    """Add bin 0, "none of the members", which is no split of its own."""
    return _Column(
        column.kind,
        column.n_bins + 1,
        1,
        -1,
        -1,
        [part, *column.parts],
        [0, *column.bins],
        [column.features[0], *column.features],
        [column.thresholds[0], *column.thresholds],
        [False, *column.is_left],
    )


def _sparse_layout(columns: tuple[ColumnBins, ...], live: list[int], common: NDArray[np.int64]) -> list[_Column]:
    """Lay out ordered and categorical columns, then all two-valued ones as a run of single positions."""
    is_pair = {
        j for j in live if columns[j].n_bins == 2 and not columns[j].has_missing and not columns[j].is_categorical
    }
    layout = [_plain_column(j, columns[j], j, int(common[j])) for j in live if j not in is_pair]
    pairs = [j for j in live if j in is_pair]
    for first in range(0, len(pairs), MAX_BLOCK):
        members = pairs[first : first + MAX_BLOCK]
        layout.append(
            _grouped_column(
                INDICATORS, members, columns, members, [0] * len(members), [bool(common[j] == 1) for j in members]
            )
        )
    return layout


def _spans(
    layout: list[_Column], blocks: list[list[int]], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each feature's codes lie, and the positions at which blocks begin."""
    span = np.zeros((n_features, 5), np.int64)
    position = [0]
    for b, block in enumerate(blocks):
        offset = 0
        for k in block:
            column = layout[k]
            if column.kind == INDICATORS:
                for local, feature in enumerate(column.features):
                    common = int(column.is_left[local])
                    span[feature] = b, offset + local, 1, 1 - common, common
            else:
                span[column.features[0]] = b, offset, column.n_bins, 0, column.common
            offset += column.n_bins
        position.append(position[-1] + offset)
    return span, np.array(position, np.int64)


def _store_sparse_dense(
    bins: NDArray[np.uint8], columns: tuple[ColumnBins, ...], live: list[int], common: NDArray[np.int64]
) -> BinnedContext:
    """Codes of the values that differ from their column's most common bin, from a dense matrix of bins."""
    n_samples = bins.shape[1]
    layout = _sparse_layout(columns, live, common)
    blocks = _cut_blocks(layout)
    span, position = _spans(layout, blocks, len(columns))
    row_start = np.zeros((len(blocks), n_samples + 1), np.int64)
    order = [f for c in layout for f in (c.features if c.kind == INDICATORS else c.features[:1])]
    features = np.array(order, np.int64)
    _count_codes(bins, features, span, row_start)
    _accumulate_starts(row_start)
    codes = np.empty(int(row_start[-1, -1]), np.uint16)
    _write_codes(bins, features, span, row_start.copy(), codes)
    return _finish_sparse(layout, columns, n_samples, codes, row_start, position, bins, span)


def _finish_sparse(
    layout: Any, columns: Any, n_samples: int, codes: Any, row_start: Any, position: Any, part_bins: Any, span: Any
) -> BinnedContext:
    storage = {
        "codes": codes,
        "row_start": row_start,
        "row_width": np.zeros(len(position) - 1, np.int64),
        "block_code": np.zeros(len(position) - 1, np.int64),
        "block_position": position,
        "part_bins": part_bins,
        "part_span": span,
    }
    return _assemble(layout, columns, n_samples, storage, [_missing_bin(c) for c in columns])


def _accumulate_starts(row_start: NDArray[np.int64]) -> None:
    """Turn counts at ``[b, i + 1]`` into starts, block after block in one array of codes."""
    base = 0
    for b in range(len(row_start)):
        row_start[b, 0] = base
        np.cumsum(row_start[b], out=row_start[b])
        base = int(row_start[b, -1])


@njit(nogil=True, cache=True)
def _count_codes(bins, features, span, count_out):  # type: ignore[no-untyped-def]
    for f in features:
        block, common = span[f, 0], span[f, 4]
        for i in range(bins.shape[1]):
            count_out[block, i + 1] += bins[f, i] != common


@njit(nogil=True, cache=True)
def _write_codes(bins, features, span, cursor, codes_out):  # type: ignore[no-untyped-def]
    """Write the codes feature by feature, so that each row's codes ascend."""
    for f in features:
        block, first, low, common = span[f, 0], span[f, 1], span[f, 3], span[f, 4]
        for i in range(bins.shape[1]):
            if bins[f, i] != common:
                codes_out[cursor[block, i]] = first + bins[f, i] - low
                cursor[block, i] += 1


def _csr_entries(context: Any, columns: tuple[ColumnBins, ...]) -> list[tuple[Any, Any, NDArray[np.int64]]]:
    """Return rows and bins of every column's stored values, rows ascending, and the number of rows in each bin."""
    by_column = context.tocsc()
    by_column.sort_indices()
    ends, entries = by_column.indptr, []
    for j, column in enumerate(columns):
        rows = by_column.indices[ends[j] : ends[j + 1]]
        bins = bin_values(by_column.data[ends[j] : ends[j + 1]], column)
        count = np.bincount(bins, minlength=column.n_bins)
        count[_zero_bin(column)] += context.shape[0] - len(rows)
        entries.append((rows, bins, count))
    return entries


def _zero_bin(column: ColumnBins) -> int:
    return int(bin_values(np.zeros(1, np.float32), column)[0])


def _store_csr(stored: list[tuple[Any, Any, NDArray[np.int64]]], n_samples: int, chosen: Layout) -> BinnedContext:
    """The sparse layout straight from a CSR matrix; no (n, d) array is made."""
    columns, common = chosen.columns, chosen.common
    entries: list[tuple[Any, Any]] = []
    for j, (rows, bins, _) in enumerate(stored):
        zero_bin = _zero_bin(columns[j])
        if common[j] != zero_bin:  # zeros are not the most common value here: they need codes
            full = np.full(n_samples, zero_bin, np.uint8)
            full[rows] = bins
            rows, bins = np.arange(n_samples, dtype=rows.dtype), full
        keep = bins != common[j]
        entries.append((rows[keep], bins[keep]))
    layout = _sparse_layout(columns, chosen.live, common)
    blocks = _cut_blocks(layout)
    span, position = _spans(layout, blocks, len(columns))
    row_start = np.zeros((len(blocks), n_samples + 1), np.int64)
    for j in chosen.live:
        np.add.at(row_start[span[j, 0]], entries[j][0] + 1, 1)
    _accumulate_starts(row_start)
    codes = np.empty(int(row_start[-1, -1]), np.uint16)
    cursor = row_start.copy()
    for laid_out in layout:
        for j in laid_out.features if laid_out.kind == INDICATORS else laid_out.features[:1]:
            block, first, _, low, _ = span[j]
            rows, bins = entries[j]
            codes[cursor[block, rows]] = first + bins.astype(np.int64) - low
            cursor[block, rows] += 1
    no_parts = np.zeros((0, n_samples), np.uint8)
    return _finish_sparse(layout, columns, n_samples, codes, row_start, position, no_parts, span)


# -- Rows of stored contexts ------------------------------------------------------------------------------------------


def take_rows(binned: BinnedContext, rows: NDArray[np.int32]) -> BinnedContext:
    """Return some of the stored contexts, in the order of ``rows``."""
    arrays, n_rows = binned.arrays, len(rows)
    codes, starts, block_code = [], np.zeros((len(arrays.row_width), n_rows + 1), np.int64), []
    base = 0
    for block, width in enumerate(arrays.row_width.tolist()):
        block_code.append(base)
        if width > 0:
            start = int(arrays.block_code[block])
            here = arrays.codes[start : start + binned.n_samples * width].reshape(binned.n_samples, width)
            codes.append(here[rows].ravel())
        else:
            first, last = arrays.row_start[block][rows], arrays.row_start[block][rows.astype(np.int64) + 1]
            np.cumsum(last - first, out=starts[block, 1:])
            within = np.arange(int(starts[block, -1])) - np.repeat(starts[block, :-1], last - first)
            codes.append(arrays.codes[np.repeat(first, last - first) + within])
            starts[block] += base
        base += len(codes[-1])
    return _with_rows(binned, codes, starts, block_code, np.ascontiguousarray(arrays.part_bins[:, rows]), n_rows)


class RowCodes(NamedTuple):
    """Those arrays of `Binned` that have something for each row; the others are the layout's."""

    codes: NDArray[np.uint16]
    row_start: NDArray[np.int64]
    block_code: NDArray[np.int64]
    part_bins: NDArray[Any]

    @classmethod
    def of(cls, binned: BinnedContext) -> RowCodes:
        """Return the arrays of stored contexts."""
        return cls(*(getattr(binned.arrays, name) for name in cls._fields))


def join_rows(layout: BinnedContext, parts: Sequence[tuple[RowCodes, int, int]]) -> BinnedContext:
    """Return contexts of one layout one after the other: of each part those from one place to another."""
    n_rows, n_blocks = sum(end - start for _, start, end in parts), len(layout.arrays.row_width)
    codes, starts, block_code = [], np.zeros((n_blocks, n_rows + 1), np.int64), []
    base = 0
    for block, width in enumerate(layout.arrays.row_width.tolist()):
        block_code.append(base)
        place = 0
        for arrays, start, end in parts:
            if width > 0:
                first = int(arrays.block_code[block])
                codes.append(arrays.codes[first + start * width : first + end * width])
            else:
                own = arrays.row_start[block, start : end + 1]
                codes.append(arrays.codes[own[0] : own[-1]])
                starts[block, place : place + end - start + 1] = own - own[0] + base
            base += len(codes[-1])
            place += end - start
    part_bins = np.concatenate([arrays.part_bins[:, start:end] for arrays, start, end in parts], axis=1)
    return _with_rows(layout, codes, starts, block_code, part_bins, n_rows)


def _with_rows(
    binned: BinnedContext, codes: list[Any], starts: Any, block_code: list[int], part_bins: Any, n_rows: int
) -> BinnedContext:
    is_sparse = bool((binned.arrays.row_width == 0).any())
    arrays = binned.arrays._replace(
        codes=np.concatenate(codes),
        row_start=starts if is_sparse else np.zeros((len(starts), 1), np.int64),
        block_code=np.array(block_code, np.int64) * (binned.arrays.row_width > 0),
        part_bins=part_bins,
    )
    return replace(binned, arrays=arrays, n_samples=n_rows)
