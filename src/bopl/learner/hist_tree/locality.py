"""The order of contexts in memory: those that trees put together lie together.

A deep node holds a few hundred contexts. In the order of the log these lie scattered, and every byte read of one costs
a cache line. A tree fitted once to the logged rewards tells which contexts belong together: stored leaf after leaf,
later trees find most of a node's contexts side by side, whatever their own splits are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.storage import BinnedContext

MIN_CONTEXTS = 1 << 15  # fewer are in the cache in any order


@dataclass(frozen=True)
class RowOrder:
    """How contexts are stored.

    Attributes
    ----------
    row : ndarray of int32, shape (n_samples,)
        The log's row at each place.
    place : ndarray of int32, shape (n_samples,)
        The place of each of the log's rows.
    """

    row: NDArray[np.int32]
    place: NDArray[np.int32]


def order_by(key: NDArray[Any]) -> RowOrder:
    """Return the order of ascending keys, rows with equal keys as in the log."""
    row = np.argsort(key, kind="stable").astype(np.int32)
    place = np.empty_like(row)
    place[row] = np.arange(len(row), dtype=np.int32)
    return RowOrder(row, place)


def store_in_order(binned: BinnedContext, order: RowOrder) -> BinnedContext:
    """Return the same contexts stored in another order."""
    arrays = binned.arrays
    codes = np.empty_like(arrays.codes)
    row_start = arrays.row_start.copy()
    for block, width in enumerate(arrays.row_width.tolist()):
        if width > 0:
            start = int(arrays.block_code[block])
            here = slice(start, start + binned.n_samples * width)
            shape = (binned.n_samples, width)
            np.take(arrays.codes[here].reshape(shape), order.row, axis=0, out=codes[here].reshape(shape), mode="clip")
        else:
            _take_sparse_rows(arrays.codes, arrays.row_start[block], order.row, row_start[block], codes)
    part_bins = np.empty_like(arrays.part_bins)
    for bins, ordered in zip(arrays.part_bins, part_bins, strict=True):
        take(bins, order.row, ordered)
    return replace(binned, arrays=arrays._replace(codes=codes, row_start=row_start, part_bins=part_bins))


@njit(nogil=True, cache=True)
def take(values, index, taken_out):  # type: ignore[no-untyped-def]
    """Write ``values[index]``."""
    for k in range(len(index)):
        taken_out[k] = values[np.uint64(index[k])]


@njit(nogil=True, cache=True)
def _take_sparse_rows(codes, row_start, rows, start_out, codes_out):  # type: ignore[no-untyped-def]
    """Copy rows of codes one after another, beginning where the block begins."""
    cursor = row_start[0]
    for k in range(len(rows)):
        start_out[k] = cursor
        for j in range(row_start[rows[k]], row_start[rows[k] + 1]):
            codes_out[cursor] = codes[j]
            cursor += 1
    start_out[len(rows)] = cursor
