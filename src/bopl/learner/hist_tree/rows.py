"""Rows of stored contexts: some of them, or those of several parts one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.storage import BinnedContext


def take_rows(binned: BinnedContext, rows: NDArray[np.int32]) -> BinnedContext:
    """Return some of the stored contexts, or all of them, in the order of ``rows``."""
    arrays, n_rows = binned.arrays, len(rows)
    starts, block_code = np.zeros((len(arrays.block), n_rows + 1), np.int64), []
    codes: list[NDArray[np.uint16]] = []
    base = 0
    for block, width in enumerate(arrays.block["row_width"].tolist()):
        block_code.append(base)
        if width > 0:
            start = int(arrays.block_code[block])
            here = arrays.codes[start : start + binned.n_samples * width].reshape(binned.n_samples, width)
            codes.append(np.take(here, rows, axis=0).reshape(-1))
        else:
            own = arrays.row_start[block]
            codes.append(np.empty(int((own[rows.astype(np.int64) + 1] - own[rows]).sum()), np.uint16))
            _take_sparse_rows(arrays.codes, own, rows, codes[-1], starts[block])
            starts[block] += base
        base += len(codes[-1])
    part_bins = np.empty((len(arrays.part_bins), n_rows), arrays.part_bins.dtype)
    for bins, taken in zip(arrays.part_bins, part_bins, strict=True):
        take(bins, rows, taken)
    return _with_rows(binned, codes, starts, block_code, part_bins, n_rows)


@njit(nogil=True, cache=True)
def take(values, index, taken_out):  # type: ignore[no-untyped-def]
    """Write ``values[index]``."""
    for k in range(len(index)):
        taken_out[k] = values[np.uint64(index[k])]


@njit(nogil=True, cache=True)
def _take_sparse_rows(codes, row_start, rows, codes_out, start_out):  # type: ignore[no-untyped-def]
    """Copy rows of codes one after another, and write where each begins."""
    cursor = 0
    for k in range(len(rows)):
        start_out[k] = cursor
        for j in range(row_start[rows[k]], row_start[rows[k] + 1]):
            codes_out[cursor] = codes[j]
            cursor += 1
    start_out[len(rows)] = cursor


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
    n_rows, n_blocks = sum(end - start for _, start, end in parts), len(layout.arrays.block)
    codes, starts, block_code = [], np.zeros((n_blocks, n_rows + 1), np.int64), []
    base = 0
    for block, width in enumerate(layout.arrays.block["row_width"].tolist()):
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
    """Return contexts of the same layout with other rows."""
    has_width = binned.arrays.block["row_width"] > 0
    arrays = binned.arrays._replace(
        codes=codes[0] if len(codes) == 1 else np.concatenate(codes),
        row_start=np.zeros((len(starts), 1), np.int64) if has_width.all() else starts,
        block_code=np.array(block_code, np.int64) * has_width,
        part_bins=part_bins,
    )
    return replace(binned, arrays=arrays, n_samples=n_rows)
