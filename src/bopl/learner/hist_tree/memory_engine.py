"""The engine over rows in memory: problems are handed to threads as they arise, and the fragments joined."""

from __future__ import annotations

import heapq
import queue
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads, uninterrupted
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.assembly import Fragment, merge_fragments
from bopl.learner.hist_tree.engine import CompiledPrediction, EngineRows, GrowthTask
from bopl.learner.hist_tree.grow import grow
from bopl.learner.hist_tree.pending import Queue
from bopl.learner.hist_tree.problem import Target
from bopl.learner.hist_tree.scale import NO_SCALE
from bopl.learner.hist_tree.scratch import Scratch, make_scratch


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Gradients and weights in the order of the rows, and where the values of the tree are written."""

    gradient: NDArray[np.float64]  # (n_actions, n_samples)
    weight: NDArray[np.float64]  # (n_samples,)
    step: NDArray[np.float64]  # (n_actions, n_samples)


class MemoryEngine(CompiledPrediction):
    """Grows trees on rows in memory, with ``n_jobs`` threads."""

    def bind(self, rows: EngineRows, *, has_count: bool) -> BoundMemoryEngine:
        """Allocate the working memory of all threads."""
        return BoundMemoryEngine(rows, self.n_jobs, has_count=has_count)


class BoundMemoryEngine:
    """Grows trees on one set of binned contexts, keeping the working memory between rounds."""

    def __init__(self, rows: EngineRows, n_jobs: int, *, has_count: bool) -> None:
        self._rows, self._n_jobs = rows, n_jobs
        self._mask = np.zeros((0, 0), bool) if rows.mask is None else np.require(rows.mask, bool, ["C", "W"])
        self._scratch: queue.SimpleQueue[Scratch] = queue.SimpleQueue()
        # One for each thread, kept from round to round: pages of fresh memory cost more than many small nodes.
        for _ in range(n_jobs):
            self._scratch.put(make_scratch(rows.binned, rows.n_samples, rows.n_actions, has_count=has_count))

    def grow(self, source: MemorySource, task: GrowthTask) -> NDArray[Any]:
        """Return the nodes of a new tree; its leaf values are written on the way to the rows it is grown on."""
        rows = self._rows
        root = _Problem(self._places(task.drawn), np.arange(rows.n_actions, dtype=np.int32), 0, 0)
        target = Target(
            source.gradient, source.weight, self._mask, rows.mask is not None, task.is_classifier, *task.grids
        )

        def run(problem: _Problem) -> _Result:
            scratch = self._scratch.get()
            try:
                with uninterrupted():  # numba runs Python code while it makes the arrays that are returned
                    nodes, large = grow(
                        rows.binned.arrays,
                        target,
                        task.action_table,
                        task.limits,
                        problem.rows,
                        problem.actions,
                        problem.depth,
                        problem.path,
                        NO_SCALE,
                        scratch,
                        source.step,
                    )
            finally:
                self._scratch.put(scratch)
            return _Result(Fragment(nodes, {}), _problems_of(large))

        return merge_fragments(_run_here(run, root) if self._n_jobs == 1 else _run_pooled(run, root, self._n_jobs))

    def apply(self, source: MemorySource, tree: GrownTree, *, is_as_grown: bool) -> None:
        """Write the values of a finished tree on all rows, unless growing has done so."""
        if not is_as_grown:
            tree.write_values(self._rows.binned, source.step)

    def _places(self, drawn: NDArray[np.int64] | None) -> NDArray[np.int32]:
        """Return the places of a round's contexts, ascending; who is drawn does not depend on the order in memory."""
        if drawn is None:
            return np.arange(self._rows.n_samples, dtype=np.int32)
        places = drawn if self._rows.place is None else self._rows.place[drawn]
        return np.sort(places).astype(np.int32)


@dataclass(frozen=True)
class _Problem:
    rows: NDArray[np.int32]
    actions: NDArray[np.int32]
    depth: int
    path: int


@dataclass(frozen=True)
class _Result:
    fragment: Fragment
    large: list[tuple[int, _Problem]]  # with the node of the fragment that each continues


_Run = Callable[[_Problem], _Result]


def _problems_of(large: Queue) -> list[tuple[int, _Problem]]:
    waiting = large.problems[: large.used[0]["problems"]]
    return [
        (
            int(one["node"]),
            _Problem(
                large.rows[one["row_start"] : one["row_start"] + one["n_rows"]],
                large.actions[one["action_start"] : one["action_start"] + one["n_actions"]],
                int(one["depth"]),
                int(one["path"]),
            ),
        )
        for one in waiting
    ]


def _run_here(run: _Run, root: _Problem) -> Fragment:
    top: dict[int, Fragment] = {}
    todo = [(root, top, 0)]
    while todo:
        problem, into, node = todo.pop()
        result = run(problem)
        into[node] = result.fragment
        todo.extend((child, result.fragment.continued, child_node) for child_node, child in result.large)
    return top[0]


def _run_pooled(run: _Run, root: _Problem, n_jobs: int) -> Fragment:
    """Keep every thread at the largest problem there is, so that small ones are left to even out the end."""
    # Who grows what, and when, differs from run to run; `merge_fragments` puts the parts together by the nodes that
    # they continue, so the tree does not. The count breaks ties, as problems cannot be compared.
    top: dict[int, Fragment] = {}
    running: dict[Future[_Result], tuple[dict[int, Fragment], int]] = {}
    waiting: list[tuple[int, int, _Problem, dict[int, Fragment], int]] = [(0, 0, root, top, 0)]
    n_seen = 1
    with Threads(n_jobs) as threads:
        while running or waiting:
            while waiting and len(running) < n_jobs:
                _, _, problem, into, node = heapq.heappop(waiting)
                running[threads.submit(run, problem)] = (into, node)
            for future in threads.wait(running):
                into, node = running.pop(future)
                result = future.result()
                into[node] = result.fragment
                for child_node, child in result.large:
                    heapq.heappush(waiting, (-len(child.rows), n_seen, child, result.fragment.continued, child_node))
                    n_seen += 1
    return top[0]
