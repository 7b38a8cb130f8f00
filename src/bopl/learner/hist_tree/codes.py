"""Contexts to codes: the rows of binned contexts in either layout, from a dense or a CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bopl._kernel import njit
from bopl.learner.hist_tree.binning import ColumnBins, ColumnEntries, csr_entries, dense_bins, dense_counts, zero_bin
from bopl.learner.hist_tree.histogram_column import (
    NO_BIN,
    HistogramColumn,
    StoredRows,
    assemble,
    bundle_column,
    cut_blocks,
    find_parts,
    missing_bin,
    plain_column,
    sparse_columns,
)
from bopl.learner.hist_tree.layout import Layout, find_bundles, layout_for
from bopl.learner.hist_tree.storage import PART, BinnedContext


def bin_context(context: Any, columns: tuple[ColumnBins, ...]) -> BinnedContext:
    """Bin the training contexts into whichever layout needs fewer additions per row."""
    if sparse.issparse(context):
        entries = csr_entries(context, columns)
        layout = layout_for(columns, context.shape[0], [one.by_bin for one in entries], None)
        return _store_csr(entries, context.shape[0], layout)
    bins = dense_bins(context, columns)
    layout = layout_for(columns, context.shape[0], dense_counts(bins, columns), find_bundles(bins, columns))
    return _store_dense(bins, layout)


def store_context(context: Any, layout: Layout) -> BinnedContext:
    """Bin some rows into a layout that was chosen for all."""
    if sparse.issparse(context):
        return _store_csr(csr_entries(context, layout.columns), context.shape[0], layout)
    return _store_dense(dense_bins(context, layout.columns), layout)


def _store_dense(bins: NDArray[np.uint8], layout: Layout) -> BinnedContext:
    return _store_fixed(bins, layout) if layout.is_fixed else _store_sparse(bins, layout)


# -- One code per histogram column and row -----------------------------------------------------------------------------


def _store_fixed(bins: NDArray[np.uint8], layout: Layout) -> BinnedContext:
    n_samples = bins.shape[1]
    laid_out, part_rows, part_missing = _fixed_columns(bins, layout)
    blocks, codes = cut_blocks(laid_out), []
    for block in blocks:
        offset = np.cumsum([0] + [laid_out[k].n_bins for k in block]).astype(np.int64)
        rows = np.empty((n_samples, len(block)), np.uint16)
        for local, k in enumerate(block):
            rows[:, local] = part_rows[k].astype(np.int64) + offset[local]
        codes.append(rows.ravel())
    part_bins = np.ascontiguousarray(np.stack(part_rows)) if part_rows else np.zeros((0, n_samples), np.uint8)
    stored = StoredRows(
        codes=np.concatenate(codes),
        # Without any column that varies the block has width 0 and is read as a sparse one: every row is empty.
        row_start=np.zeros((len(blocks), 1 if laid_out else n_samples + 1), np.int64),
        block_code=np.cumsum([0] + [len(one) for one in codes[:-1]]).astype(np.int64),
        part_bins=part_bins,
        part=np.zeros(len(part_rows), PART),
    )
    stored.part["missing"] = part_missing
    return assemble(laid_out, layout.columns, n_samples, stored, has_width=True)


def _fixed_columns(
    bins: NDArray[np.uint8], layout: Layout
) -> tuple[list[HistogramColumn], list[NDArray[np.uint8]], list[int]]:
    """Return the histogram columns, the bins of each by row, and their missing bins."""
    columns = layout.columns
    first_of = {members[0]: members for members in layout.bundles}
    skipped = {j for members in layout.bundles for j in members[1:]}
    laid_out: list[HistogramColumn] = []
    part_rows: list[NDArray[np.uint8]] = []
    part_missing: list[int] = []
    for j in layout.live:
        if j in skipped:
            continue
        part = len(part_rows)
        if j not in first_of:
            laid_out.append(plain_column(j, columns[j], part))
            part_rows.append(bins[j])
            part_missing.append(missing_bin(columns[j]))
            continue
        members, code = first_of[j], np.zeros(bins.shape[1], np.uint8)
        for k, member in enumerate(members):
            code += bins[member] * np.uint8(k + 1)
        laid_out.append(bundle_column(members, columns, part))
        part_rows.append(code)
        part_missing.append(NO_BIN)
    return laid_out, part_rows, part_missing


# -- Codes of the values that differ from their column's most common bin -----------------------------------------------


def _store_sparse(bins: NDArray[np.uint8], layout: Layout) -> BinnedContext:
    """From a dense matrix of bins."""
    laid_out = sparse_columns(layout.columns, layout.live, layout.common)
    blocks = cut_blocks(laid_out)
    part = find_parts(laid_out, blocks, layout.columns)
    features = np.array([j for column in laid_out for j in column.own_features], np.int64)
    row_start = np.zeros((len(blocks), bins.shape[1] + 1), np.int64)
    _count_codes(bins, features, part, row_start)
    _accumulate_starts(row_start)
    codes = np.empty(int(row_start[-1, -1]), np.uint16)
    _write_codes(bins, features, part, row_start.copy(), codes)
    return _assemble_sparse(laid_out, layout.columns, codes, row_start, bins, part)


def _store_csr(stored: list[ColumnEntries], n_samples: int, layout: Layout) -> BinnedContext:
    """Straight from a CSR matrix; no (n, d) array is made."""
    columns = layout.columns
    entries = [_uncommon(one, columns[j], int(layout.common[j]), n_samples) for j, one in enumerate(stored)]
    laid_out = sparse_columns(columns, layout.live, layout.common)
    blocks = cut_blocks(laid_out)
    part = find_parts(laid_out, blocks, columns)
    row_start = np.zeros((len(blocks), n_samples + 1), np.int64)
    for j in layout.live:
        np.add.at(row_start[part[j]["block"]], entries[j][0] + 1, 1)
    _accumulate_starts(row_start)
    codes = np.empty(int(row_start[-1, -1]), np.uint16)
    cursor = row_start.copy()
    for column in laid_out:
        for j in column.own_features:
            block, (rows, bins) = part[j]["block"], entries[j]
            codes[cursor[block, rows]] = part[j]["first_code"] + bins.astype(np.int64) - part[j]["first_bin"]
            cursor[block, rows] += 1
    return _assemble_sparse(laid_out, columns, codes, row_start, np.zeros((0, n_samples), np.uint8), part)


def _uncommon(entries: ColumnEntries, column: ColumnBins, common: int, n_samples: int) -> tuple[Any, Any]:
    """Return rows and bins of the values that are not in the common bin."""
    rows, bins = entries.rows, entries.bins
    if common != zero_bin(column):  # zeros are not the most common value here: they need codes
        full = np.full(n_samples, zero_bin(column), np.uint8)
        full[rows] = bins
        rows, bins = np.arange(n_samples, dtype=rows.dtype), full
    keep = bins != common
    return rows[keep], bins[keep]


def _assemble_sparse(
    laid_out: list[HistogramColumn],
    columns: tuple[ColumnBins, ...],
    codes: NDArray[np.uint16],
    row_start: NDArray[np.int64],
    part_bins: NDArray[np.uint8],
    part: NDArray[Any],
) -> BinnedContext:
    """Return binned contexts whose rows are of different lengths."""
    n_blocks, n_samples = len(row_start), row_start.shape[1] - 1
    stored = StoredRows(
        codes=codes,
        row_start=row_start,
        block_code=np.zeros(n_blocks, np.int64),
        part_bins=part_bins,
        part=part,
    )
    return assemble(laid_out, columns, n_samples, stored, has_width=False)


def _accumulate_starts(row_start_out: NDArray[np.int64]) -> None:
    """Turn counts at ``[b, i + 1]`` into starts, block after block in one array of codes."""
    base = 0
    for b in range(len(row_start_out)):
        row_start_out[b, 0] = base
        np.cumsum(row_start_out[b], out=row_start_out[b])
        base = int(row_start_out[b, -1])


@njit(nogil=True, cache=True)
def _count_codes(bins, features, part, count_out):  # type: ignore[no-untyped-def]
    """Add each row's codes in block b to ``count_out[b, row + 1]``."""
    for f in features:
        block, common = part[f].block, part[f].common
        for i in range(bins.shape[1]):
            count_out[block, i + 1] += bins[f, i] != common


@njit(nogil=True, cache=True)
def _write_codes(bins, features, part, cursor_out, codes_out):  # type: ignore[no-untyped-def]
    """Write the codes feature by feature, so that each row's codes ascend; the cursors say where the next goes."""
    # Ascending codes let `partition` search a row by halves, and keep a row's additions in the order of memory.
    for f in features:
        block, common = part[f].block, part[f].common
        offset = part[f].first_code - part[f].first_bin
        for i in range(bins.shape[1]):
            if bins[f, i] != common:
                codes_out[cursor_out[block, i]] = offset + bins[f, i]
                cursor_out[block, i] += 1
