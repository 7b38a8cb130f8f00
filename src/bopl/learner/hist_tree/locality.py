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
from bopl.learner.hist_tree.action_split import ActionTable
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.engine import EngineRows, GrowthTask
from bopl.learner.hist_tree.grid import largest_of
from bopl.learner.hist_tree.limits import Limits
from bopl.learner.hist_tree.memory import MemoryEngine, MemorySource
from bopl.learner.hist_tree.problem import make_grids
from bopl.learner.hist_tree.storage import BinnedContext

MIN_CONTEXTS = 1 << 15  # fewer are in the cache in any order
ORDER_DEPTH, ORDER_LEAF = 20, 64.0  # depth and least leaf of the tree that gives the contexts their order


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


def find_order(binned: BinnedContext, reward: NDArray[np.float64], n_jobs: int) -> RowOrder | None:
    """Return the order of contexts by leaf of a tree fitted to the rewards, or None if they are too few to matter."""
    n_samples = binned.n_samples
    if n_samples < MIN_CONTEXTS:
        return None
    engine = MemoryEngine(n_jobs).bind(EngineRows(binned, n_samples, 1), has_count=False)
    gradient, leaf = (reward - reward.mean())[None], np.empty((1, n_samples))
    source = MemorySource(gradient, np.ones(n_samples), leaf)
    task = GrowthTask(
        Limits(
            max_depth=ORDER_DEPTH,
            min_child_weight=ORDER_LEAF,
            min_samples_leaf=1,
            reg_lambda=0.0,
            colsample=1.0,
            n_always=0,
            n_features=len(binned.columns),
            seed=0,
            large=n_samples + 1,
        ),
        ActionTable(np.zeros((0, 1), np.int32), np.zeros((0, 1))),
        make_grids(largest_of(gradient), 1.0, n_samples, 1),
    )
    nodes = engine.grow(source, task)
    nodes["value"] = np.arange(len(nodes))  # in preorder, so that neighbouring leaves have neighbouring numbers
    engine.apply(source, GrownTree(nodes, np.zeros((len(nodes), 1), np.uint64)), is_as_grown=False)
    return order_by(leaf[0])


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
    for block, width in enumerate(arrays.block["row_width"].tolist()):
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
