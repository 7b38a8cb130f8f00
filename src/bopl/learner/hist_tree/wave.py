"""Growing over pieces, the pieces' side: one pass over a piece's rows for all open nodes at once.

A `Wave` is what the owner of the tree asks of every piece: divide the rows of nodes that were split, and return what is
to be known of others. All that is returned are integers, which are added up over pieces in any order, and the rows of
nodes that have become small, which are kept apart.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import Grid
from bopl.learner.hist_tree.histogram import HALF, add_rows
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.problem import (
    ACTION_SUMS,
    Norms,
    Target,
    count_pairs,
    load_problem,
    sum_leaf,
    sum_norms,
)
from bopl.learner.hist_tree.rows import RowCodes, take_rows
from bopl.learner.hist_tree.scale import quantize, quantize_wide
from bopl.learner.hist_tree.storage import BinnedContext

# What pieces return are records of int64 alone, so that they can be added up.
MEASURED = np.dtype([(name, np.int64) for name in ("rows", "of_pairs", *Norms._fields)])
COUNTED = np.dtype(
    [
        ("rows", np.int64),
        ("coarse", np.int64),  # weights of too few units
        ("gradient", np.int64),  # sums in the integers of the problem
        ("weight", np.int64),
        ("absolute", np.int64),
        ("pairs", np.int64),
        ("leaf_gradient_high", np.int64),  # unrounded sums, on the grids
        ("leaf_gradient_low", np.int64),
        ("leaf_weight_high", np.int64),
        ("leaf_weight_low", np.int64),
    ]
)


@dataclass(frozen=True)
class Divide:
    """A node is split on a context column; its rows go to two others."""

    node: int
    left: int
    right: int
    position: int
    default_left: bool


@dataclass(frozen=True)
class Branch:
    """A node's action set is split: both of its children have all of its rows."""

    node: int
    left: int
    right: int


@dataclass(frozen=True)
class Measure:
    """What the scale of a new problem is computed from."""

    node: int
    actions: NDArray[np.int32]


@dataclass(frozen=True)
class Count:
    """Sums of a node in the integers of its problem, and its histogram."""

    node: int
    actions: NDArray[np.int32]
    gradient_scale: float
    weight_scale: float
    is_wide: bool
    fine: float
    has_histogram: bool


@dataclass(frozen=True)
class Gather:
    """The rows of a node are wanted: it is grown elsewhere."""

    node: int
    actions: NDArray[np.int32]


@dataclass(frozen=True)
class Wave:
    """What is done with all pieces in one pass: first rows are divided, then what was asked for is found."""

    divides: tuple[Divide, ...] = ()
    branches: tuple[Branch, ...] = ()
    measures: tuple[Measure, ...] = ()
    counts: tuple[Count, ...] = ()
    gathers: tuple[Gather, ...] = ()
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True)
class TreeTask:
    """What all waves of one tree have in common.

    Attributes
    ----------
    grids : tuple of Grid
    is_classifier, has_count : bool
    drawn : ndarray of uint8 or None
        The samples drawn for this tree, one bit for each of the log's; None for all.
    """

    grids: tuple[Grid, Grid]
    is_classifier: bool
    has_count: bool
    drawn: NDArray[np.uint8] | None = None

    def rows(self, first: int, n_rows: int) -> NDArray[np.int32]:
        """Return the rows of a piece that are drawn."""
        if self.drawn is None:
            return np.arange(n_rows, dtype=np.int32)
        bits = np.unpackbits(self.drawn[first // 8 : (first + n_rows + 7) // 8])[first % 8 :][:n_rows]
        return np.flatnonzero(bits).astype(np.int32)


@dataclass(frozen=True)
class Rows:
    """Rows of the gathered nodes of one piece, node after node, as the engine needs them to grow these."""

    counts: NDArray[np.int64]  # rows of each node
    codes: RowCodes
    gradient: NDArray[np.float64]  # of the actions of each node, action after action
    weight: NDArray[np.float64]
    mask: NDArray[np.bool_] | None  # (n_rows, n_actions)


Nodes = dict[int, NDArray[np.int32]]


class Counted(NamedTuple):
    """What `Count` returned for every node: sums, sums by action, and histograms of those that have one."""

    sums: NDArray[Any]  # (n_counts,) of COUNTED
    action_sums: NDArray[Any]  # (n_counts, n_actions) of ACTION_SUMS
    packed: NDArray[np.int64]  # (n_histograms, n_positions)
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]


@dataclass
class Answer:
    """What the pieces returned: sums over all of them, and rows by the number of the first sample of their piece."""

    n_left: NDArray[np.int64]  # of each divided node
    measures: NDArray[Any]  # (n_measures,) of MEASURED
    counts: Counted
    rows: dict[int, Rows] = field(default_factory=dict)

    def __add__(self, other: Answer) -> Answer:
        for mine, theirs in (
            (self.n_left, other.n_left),
            (self.measures, other.measures),
            *zip(self.counts, other.counts, strict=True),
        ):
            whole = mine.view(np.int64)
            whole += theirs.view(np.int64)
        self.rows.update(other.rows)
        return self


def run_wave(binned: BinnedContext, target: Target, nodes: Nodes, wave: Wave, has_count: bool, first: int) -> Answer:
    """Divide a piece's nodes, in place, and return its part of the answer.

    Parameters
    ----------
    binned : BinnedContext
        The piece's contexts.
    target : Target
    nodes : dict of int to ndarray of int32
        Rows of each open node, ascending.
    wave : Wave
    has_count : bool
        Whether pairs are counted, for ``min_samples_leaf``.
    first : int
        Number of the piece's first sample.
    """
    n_left = _divide(binned, nodes, wave)
    scratch = _take_scratch(binned.n_samples, has_count)
    answer = Answer(
        n_left,
        _measure(target, nodes, wave.measures, scratch),
        _count(binned, target, nodes, wave.counts, scratch, has_count),
    )
    if wave.gathers and binned.n_samples:
        answer.rows[first] = _extract(binned, target, nodes, wave.gathers)
    for node in wave.dropped:
        nodes.pop(node, None)
    return answer


class WaveScratch(NamedTuple):
    """Working memory of a pass over a piece, with an entry for every row."""

    row_gradient: NDArray[np.float64]
    row_weight: NDArray[np.float64]
    packed: NDArray[np.int64]
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]  # empty if pairs are not counted


_KEPT = threading.local()  # the arrays of a thread's last pass: fresh ones cost more than some passes do


def _take_scratch(n_rows: int, has_count: bool) -> WaveScratch:
    """Return working memory for so many rows, the thread's own; what it holds is left over from other passes."""
    kept: NDArray[np.int64] | None = getattr(_KEPT, "words", None)
    if kept is None or kept.shape[1] < n_rows:
        kept = _KEPT.words = np.empty((len(WaveScratch._fields), n_rows), np.int64)
    gradient, weight, packed, wide, pairs = (words[:n_rows] for words in kept)
    return WaveScratch(
        gradient.view(np.float64), weight.view(np.float64), packed, wide, pairs if has_count else pairs[:0]
    )


class _Nodes(NamedTuple):
    """Rows and action sets of some nodes, end to end: a compiled call for all nodes costs as much as for one."""

    rows: NDArray[np.int32]
    row_start: NDArray[np.int64]  # (n_nodes + 1,)
    actions: NDArray[np.int32]
    action_start: NDArray[np.int64]  # (n_nodes + 1,)


def _nodes_of(nodes: Nodes, wanted: Sequence[Measure | Count | Gather]) -> _Nodes:
    return _Nodes(*_flat([nodes[one.node] for one in wanted]), *_flat([one.actions for one in wanted]))


def _flat(arrays: Sequence[NDArray[np.int32]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return arrays end to end, and where each begins."""
    starts = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(one) for one in arrays], out=starts[1:])
    return np.concatenate([np.zeros(0, np.int32), *arrays]), starts


def _divide(binned: BinnedContext, nodes: Nodes, wave: Wave) -> NDArray[np.int64]:
    """Give the rows of divided nodes to their children; return how many go left."""
    n_left = np.zeros(len(wave.divides), np.int64)
    if wave.divides:
        rows, starts = _flat([nodes.pop(one.node) for one in wave.divides])
        position = np.array([one.position for one in wave.divides], np.int64)
        default_left = np.array([one.default_left for one in wave.divides], np.bool_)
        _divide_all(binned.arrays, starts, position, default_left, rows, n_left)
        for number, one in enumerate(wave.divides):
            start, end = starts[number], starts[number + 1]
            middle = start + n_left[number]
            nodes[one.left], nodes[one.right] = rows[start:middle].copy(), rows[middle:end].copy()
    for branch in wave.branches:
        shared = nodes.pop(branch.node)
        nodes[branch.left], nodes[branch.right] = shared, shared
    return n_left


@njit(nogil=True, cache=True)
def _divide_all(binned, starts, position, default_left, rows_out, n_left_out):  # type: ignore[no-untyped-def]
    buffer = np.empty_like(rows_out)
    for number in range(len(position)):
        members = rows_out[starts[number] : starts[number + 1]]
        n_left_out[number] = split_members(binned, position[number], default_left[number], members, buffer)


def _measure(target: Target, nodes: Nodes, wanted: Sequence[Measure], scratch: WaveScratch) -> NDArray[Any]:
    measured = np.zeros(len(wanted), MEASURED)
    if wanted:
        action_sums = np.zeros(len(target.gradient), ACTION_SUMS)
        _measure_all(target, _nodes_of(nodes, wanted), scratch, action_sums, measured)
    return measured


@njit(nogil=True, cache=True)
def _measure_all(target, nodes, scratch, action_sums, measured_out):  # type: ignore[no-untyped-def]
    for number in range(len(measured_out)):
        rows = nodes.rows[nodes.row_start[number] : nodes.row_start[number + 1]]
        actions = nodes.actions[nodes.action_start[number] : nodes.action_start[number + 1]]
        gradient, weight, of_pairs = load_problem(
            target, rows, actions, scratch.row_gradient, scratch.row_weight, action_sums
        )
        norms, measured = sum_norms(target, rows, gradient, weight), measured_out[number]
        measured.rows, measured.of_pairs = len(rows), of_pairs
        measured.gradient_high, measured.gradient_low = norms.gradient_high, norms.gradient_low
        measured.weight_high, measured.weight_low = norms.weight_high, norms.weight_low


class _Counts(NamedTuple):
    """What is to be counted, node by node."""

    gradient_scale: NDArray[np.float64]
    weight_scale: NDArray[np.float64]
    fine: NDArray[np.float64]
    is_wide: NDArray[np.bool_]
    has_histogram: NDArray[np.bool_]


def _count(
    binned: BinnedContext,
    target: Target,
    nodes: Nodes,
    wanted: Sequence[Count],
    scratch: WaveScratch,
    has_count: bool,
) -> Counted:
    n_histograms = sum(one.has_histogram for one in wanted)
    n_wide = n_histograms if any(one.is_wide for one in wanted) else 0
    n_pairs = n_histograms if has_count else 0
    counted = Counted(
        np.zeros(len(wanted), COUNTED),
        np.zeros((len(wanted), len(target.gradient)), ACTION_SUMS),
        *(np.zeros((n, binned.n_positions), np.int64) for n in (n_histograms, n_wide, n_pairs)),
    )
    if wanted:
        asked = _Counts(*(np.array([getattr(one, name) for one in wanted]) for name in _Counts._fields))
        _count_all(binned.arrays, target, _nodes_of(nodes, wanted), asked, scratch, counted)
    return counted


@njit(nogil=True, cache=True)
def _count_all(binned, target, nodes, asked, scratch, counted_out):  # type: ignore[no-untyped-def]
    at = 0  # of the histograms
    for number in range(len(asked.is_wide)):
        rows = nodes.rows[nodes.row_start[number] : nodes.row_start[number + 1]]
        actions = nodes.actions[nodes.action_start[number] : nodes.action_start[number + 1]]
        _count_sums(target, rows, actions, asked, number, scratch, counted_out)
        if asked.has_histogram[number]:
            _count_histogram(binned, rows, asked.is_wide[number], scratch, at, counted_out)
            at += 1


@njit(nogil=True, cache=True)
def _count_sums(target, rows, actions, asked, number, scratch, counted_out):  # type: ignore[no-untyped-def]
    """Turn a node's rows into the integers of its problem, and write their sums."""
    gradient, weight, _ = load_problem(
        target, rows, actions, scratch.row_gradient, scratch.row_weight, counted_out.action_sums[number]
    )
    sums = counted_out.sums[number]
    sums.rows = len(rows)
    gradient_high, gradient_low, weight_high, weight_low = sum_leaf(target, rows, gradient, weight)
    sums.leaf_gradient_high, sums.leaf_gradient_low = gradient_high, gradient_low
    sums.leaf_weight_high, sums.leaf_weight_low = weight_high, weight_low
    gradient_scale, weight_scale = asked.gradient_scale[number], asked.weight_scale[number]
    if asked.is_wide[number]:
        sums.gradient, sums.absolute = quantize_wide(rows, gradient, gradient_scale, scratch.packed)
        sums.weight, _ = quantize_wide(rows, weight, weight_scale, scratch.wide)
    else:
        sums.coarse, sums.gradient, sums.weight, sums.absolute = quantize(
            rows, gradient, weight, gradient_scale, weight_scale, asked.fine[number], scratch.packed
        )
    if len(scratch.pairs) > 0:
        sums.pairs = count_pairs(target, rows, len(actions), actions, scratch.pairs)


@njit(nogil=True, cache=True)
def _count_histogram(binned, rows, is_wide, scratch, at, counted_out):  # type: ignore[no-untyped-def]
    """Add a node's rows, turned into integers before, to its histograms."""
    for block in range(len(binned.block)):
        add_rows(binned, block, rows, scratch.packed, 1, 0 if is_wide else HALF, counted_out.packed[at])
        if is_wide:
            add_rows(binned, block, rows, scratch.wide, 1, 0, counted_out.wide[at])
        if len(scratch.pairs) > 0:
            add_rows(binned, block, rows, scratch.pairs, 1, 0, counted_out.pairs[at])


def _extract(binned: BinnedContext, target: Target, nodes: Nodes, wanted: Sequence[Gather]) -> Rows:
    flat = _nodes_of(nodes, wanted)
    counts = np.diff(flat.row_start)
    gradient = np.empty(int((counts * np.diff(flat.action_start)).sum()))
    _take_gradients(target.gradient, flat, gradient)
    mask = target.mask[flat.rows] if target.has_mask else None
    return Rows(counts, RowCodes.of(take_rows(binned, flat.rows)), gradient, target.weight[flat.rows], mask)


@njit(nogil=True, cache=True)
def _take_gradients(gradient, nodes, taken_out):  # type: ignore[no-untyped-def]
    at = 0
    for number in range(len(nodes.row_start) - 1):
        for k in range(nodes.action_start[number], nodes.action_start[number + 1]):
            column = gradient[nodes.actions[k]]
            for j in range(nodes.row_start[number], nodes.row_start[number + 1]):
                taken_out[at] = column[nodes.rows[j]]
                at += 1
