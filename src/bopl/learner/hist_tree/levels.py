"""Growing over pieces, the owner's side: nodes are opened level by level, small ones grown whole.

The tree is the one that `grow` grows, to the last bit: the same sums, the same scales, the same search for splits. What
differs is who adds up the rows. A node of many rows is a histogram that all pieces add to; of its two children the
lighter is counted, the other is what is left. A node of few rows is cheaper sent than counted: its rows are gathered,
and it is grown in memory to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads, uninterrupted
from bopl._kernel import njit
from bopl.learner.hist_tree.assembly import Piece
from bopl.learner.hist_tree.grid import Grid
from bopl.learner.hist_tree.grow import (
    LEAF,
    MIN_GAIN,
    N_NODE_FLOATS,
    N_NODE_INTS,
    ON_ACTION,
    ActionTable,
    Limits,
    Loaded,
    Scale,
    Scratch,
    action_gain_of,
    context_gain,
    grow,
    is_coarse,
    make_scratch,
    mark_right,
    may_split,
    no_scale,
    open_problem,
    set_leaf,
)
from bopl.learner.hist_tree.problem import (
    Norms,
    Target,
    fine_units,
    has_sums,
    is_too_coarse,
    scales_of,
    wide_scales_of,
)
from bopl.learner.hist_tree.random import draw_columns, mix
from bopl.learner.hist_tree.split import NO_SCORE, NodeSums, scan_block
from bopl.learner.hist_tree.storage import BinnedContext, join_rows
from bopl.learner.hist_tree.wave import (
    C_ABSOLUTE,
    C_COARSE,
    C_GRADIENT,
    C_LEAF,
    C_PAIRS,
    C_WEIGHT,
    M_NORMS,
    M_OF_PAIRS,
    M_ROWS,
    N_COUNTS,
    Answer,
    Branch,
    Count,
    Counted,
    Divide,
    Gather,
    Measure,
    Rows,
    Wave,
)

GATHER_ROWS = 4096  # a node of fewer rows is sent and grown whole

RunWave = Callable[[Wave], Answer]


@dataclass
class _Node:
    """A node that is still open.

    Attributes
    ----------
    at : int
        Its row in the table of nodes, and its name among the pieces.
    actions : ndarray of int32
    depth, path : int
    n_rows : int
    scale : Scale
        Of its problem; not given before the problem has one.
    is_root : bool
        Whether the problem begins here.
    has_gradient : bool
        Whether a context split can gain.
    found : ndarray of int64
        What `Count` returned.
    action_sums : ndarray of int64
    tables : list of ndarray
        Histograms: packed, wide, pairs.
    """

    at: int
    actions: NDArray[np.int32]
    depth: int
    path: int
    n_rows: int
    scale: Scale = field(default_factory=no_scale)
    is_root: bool = True
    has_gradient: bool = True
    found: Any = None
    action_sums: Any = None
    tables: Any = None

    def set_counts(self, counts: list[Any]) -> None:
        """Take over what the pieces counted."""
        self.found, self.action_sums, *self.tables = counts

    @property
    def sums(self) -> NodeSums:
        """Sums in the integers of the problem."""
        return NodeSums(self.found[C_GRADIENT], self.found[C_WEIGHT], self.found[C_PAIRS])


@dataclass
class _Pair:
    """The children of a context split that is being carried out."""

    parent: _Node
    counted: _Node
    other: _Node
    is_left: bool  # the counted one is the left one
    has_histogram: bool


class LevelGrower:
    """Grows trees over pieces.

    Parameters
    ----------
    layout : BinnedContext
        Without rows: what positions mean.
    n_actions : int
    n_jobs : int
        Threads that grow small nodes.
    has_mask, has_count : bool
        Whether some actions are not eligible, and whether pairs are counted.
    gather_rows : int, optional
        Nodes of at most so many rows are gathered.
    """

    def __init__(
        self,
        layout: BinnedContext,
        n_actions: int,
        n_jobs: int,
        *,
        has_mask: bool,
        has_count: bool,
        gather_rows: int | None = None,
    ) -> None:
        self._layout, self._n_actions, self._n_jobs = layout, n_actions, n_jobs
        self._has_mask, self._has_count = has_mask, has_count
        self._gather_rows = GATHER_ROWS if gather_rows is None else gather_rows
        self._n_features = len(layout.columns)
        self._free = [self._make_scratch() for _ in range(n_jobs)]

    def _make_scratch(self) -> Scratch:
        arrays = self._layout.arrays
        longest = int(max(arrays.column_bins, default=0))
        return make_scratch(
            max(self._gather_rows, 1),
            self._layout.n_positions,
            longest,
            len(arrays.column_bins),
            self._n_features,
            self._n_actions,
            has_count=self._has_count,
        )

    def grow_tree(
        self,
        run: RunWave,
        action_table: ActionTable,
        limits: Limits,
        n_rows: int,
        *,
        grids: tuple[Grid, Grid],
        is_classifier: bool = False,
    ) -> Piece:
        """Grow a tree on the rows that the pieces have drawn for node 0.

        Parameters
        ----------
        run : callable
            Has the pieces do what a `Wave` asks for.
        action_table : ActionTable
        limits : Limits
        n_rows : int
            Rows drawn in all.
        grids : tuple of Grid
        is_classifier : bool
        """
        target = Target(
            np.zeros((self._n_actions, 0)),
            np.zeros(0),
            np.zeros((0, self._n_actions) if self._has_mask else (0, 0), bool),
            self._has_mask,
            is_classifier,
            *grids,
        )
        return _Growth(self, run, target, action_table, limits).to_the_end(n_rows)


class _Growth:
    """One tree in the making."""

    def __init__(
        self, grower: LevelGrower, run: RunWave, target: Target, action_table: ActionTable, limits: Limits
    ) -> None:
        self._grower, self._run, self._target = grower, run, target
        self._action_table, self._limits = action_table, limits
        self._ints: list[tuple[int, ...]] = [()]
        self._floats: list[NDArray[np.float64]] = [np.zeros(N_NODE_FLOATS)]
        self._grown: dict[int, Piece] = {}
        # What the next wave asks for.
        self._divided: list[_Pair] = []
        self._divides: list[Divide] = []
        self._branches: list[Branch] = []
        self._measured: list[_Node] = []
        self._counted: list[tuple[_Node, bool]] = []  # and whether with a histogram
        self._gathered: list[_Node] = []
        self._dropped: list[int] = []
        self._norms: dict[int, Norms] = {}  # of problems that are being counted

    def to_the_end(self, n_rows: int) -> Piece:
        """Grow the tree."""
        self._begin_problem(_Node(0, np.arange(len(self._target.gradient), dtype=np.int32), 0, 0, n_rows))
        while self._divided or self._branches or self._measured or self._counted or self._gathered:
            self._next_wave()
        ints = np.array(self._ints, np.int64).reshape(len(self._ints), N_NODE_INTS)
        return Piece(ints, np.stack(self._floats), self._grown)

    # -- Waves ------------------------------------------------------------------------------------------------------

    def _next_wave(self) -> None:
        divided, measured, counted, gathered = self._divided, self._measured, self._counted, self._gathered
        wave = Wave(
            tuple(self._divides),
            tuple(self._branches),
            tuple(Measure(node.at, node.actions) for node in measured),
            (
                *(self._count_of(pair.counted, pair.has_histogram) for pair in divided),
                *(self._count_of(node, has_histogram) for node, has_histogram in counted),
            ),
            tuple(Gather(node.at, node.actions) for node in gathered),
            (*self._dropped, *(node.at for node in gathered)),
        )
        self._divided, self._divides, self._branches = [], [], []
        self._measured, self._counted, self._gathered, self._dropped = [], [], [], []
        answer = self._run(wave)
        counts = _by_node(answer.counts, wave.counts)
        for pair, n_left in zip(divided, answer.n_left.tolist(), strict=True):
            self._finish_pair(pair, n_left, next(counts))
        for node, found in zip(measured, answer.measures, strict=True):
            self._give_scale(node, found)
        for node, has_histogram in counted:
            node.set_counts(next(counts))
            self._open_root(node, has_histogram)
        self._grow_gathered(gathered, answer.rows)

    def _count_of(self, node: _Node, has_histogram: bool) -> Count:
        scale = node.scale
        fine = float(fine_units(node.n_rows))
        return Count(node.at, node.actions, scale.gradient, scale.weight, scale.is_wide, fine, has_histogram)

    # -- Problems -----------------------------------------------------------------------------------------------------

    def _begin_problem(self, node: _Node) -> None:
        """A node that has no scale yet."""
        node.scale, node.is_root = no_scale(), True
        if node.n_rows <= self._grower._gather_rows:
            self._gathered.append(node)
        elif node.depth >= self._limits.max_depth:
            self._counted.append((node, False))
        else:
            self._measured.append(node)

    def _give_scale(self, node: _Node, found: NDArray[np.int64]) -> None:
        norms = Norms(*found[M_NORMS : M_NORMS + 4])
        node.n_rows = int(found[M_ROWS])
        node.has_gradient = bool(has_sums(self._target, norms, found[M_OF_PAIRS]))
        gradient, weight = scales_of(self._target, norms)
        node.scale = Scale(gradient, weight, False, np.int64(0), np.int64(0), False)
        self._counted.append((node, node.has_gradient))
        self._norms[node.at] = norms

    def _open_root(self, node: _Node, has_histogram: bool) -> None:
        """A problem whose rows have been counted in the integers of its scale."""
        if node.depth >= self._limits.max_depth:
            self._end(node)
            return
        scale = node.scale
        if not scale.is_wide and is_too_coarse(node.found[C_COARSE], node.n_rows):
            gradient, weight = wide_scales_of(self._target, self._norms[node.at])
            node.scale = Scale(gradient, weight, True, np.int64(0), np.int64(0), False)
            self._counted.append((node, has_histogram))
            return
        del self._norms[node.at]
        sums = node.found[C_WEIGHT], node.found[C_ABSOLUTE]
        node.scale = Scale(scale.gradient, scale.weight, scale.is_wide, *sums, True)
        self._look(node)

    def _open(self, node: _Node) -> Loaded:
        found: Loaded = open_problem(node.sums, node.found[C_ABSOLUTE], node.scale, self._limits, node.has_gradient)
        return found

    # -- Nodes --------------------------------------------------------------------------------------------------------

    def _look(self, node: _Node) -> None:
        """Decide what becomes of a node whose sums, and histogram if it may split, are known."""
        loaded = self._open(node)
        if node.depth >= self._limits.max_depth or not may_split(node.sums, loaded):
            self._end(node)
            return
        if not node.is_root and is_coarse(node.n_rows, node.sums, node.found[C_ABSOLUTE], loaded):
            self._begin_problem(node)
            return
        found, score = self._best_context_split(node, loaded)
        gain, action_gain, feature, action = float(context_gain(score, node.sums, loaded)), NO_SCORE, -1, -1
        if len(node.actions) > 1:
            floats = np.zeros((3, len(self._target.gradient)))
            action_gain, feature, action = action_gain_of(
                node.action_sums, node.actions, self._action_table, self._limits, self._target, floats
            )
        if max(gain, action_gain) <= MIN_GAIN:
            self._end(node)
            return
        left, right = len(self._ints), len(self._ints) + 1
        self._ints += [(), ()]
        self._floats += [np.zeros(N_NODE_FLOATS), np.zeros(N_NODE_FLOATS)]
        self._floats[node.at][0] = max(gain, action_gain)
        if action_gain > gain:
            self._ints[node.at] = (left, right, ON_ACTION, 0, int(feature), int(action))
            self._split_actions(node, left, right, int(feature), int(action))
        else:
            self._ints[node.at] = (left, right, int(found[0]), int(found[1]), 0, 0)
            self._split_contexts(node, left, right, found, loaded)

    def _best_context_split(self, node: _Node, loaded: Loaded) -> tuple[NDArray[np.int64], float]:
        found, score = np.zeros(4, np.int64), np.full(1, NO_SCORE)
        if not node.has_gradient:
            return found, float(score[0])
        allowed = np.ones(max(self._grower._n_features, 1), bool)
        if loaded.rule.use_allowed:
            draw_columns(self._limits.seed, node.path, self._limits.colsample, self._limits.n_always, allowed)
        arrays = self._grower._layout.arrays
        is_dead = np.zeros(len(arrays.column_bins), bool)
        packed, wide, pairs = node.tables
        _scan(
            arrays,
            node.sums,
            loaded.rule,
            packed,
            wide if loaded.rule.is_wide else packed,
            pairs if self._limits.min_samples_leaf > 1 else packed,
            allowed,
            self._grower._free[0].split,
            is_dead,
            found,
            score,
        )
        return found, float(score[0])

    def _end(self, node: _Node) -> None:
        """A leaf."""
        self._ints[node.at] = (LEAF, LEAF, LEAF, 0, 0, 0)
        set_leaf(tuple(node.found[C_LEAF : C_LEAF + 4]), self._limits, self._target, self._floats[node.at])
        self._dropped.append(node.at)

    def _split_actions(self, node: _Node, left: int, right: int, feature: int, action: int) -> None:
        is_right = np.zeros(len(node.actions), bool)
        mark_right(feature, action, node.actions, self._action_table, is_right)
        self._branches.append(Branch(node.at, left, right))
        for at, side, number in ((left, ~is_right, 1), (right, is_right, 2)):
            path = int(mix(node.path, number))
            self._begin_problem(_Node(at, node.actions[side], node.depth + 1, path, node.n_rows))

    def _split_contexts(self, node: _Node, left: int, right: int, found: NDArray[np.int64], loaded: Loaded) -> None:
        """Divide a node's rows, and count the child that seems smaller."""
        self._divides.append(Divide(node.at, left, right, int(found[0]), bool(found[1])))
        is_left = 2 * int(found[3]) <= int(node.sums.weight)
        children = [
            _Node(at, node.actions, node.depth + 1, int(mix(node.path, number)), 0, node.scale, False)
            for at, number in ((left, 1), (right, 2))
        ]
        for child, gradient, weight in (
            (children[0], found[2], found[3]),
            (children[1], node.sums.gradient - found[2], node.sums.weight - found[3]),
        ):
            child.found = np.zeros(N_COUNTS, np.int64)
            child.found[C_GRADIENT], child.found[C_WEIGHT] = gradient, weight
            child.found[C_PAIRS] = node.sums.pairs  # as many as there can be
        goes = node.depth + 1 < self._limits.max_depth and any(may_split(child.sums, loaded) for child in children)
        counted, other = children if is_left else children[::-1]
        self._divided.append(_Pair(node, counted, other, is_left, bool(goes)))

    def _finish_pair(self, pair: _Pair, n_left: int, counts: list[Any]) -> None:
        """The counted child is known; the other is what it leaves of their parent."""
        parent, counted, other = pair.parent, pair.counted, pair.other
        counted.set_counts(counts)
        other.found = parent.found - counted.found
        other.action_sums = parent.action_sums - counted.action_sums
        if pair.has_histogram:
            other.tables = parent.tables
            for table, taken in zip(other.tables, counted.tables, strict=True):
                table -= taken
        parent.tables = None
        n_rows = parent.n_rows
        counted.n_rows = n_left if pair.is_left else n_rows - n_left
        other.n_rows = n_rows - counted.n_rows
        for child in (counted, other):
            loaded = self._open(child)
            goes = child.depth < self._limits.max_depth and may_split(child.sums, loaded)
            if goes and child.n_rows <= self._grower._gather_rows:
                self._gathered.append(child)
            else:
                self._look(child)

    # -- Small nodes --------------------------------------------------------------------------------------------------

    def _grow_gathered(self, nodes: list[_Node], rows: dict[int, Rows]) -> None:
        if not nodes:
            return
        parts = [_Extract(rows[first], [len(node.actions) for node in nodes]) for first in sorted(rows)]

        def run(number: int) -> None:
            node = nodes[number]
            self._grown[node.at] = self._grow_whole(node, parts, number)

        numbers = range(len(nodes))
        if self._grower._n_jobs == 1 or len(nodes) <= 1:
            for number in numbers:
                run(number)
        else:
            with Threads(self._grower._n_jobs) as threads:
                threads.each(run, numbers)
        for node in nodes:
            self._ints[node.at] = (LEAF, LEAF, LEAF, 0, 0, 0)  # its place is taken by the piece

    def _grow_whole(self, node: _Node, parts: list[_Extract], number: int) -> Piece:
        """Grow a node in memory to its end."""
        spans = [(part.rows, *part.span(number)) for part in parts]
        binned = join_rows(self._grower._layout, [(rows.codes, start, end) for rows, start, end in spans])
        n_rows, n_actions = binned.n_samples, len(self._target.gradient)
        gradient = np.empty((n_actions, n_rows))
        gradient[node.actions] = np.concatenate([part.gradient(number) for part in parts], axis=1)
        mask = np.zeros((0, 0), bool)
        if self._target.has_mask:
            mask = np.concatenate([rows.mask[start:end] for rows, start, end in spans if rows.mask is not None])
        weight = np.concatenate([rows.weight[start:end] for rows, start, end in spans])
        target = self._target._replace(gradient=gradient, weight=weight, mask=mask)
        limits = self._limits._replace(large=n_rows + 1)
        places, step = np.arange(n_rows, dtype=np.int32), np.empty((n_actions, n_rows))
        scratch = self._take_scratch()
        try:
            with uninterrupted():
                ints, floats, *_ = grow(
                    binned.arrays,
                    target,
                    self._action_table,
                    limits,
                    places,
                    node.actions,
                    node.depth,
                    node.path,
                    node.scale if not node.is_root else no_scale(),
                    scratch,
                    step,
                )
        finally:
            self._grower._free.append(scratch)
        return Piece(ints, floats, {})

    def _take_scratch(self) -> Scratch:
        try:
            return self._grower._free.pop()
        except IndexError:
            return self._grower._make_scratch()


class _Extract:
    """Where the rows of each gathered node are in those of a piece."""

    def __init__(self, rows: Rows, n_actions: list[int]) -> None:
        self.rows = rows
        self._start = np.concatenate([[0], np.cumsum(rows.counts)])
        self._n_actions = n_actions
        self._gradient = np.concatenate([[0], np.cumsum(rows.counts * np.array(n_actions))])

    def span(self, number: int) -> tuple[int, int]:
        """Return the first row of a node, and that after its last."""
        return int(self._start[number]), int(self._start[number + 1])

    def gradient(self, number: int) -> NDArray[np.float64]:
        """Return the gradients of a node, of shape (n_actions, n_rows)."""
        own = self.rows.gradient[self._gradient[number] : self._gradient[number + 1]]
        return own.reshape(self._n_actions[number], -1)


def _by_node(counted: Counted, asked: Sequence[Count]) -> Iterator[list[Any]]:
    """Yield what was counted for each node; tables that it has none of are empty."""
    nothing, at = np.zeros(0, np.int64), 0
    for number, one in enumerate(asked):
        has = (one.has_histogram, one.has_histogram and one.is_wide, one.has_histogram and len(counted.pairs) > 0)
        tables = [table[at].copy() if own else nothing for table, own in zip(counted[2:], has, strict=True)]
        yield [counted.found[number], counted.action_sums[number], *tables]
        at += one.has_histogram


@njit(nogil=True, cache=True)
def _scan(binned, sums, rule, packed, wide, count, allowed, scratch, is_dead, found_out, score_out):  # type: ignore[no-untyped-def]
    """Look for the best split of a node from its histograms."""
    for block in range(len(binned.row_width)):
        scan_block(
            binned, block, sums, rule, packed, wide, count, allowed, scratch, is_dead, found_out, score_out
        )  # fmt: skip
