"""Fitting one tree: problems are handed to threads as they arise, and the pieces joined."""

from __future__ import annotations

import heapq
import queue
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads, uninterrupted
from bopl.learner.hist_tree.apply import apply_nodes
from bopl.learner.hist_tree.assembly import Piece, merge_pieces
from bopl.learner.hist_tree.grid import Grid, largest_of
from bopl.learner.hist_tree.grow import ActionTable, Limits, Scratch, Target, grow, make_scratch, no_scale
from bopl.learner.hist_tree.locality import MIN_CONTEXTS, RowOrder, order_by
from bopl.learner.hist_tree.pending import ACTION_START, N_ACTIONS, N_ROWS, P_DEPTH, P_NODE, P_PATH, ROW_START
from bopl.learner.hist_tree.problem import make_grids
from bopl.learner.hist_tree.storage import BinnedContext

ORDER_DEPTH, ORDER_LEAF = 20, 64.0  # of the tree that gives the contexts their order


@dataclass(frozen=True)
class _Problem:
    rows: NDArray[np.int32]
    actions: NDArray[np.int32]
    depth: int
    path: int


class Grower:
    """Grows trees on one set of binned contexts, keeping their order and the working memory between rounds.

    Parameters
    ----------
    binned : BinnedContext
    n_actions : int
    n_jobs : int
        Threads.
    mask : ndarray of bool, shape (n_samples, n_actions), optional
        Eligible actions.
    has_count : bool, default=False
        Whether pairs are counted, for ``min_samples_leaf``.
    """

    def __init__(
        self,
        binned: BinnedContext,
        n_actions: int,
        n_jobs: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        has_count: bool = False,
    ) -> None:
        self._binned = binned
        self._n_actions = n_actions
        self._n_jobs = n_jobs
        self._has_mask = mask is not None
        self._mask = np.zeros((0, 0), bool) if mask is None else np.require(mask, bool, ["C", "W"])
        self._scratch: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        longest = int(max(binned.arrays.column_bins, default=0))
        n_features = len(binned.columns)
        for _ in range(n_jobs):
            self._scratch.put(
                make_scratch(
                    binned.n_samples,
                    binned.n_positions,
                    longest,
                    len(binned.arrays.column_bins),
                    n_features,
                    n_actions,
                    has_count=has_count,
                )
            )

    def grow_tree(
        self,
        gradient: NDArray[np.float64],
        weight: NDArray[np.float64],
        action_table: ActionTable,
        limits: Limits,
        rows: NDArray[np.int32],
        step_out: NDArray[np.float64],
        *,
        grids: tuple[Grid, Grid],
        is_classifier: bool = False,
    ) -> Piece:
        """Grow a tree on some contexts and all actions, writing its leaf values to ``step_out``.

        ``gradient`` and ``step_out`` are (n_actions, n_samples); ``grids`` are those of `make_grids`.
        """
        root = _Problem(rows, np.arange(self._n_actions, dtype=np.int32), 0, 0)
        target = Target(gradient, weight, self._mask, self._has_mask, is_classifier, *grids)

        def run(problem: _Problem) -> Any:
            scratch = self._scratch.get()
            try:
                with uninterrupted():  # numba runs Python code while it makes the arrays that are returned
                    return grow(
                        self._binned.arrays,
                        target,
                        action_table,
                        limits,
                        problem.rows,
                        problem.actions,
                        problem.depth,
                        problem.path,
                        no_scale(),
                        scratch,
                        step_out,
                    )
            finally:
                self._scratch.put(scratch)

        return _run_here(run, root) if self._n_jobs == 1 else _run_pooled(run, root, self._n_jobs)

    def apply_tree(
        self,
        ints: NDArray[np.int64],
        value: NDArray[np.float64],
        right_actions: NDArray[np.uint64],
        step_out: NDArray[np.float64],
    ) -> None:
        """Write a finished tree's values for every training context, reading their bins."""
        places = np.arange(self._binned.n_samples, dtype=np.int32)
        apply_nodes(self._binned.arrays, ints, value, right_actions, places, step_out)


def find_order(binned: BinnedContext, reward: NDArray[np.float64], n_jobs: int) -> RowOrder | None:
    """Return the order of contexts by leaf of a tree fitted to the rewards, or None if they are too few to matter."""
    n_samples = binned.n_samples
    if n_samples < MIN_CONTEXTS:
        return None
    grower = Grower(binned, 1, n_jobs)
    no_features = ActionTable(np.zeros((0, 1), np.int32), np.zeros((0, 1)))
    limits = Limits(ORDER_DEPTH, ORDER_LEAF, 1, 0.0, 1.0, 0, len(binned.columns), 0, n_samples + 1)
    places = np.arange(n_samples, dtype=np.int32)
    leaf = np.empty((1, n_samples))
    gradient = (reward - reward.mean())[None]
    grids = make_grids(largest_of(gradient), 1.0, n_samples, 1)
    tree = grower.grow_tree(gradient, np.ones(n_samples), no_features, limits, places, leaf, grids=grids)
    ints, _ = merge_pieces(tree)
    # Nodes are in preorder, so that neighbouring leaves have neighbouring numbers.
    grower.apply_tree(ints, np.arange(len(ints), dtype=np.float64), np.zeros((len(ints), 1), np.uint64), leaf)
    return order_by(leaf[0])


def _children(result: Any) -> list[tuple[int, _Problem]]:
    """Return the large problems of a result with the node that each continues."""
    _, _, table, rows, actions, top = result
    return [
        (
            int(p[P_NODE]),
            _Problem(
                rows[p[ROW_START] : p[ROW_START] + p[N_ROWS]],
                actions[p[ACTION_START] : p[ACTION_START] + p[N_ACTIONS]],
                int(p[P_DEPTH]),
                int(p[P_PATH]),
            ),
        )
        for p in table[: top[0]]
    ]


def _run_here(run: Any, root: _Problem) -> Piece:
    top: dict[int, Piece] = {}
    todo = [(root, top, 0)]
    while todo:
        problem, into, node = todo.pop()
        result = run(problem)
        into[node] = Piece(result[0], result[1], {})
        todo.extend((child, into[node].continued, child_node) for child_node, child in _children(result))
    return top[0]


def _run_pooled(run: Any, root: _Problem, n_jobs: int) -> Piece:
    """Keep every thread at the largest problem there is, so that small ones are left to even out the end."""
    top: dict[int, Piece] = {}
    running: dict[Future[Any], tuple[dict[int, Piece], int]] = {}
    waiting: list[tuple[int, int, _Problem, dict[int, Piece], int]] = [(0, 0, root, top, 0)]
    n_seen = 1
    with Threads(n_jobs) as threads:
        while running or waiting:
            while waiting and len(running) < n_jobs:
                _, _, problem, into, node = heapq.heappop(waiting)
                running[threads.submit(run, problem)] = (into, node)
            for future in threads.wait(running):
                into, node = running.pop(future)
                result = future.result()
                into[node] = Piece(result[0], result[1], {})
                for child_node, child in _children(result):
                    heapq.heappush(waiting, (-len(child.rows), n_seen, child, into[node].continued, child_node))
                    n_seen += 1
    return top[0]
