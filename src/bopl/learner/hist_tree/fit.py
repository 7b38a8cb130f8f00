"""Fitting one tree: problems are handed to threads as they arise, and the pieces joined."""

from __future__ import annotations

import heapq
import queue
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.apply import apply_nodes
from bopl.learner.hist_tree.grow import (
    ACTION_START,
    N_ACTIONS,
    N_ROWS,
    P_DEPTH,
    P_NODE,
    P_PATH,
    ROW_START,
    VALUE,
    ActionTable,
    Limits,
    Scratch,
    Target,
    grow,
    make_scratch,
)
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.tree import Piece


@dataclass(frozen=True)
class _Problem:
    rows: NDArray[np.int32]
    actions: NDArray[np.int32]
    depth: int
    path: int


class Grower:
    """Grows trees on one set of binned contexts, keeping threads and working memory between rounds."""

    def __init__(self, binned: BinnedContext, n_actions: int, n_jobs: int, *, has_count: bool = False) -> None:
        self._binned = binned
        self._n_actions = n_actions
        self._n_jobs = n_jobs
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
        target: Target,
        action_table: ActionTable,
        limits: Limits,
        rows: NDArray[np.int32],
        step: NDArray[np.float64],
    ) -> Piece:
        """Grow a tree on some contexts and all actions, writing its leaf values to ``step``."""
        root = _Problem(rows, np.arange(self._n_actions, dtype=np.int32), 0, 0)

        def run(problem: _Problem) -> Any:
            scratch = self._scratch.get()
            try:
                return grow(
                    self._binned.arrays,
                    target,
                    action_table,
                    limits,
                    problem.rows,
                    problem.actions,
                    problem.depth,
                    problem.path,
                    scratch,
                    step,
                )
            finally:
                self._scratch.put(scratch)

        if self._n_jobs == 1:
            return _run_here(run, root)
        with ThreadPoolExecutor(self._n_jobs) as pool:
            return _run_pooled(run, root, pool, self._n_jobs)

    def apply_tree(
        self,
        ints: NDArray[np.int64],
        floats: NDArray[np.float64],
        right_actions: NDArray[np.uint64],
        step: NDArray[np.float64],
    ) -> None:
        """Write a finished tree's values for every training context, reading their bins."""
        rows = np.arange(self._binned.n_samples, dtype=np.int32)
        apply_nodes(self._binned.arrays, ints, floats[:, VALUE].copy(), right_actions, rows, step)


def _children(result: Any) -> list[tuple[int, _Problem]]:
    """Return the large problems of a result with the node that each continues."""
    _, _, table, rows, actions = result
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
        for p in table
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


def _run_pooled(run: Any, root: _Problem, pool: ThreadPoolExecutor, n_jobs: int) -> Piece:
    """Keep every thread at the largest problem there is, so that small ones are left to even out the end."""
    top: dict[int, Piece] = {}
    running: dict[Future[Any], tuple[dict[int, Piece], int]] = {}
    waiting: list[tuple[int, int, _Problem, dict[int, Piece], int]] = [(0, 0, root, top, 0)]
    n_seen = 1
    while running or waiting:
        while waiting and len(running) < n_jobs:
            _, _, problem, into, node = heapq.heappop(waiting)
            running[pool.submit(run, problem)] = (into, node)
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            into, node = running.pop(future)
            result = future.result()
            into[node] = Piece(result[0], result[1], {})
            for child_node, child in _children(result):
                heapq.heappush(waiting, (-len(child.rows), n_seen, child, into[node].continued, child_node))
                n_seen += 1
    return top[0]
