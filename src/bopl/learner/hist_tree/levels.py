"""The engine over pieces, the owner's side: nodes are opened level by level, small ones grown whole.

The tree is the one that `grow` grows, to the last bit: the same sums, the same scales, the same search for splits. What
differs is who adds up the rows. A node of many rows is a histogram that all pieces add to; of its two children the
lighter is counted, the other is what is left. A node of few rows is cheaper sent than counted: its rows are gathered,
and it is grown in memory to its end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads
from bopl._kernel import njit
from bopl.learner.hist_tree.action_split import BY_IDENTITY, find_action_split, mark_right
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.assembly import Fragment, merge_fragments
from bopl.learner.hist_tree.children import scan_node
from bopl.learner.hist_tree.engine import CompiledPrediction, EngineRows, GrowthTask
from bopl.learner.hist_tree.gathered import Extract, grow_whole
from bopl.learner.hist_tree.grow import FIRST_NODES, MIN_GAIN
from bopl.learner.hist_tree.leaf import set_leaf_value
from bopl.learner.hist_tree.node import NODE, NodeSums, put_action_split, put_context_split, put_leaf, with_capacity
from bopl.learner.hist_tree.open_node import NodeCounts, OpenNode, OpenPair, counts_by_node
from bopl.learner.hist_tree.problem import Norms, Target, has_sums
from bopl.learner.hist_tree.random import WENT_LEFT, WENT_RIGHT, draw_columns, mix
from bopl.learner.hist_tree.scale import (
    NO_SCALE,
    Scale,
    ScaledProblem,
    context_gain,
    fine_units,
    is_coarse,
    is_too_coarse,
    may_split,
    open_problem,
    scales_of,
    wide_scales_of,
)
from bopl.learner.hist_tree.score import NO_SCORE
from bopl.learner.hist_tree.scratch import Scratch, make_action_floats, make_scratch
from bopl.learner.hist_tree.split import SPLIT, Histogram
from bopl.learner.hist_tree.wave import BRANCH, COUNT, DIVIDE, Answer, NodeSets, Rows, TreeTask, Wave

GATHER_ROWS = 4096  # a node of fewer rows is sent and grown whole
GATHER_BYTES = 1 << 24  # rows of such nodes that one wave sends; at least one node's


class Pieces(Protocol):
    """The pieces of a log, which keep the rows and their gradients."""

    def wave(self, wave: Wave, task: TreeTask, is_first: bool) -> Answer:
        """Have all pieces do what a wave asks for; the first of a tree begins with the rows drawn for it."""
        ...

    def apply(self, tree: GrownTree, held: NDArray[np.int32] | None) -> None:
        """Have all pieces take up the values of a finished tree, now or when they are next asked something.

        ``held`` is as in `HeldRows.write_values`, None if the pieces do not hold all rows.
        """
        ...


class PiecesEngine(CompiledPrediction):
    """Grows trees on rows that pieces keep; ``n_jobs`` threads grow small nodes."""

    def bind(self, rows: EngineRows, *, has_count: bool) -> BoundPiecesEngine:
        """Allocate the working memory of all threads."""
        return BoundPiecesEngine(rows, self.n_jobs, has_count=has_count)


class BoundPiecesEngine:
    """Grows trees over pieces, keeping the working memory of small nodes between rounds."""

    def __init__(self, rows: EngineRows, n_jobs: int, *, has_count: bool) -> None:
        self.rows, self.n_jobs, self.has_count = rows, n_jobs, has_count
        self.gather_rows = GATHER_ROWS
        self._free = [self._make_scratch() for _ in range(n_jobs)]
        self._seen: NDArray[Any] | None = None  # nodes that the pieces have seen, if they hold all rows

    def grow(self, source: Pieces, task: GrowthTask) -> NDArray[Any]:
        """Return the nodes of a new tree."""
        grown = _Growth(self, source, task).run()
        self._seen = grown.nodes if task.drawn is None else None
        return merge_fragments(grown)

    def apply(self, source: Pieces, tree: GrownTree, *, is_as_grown: bool) -> None:
        """Have the pieces take up the values of a finished tree, which they have seen a part of."""
        held = None
        if self._seen is not None:
            held = np.full(len(tree.nodes), -1, np.int32)
            _find_held(tree.nodes, self._seen, held)
        source.apply(tree, held)

    def take_scratch(self) -> Scratch:
        """Return a thread's working memory; `give_scratch` gives it back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make_scratch()

    def give_scratch(self, scratch: Scratch) -> None:
        """Give a thread's working memory back."""
        self._free.append(scratch)

    def _make_scratch(self) -> Scratch:
        n_rows = max(self.gather_rows, 1)
        return make_scratch(self.rows.binned, n_rows, self.rows.n_actions, has_count=self.has_count)


@njit(nogil=True, cache=True)
def _find_held(nodes, seen, held_out):  # type: ignore[no-untyped-def]
    """Write which node the pieces know a node of the finished tree as, where either of the two ends."""
    stack = np.zeros((len(nodes) + 1, 2), np.int64)
    n_open = 1
    while n_open > 0:
        n_open -= 1
        number, known_as = stack[n_open]
        node, other = nodes[number], seen[known_as]
        if node.left < 0 or other.left < 0:
            held_out[number] = known_as
        else:
            stack[n_open, 0], stack[n_open, 1] = node.left, other.left
            stack[n_open + 1, 0], stack[n_open + 1, 1] = node.right, other.right
            n_open += 2


class _Growth:
    """One tree in the making."""

    def __init__(self, engine: BoundPiecesEngine, pieces: Pieces, task: GrowthTask) -> None:
        self._engine, self._pieces, self._task, self._limits = engine, pieces, task, task.limits
        rows = engine.rows
        self._layout, self._n_actions = rows.binned, rows.n_actions
        no_mask = np.zeros((0, rows.n_actions) if rows.has_mask else (0, 0), bool)
        no_rows = np.zeros((rows.n_actions, 0)), np.zeros(0)
        self._target = Target(*no_rows, no_mask, rows.has_mask, task.is_classifier, *task.grids)
        self._nodes, self._n_nodes = np.zeros(FIRST_NODES, NODE), 1
        self._grown: dict[int, Fragment] = {}
        # What the next wave asks for.
        self._divided: list[OpenPair] = []
        self._divides: list[tuple[Any, ...]] = []  # of DIVIDE
        self._branches: list[tuple[Any, ...]] = []  # of BRANCH
        self._measured: list[OpenNode] = []
        self._counted: list[tuple[OpenNode, bool]] = []  # and whether with a histogram
        self._gathered: list[OpenNode] = []
        self._norms: dict[int, Norms] = {}  # of problems that are being counted

    def run(self) -> Fragment:
        """Grow the tree."""
        n_samples, drawn = self._engine.rows.n_samples, self._task.drawn
        bits = None
        if drawn is not None:
            is_drawn = np.zeros(n_samples, bool)
            is_drawn[drawn] = True
            bits = np.packbits(is_drawn)
        n_rows = n_samples if drawn is None else len(drawn)
        layout, has_count = self._layout, self._engine.has_count
        shared = TreeTask(
            self._task.grids, self._task.is_classifier, has_count, self._n_actions, layout.n_positions, bits
        )
        self._begin_problem(OpenNode(0, np.arange(self._n_actions, dtype=np.int32), 0, 0, n_rows))
        is_first = True
        while self._divided or self._branches or self._measured or self._counted or self._gathered:
            self._next_wave(shared, is_first)
            is_first, shared = False, replace(shared, drawn=None)
        return Fragment(self._nodes[: self._n_nodes], self._grown)

    # -- Waves ------------------------------------------------------------------------------------------------------

    def _next_wave(self, shared: TreeTask, is_first: bool) -> None:
        divided, measured, counted = self._divided, self._measured, self._counted
        gathered = self._take_gathered()
        asked = [(pair.counted, pair.has_histogram) for pair in divided] + counted
        wave = Wave(
            np.array(self._divides, DIVIDE),
            np.array(self._branches, BRANCH),
            _sets_of(measured),
            _sets_of([node for node, _ in asked]),
            np.array([_how(*one) for one in asked], COUNT),
            _sets_of(gathered),
            self._n_nodes,
        )
        self._divided, self._divides, self._branches = [], [], []
        self._measured, self._counted = [], []
        answer = self._pieces.wave(wave, shared, is_first)
        counts = counts_by_node(answer.counts, wave.how)
        for pair, n_left in zip(divided, answer.n_left.tolist(), strict=True):
            self._finish_pair(pair, n_left, next(counts))
        for node, measure in zip(measured, answer.measures, strict=True):
            self._give_scale(node, measure)
        for node, has_histogram in counted:
            node.counts = next(counts)
            self._open_root(node, has_histogram)
        self._grow_gathered(gathered, answer.rows)

    # -- Problems -----------------------------------------------------------------------------------------------------

    def _begin_problem(self, node: OpenNode) -> None:
        """A node that has no scale yet."""
        node.scale, node.is_root = NO_SCALE, True
        if node.n_rows <= self._engine.gather_rows:
            self._gathered.append(node)
        elif node.depth >= self._limits.max_depth:
            self._counted.append((node, False))
        else:
            self._measured.append(node)

    def _give_scale(self, node: OpenNode, measure: Any) -> None:
        norms = Norms(*(measure[name] for name in Norms._fields))
        node.n_rows = int(measure["rows"])
        node.has_gradient = bool(has_sums(self._target, norms, measure["of_pairs"]))
        gradient, weight = scales_of(self._target, norms)
        node.scale = NO_SCALE._replace(gradient=gradient, weight=weight)
        self._counted.append((node, node.has_gradient))
        self._norms[node.at] = norms

    def _open_root(self, node: OpenNode, has_histogram: bool) -> None:
        """A problem whose rows have been counted in the integers of its scale."""
        if node.depth >= self._limits.max_depth:
            self._end(node)
            return
        scale, record = node.scale, node.counts.record[0]
        if not scale.is_wide and is_too_coarse(record["coarse"], node.n_rows):
            gradient, weight = wide_scales_of(self._target, self._norms[node.at])
            node.scale = NO_SCALE._replace(gradient=gradient, weight=weight, is_wide=True)
            self._counted.append((node, has_histogram))
            return
        del self._norms[node.at]
        node.scale = Scale(
            scale.gradient, scale.weight, scale.is_wide, record["weight"], record["absolute"], is_given=True
        )
        self._look(node)

    def _open(self, node: OpenNode) -> ScaledProblem:
        absolute = node.counts.record["absolute"][0]
        problem: ScaledProblem = open_problem(node.counts.sums, absolute, node.scale, self._limits, node.has_gradient)
        return problem

    # -- Nodes --------------------------------------------------------------------------------------------------------

    def _look(self, node: OpenNode) -> None:
        """Decide what becomes of a node whose sums, and histogram if it may split, are known."""
        problem, sums = self._open(node), node.counts.sums
        if node.depth >= self._limits.max_depth or not may_split(sums, problem):
            self._end(node)
            return
        if not node.is_root and is_coarse(node.n_rows, sums, problem.absolute, problem):
            self._begin_problem(node)
            return
        split = self._best_context_split(node, problem)
        gain = float(context_gain(split["score"], sums, problem))
        action_gain, feature, action = NO_SCORE, BY_IDENTITY, -1
        if len(node.actions) > 1:
            action_gain, feature, action = find_action_split(
                node.counts.action_sums,
                node.actions,
                self._task.action_table,
                self._limits,
                self._target,
                make_action_floats(self._n_actions),
            )
        if max(gain, action_gain) <= MIN_GAIN:
            self._end(node)
            return
        left = self._n_nodes
        self._n_nodes += 2
        self._nodes = with_capacity(self._nodes, self._n_nodes)
        if action_gain > gain:
            put_action_split(feature, action, action_gain, left, self._nodes[node.at])
            self._split_actions(node, left, int(feature), int(action))
        else:
            put_context_split(split, gain, left, self._nodes[node.at])
            self._split_contexts(node, left, split, problem)

    def _best_context_split(self, node: OpenNode, problem: ScaledProblem) -> Any:
        """Return the best split, a record of SPLIT."""
        splits = np.zeros(1, SPLIT)
        splits["score"] = NO_SCORE
        if not node.has_gradient:
            return splits[0]
        allowed = np.ones(max(len(self._layout.columns), 1), bool)
        if problem.rule.use_allowed:
            draw_columns(self._limits.seed, node.path, self._limits.colsample, self._limits.n_always, allowed)
        arrays = self._layout.arrays
        packed, wide, pairs = node.counts.histogram
        histogram = Histogram(
            packed,
            wide if problem.rule.is_wide else packed,
            pairs if problem.rule.min_pairs > 1 else packed,
        )
        is_dead, scratch = np.zeros(len(arrays.column), bool), self._engine.take_scratch()
        scan_node(arrays, node.counts.sums, problem.rule, histogram, allowed, scratch.scan.sides, is_dead, splits)
        self._engine.give_scratch(scratch)
        return splits[0]

    def _end(self, node: OpenNode) -> None:
        """A leaf."""
        put_leaf(self._nodes[node.at])
        set_leaf_value(node.counts.leaf_sums, self._limits, self._target, self._nodes[node.at])

    def _split_actions(self, node: OpenNode, left: int, feature: int, action: int) -> None:
        is_right = np.zeros(len(node.actions), bool)
        mark_right(feature, action, node.actions, self._task.action_table, is_right)
        self._branches.append((node.at, left, left + 1))
        for at, side, way in ((left, ~is_right, WENT_LEFT), (left + 1, is_right, WENT_RIGHT)):
            path = int(mix(node.path, way))
            self._begin_problem(OpenNode(at, node.actions[side], node.depth + 1, path, node.n_rows))

    def _split_contexts(self, node: OpenNode, left: int, split: Any, problem: ScaledProblem) -> None:
        """Divide a node's rows, and count the child that seems smaller."""
        self._divides.append((node.at, left, left + 1, int(split["position"]), bool(split["default_left"])))
        total = node.counts.sums
        is_left = 2 * int(split["left_weight"]) <= int(total.weight)
        children = [
            OpenNode(at, node.actions, node.depth + 1, int(mix(node.path, way)), 0, node.scale, is_root=False)
            for at, way in ((left, WENT_LEFT), (left + 1, WENT_RIGHT))
        ]
        # Pairs are not counted yet: a child has at most those of its parent.
        left_sums = NodeSums(split["left_gradient"], split["left_weight"], total.pairs)
        right_sums = NodeSums(total.gradient - left_sums.gradient, total.weight - left_sums.weight, total.pairs)
        goes = may_split(left_sums, problem) or may_split(right_sums, problem)
        counted, other = children if is_left else children[::-1]
        has_histogram = bool(goes) and node.depth + 1 < self._limits.max_depth
        self._divided.append(OpenPair(node, counted, other, is_left, has_histogram))

    def _finish_pair(self, pair: OpenPair, n_left: int, counts: NodeCounts) -> None:
        """The counted child is known; the other is what it leaves of their parent."""
        parent, counted, other = pair.parent, pair.counted, pair.other
        counted.counts, other.counts = counts, parent.counts.without(counts)
        counted.n_rows = n_left if pair.is_left else parent.n_rows - n_left
        other.n_rows = parent.n_rows - counted.n_rows
        for child in (counted, other):
            goes = child.depth < self._limits.max_depth and may_split(child.counts.sums, self._open(child))
            if goes and child.n_rows <= self._engine.gather_rows:
                self._gathered.append(child)
            else:
                self._look(child)

    # -- Small nodes --------------------------------------------------------------------------------------------------

    def _take_gathered(self) -> list[OpenNode]:
        """Take nodes that wait for their rows, as many as may be sent at once; the others wait for later waves."""
        n_bytes, n_taken = 0, 0
        for node in self._gathered:
            n_bytes += node.n_rows * (3 * len(self._layout.columns) + 8 * len(node.actions) + 8)
            if n_taken and n_bytes > GATHER_BYTES:
                break
            n_taken += 1
        taken, self._gathered = self._gathered[:n_taken], self._gathered[n_taken:]
        return taken

    def _grow_gathered(self, nodes: list[OpenNode], rows: dict[int, Rows]) -> None:
        if not nodes:
            return
        parts = [Extract(rows[first], [len(node.actions) for node in nodes]) for first in sorted(rows)]

        def run(number: int) -> None:
            node, scratch = nodes[number], self._engine.take_scratch()
            try:
                self._grown[node.at] = grow_whole(node, parts, number, self._layout, self._target, self._task, scratch)
            finally:
                self._engine.give_scratch(scratch)

        numbers = range(len(nodes))
        if self._engine.n_jobs == 1 or len(nodes) <= 1:
            for number in numbers:
                run(number)
        else:
            with Threads(self._engine.n_jobs) as threads:
                threads.each(run, numbers)
        for node in nodes:
            put_leaf(self._nodes[node.at])  # its place is taken by the fragment


def _sets_of(nodes: list[OpenNode]) -> NodeSets:
    return NodeSets.of([(node.at, node.actions) for node in nodes])


def _how(node: OpenNode, has_histogram: bool) -> tuple[Any, ...]:
    """Return how a node is counted, as in COUNT."""
    scale = node.scale
    return scale.gradient, scale.weight, float(fine_units(node.n_rows)), scale.is_wide, has_histogram
