"""The order of contexts in memory: those that trees put together lie together.

A deep node holds a few hundred contexts. In the order of the log these lie scattered, and every byte read of one costs
a cache line. A tree fitted once to the logged rewards tells which contexts belong together: stored leaf after leaf,
later trees find most of a node's contexts side by side, whatever their own splits are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.action_split import ActionTable
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.engine import EngineRows, GrowthTask, Limits
from bopl.learner.hist_tree.grid import largest_of
from bopl.learner.hist_tree.memory_engine import MemoryEngine, MemorySource
from bopl.learner.hist_tree.problem import make_grids
from bopl.learner.hist_tree.storage import BinnedContext

MIN_CONTEXTS = 1 << 15  # fewer are in the cache in any order
ORDER_DEPTH, ORDER_LEAF = 20, 64.0  # depth and least leaf of the tree that gives the contexts their order


@dataclass(frozen=True)
class RowOrder:
    """How contexts are stored."""

    row: NDArray[np.int32]  # (n_samples,): the log's row at each place
    place: NDArray[np.int32]  # (n_samples,): the place of each of the log's rows


def find_order(binned: BinnedContext, reward: NDArray[np.float64], n_jobs: int) -> RowOrder | None:
    """Return the order of contexts by leaf of a tree fitted to the rewards, or None if they are too few to matter."""
    n_samples = binned.n_samples
    if n_samples < MIN_CONTEXTS:
        return None
    engine = MemoryEngine(n_jobs).bind(EngineRows(binned, n_samples, 1), has_count=False)
    gradient, leaf = (reward - reward.mean())[None], np.empty((1, n_samples))
    source = MemorySource(gradient, np.ones(n_samples), leaf)
    task = GrowthTask(
        Limits(ORDER_DEPTH, ORDER_LEAF, min_samples_leaf=1, large=n_samples + 1),
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
