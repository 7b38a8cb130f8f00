"""Growing over pieces, the pieces' side: one pass over a piece's rows for all open nodes at once.

A `Wave` is what the owner of the tree asks of every piece: divide the rows of nodes that were split, and return what is
to be known of others. All that is returned are integers, which are added up over pieces in any order, and the rows of
nodes that have become small, which are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import Grid
from bopl.learner.hist_tree.histogram import HALF, add_rows
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.problem import (
    N_ACTION_SUMS,
    Target,
    count_pairs,
    load_rows,
    quantize,
    quantize_wide,
    sum_leaf,
    sum_norms,
)
from bopl.learner.hist_tree.storage import BinnedContext, RowCodes, take_rows

# What `Measure` returns.
M_ROWS, M_OF_PAIRS, M_NORMS, N_MEASURES = 0, 1, 2, 6
# What `Count` returns beside its histograms.
C_ROWS, C_COARSE, C_GRADIENT, C_WEIGHT, C_ABSOLUTE, C_PAIRS, C_LEAF, N_COUNTS = 0, 1, 2, 3, 4, 5, 6, 10


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

    found: NDArray[np.int64]  # (n_counts, N_COUNTS)
    action_sums: NDArray[np.int64]  # (n_counts, N_ACTION_SUMS, n_actions)
    packed: NDArray[np.int64]  # (n_histograms, n_positions)
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]


@dataclass
class Answer:
    """What the pieces returned: sums over all of them, and rows by the number of the first sample of their piece."""

    n_left: NDArray[np.int64]  # of each divided node
    measures: NDArray[np.int64]  # (n_measures, N_MEASURES)
    counts: Counted
    rows: dict[int, Rows] = field(default_factory=dict)

    def __add__(self, other: Answer) -> Answer:
        for mine, theirs in (
            (self.n_left, other.n_left),
            (self.measures, other.measures),
            *zip(self.counts, other.counts, strict=True),
        ):
            mine += theirs
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
    scratch = _Scratch(binned.n_samples, has_count)
    answer = Answer(
        n_left,
        _measure(target, nodes, wave.measures, scratch),
        _count(binned, target, nodes, wave.counts, scratch),
    )
    if wave.gathers and binned.n_samples:
        answer.rows[first] = _extract(binned, target, nodes, wave.gathers)
    for node in wave.dropped:
        nodes.pop(node, None)
    return answer


class _Scratch:
    """Working memory of a pass."""

    def __init__(self, n_rows: int, has_count: bool) -> None:
        self.row_gradient, self.row_weight = np.empty(n_rows), np.empty(n_rows)
        self.packed, self.wide = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
        self.pairs = np.empty(n_rows if has_count else 0, np.int64)
        self.has_count = has_count


def _flat(arrays: Sequence[NDArray[np.int32]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return arrays end to end, and where each begins: a compiled call for all nodes costs as much as for one."""
    starts = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(one) for one in arrays], out=starts[1:])
    return np.concatenate([np.zeros(0, np.int32), *arrays]), starts


def _divide(binned: BinnedContext, nodes: Nodes, wave: Wave) -> NDArray[np.int64]:
    """Give the rows of divided nodes to their children; return how many go left."""
    n_left = np.zeros(len(wave.divides), np.int64)
    if wave.divides:
        rows, starts = _flat([nodes.pop(one.node) for one in wave.divides])
        splits = np.array([(one.position, one.default_left) for one in wave.divides], np.int64)
        _divide_all(binned.arrays, rows, starts, splits, n_left)
        for number, one in enumerate(wave.divides):
            start, end = starts[number], starts[number + 1]
            middle = start + n_left[number]
            nodes[one.left], nodes[one.right] = rows[start:middle].copy(), rows[middle:end].copy()
    for branch in wave.branches:
        shared = nodes.pop(branch.node)
        nodes[branch.left], nodes[branch.right] = shared, shared
    return n_left


@njit(nogil=True, cache=True)
def _divide_all(binned, rows, starts, splits, n_left_out):  # type: ignore[no-untyped-def]
    buffer = np.empty_like(rows)
    for number in range(len(splits)):
        members = rows[starts[number] : starts[number + 1]]
        n_left_out[number] = split_members(binned, splits[number, 0], splits[number, 1] == 1, members, buffer)


def _measure(target: Target, nodes: Nodes, wanted: Sequence[Measure], scratch: _Scratch) -> NDArray[np.int64]:
    found = np.zeros((len(wanted), N_MEASURES), np.int64)
    if wanted:
        rows, row_start = _flat([nodes[one.node] for one in wanted])
        actions, action_start = _flat([one.actions for one in wanted])
        sums = np.zeros((N_ACTION_SUMS, len(target.gradient)), np.int64)
        arrays = (scratch.row_gradient, scratch.row_weight)
        _measure_all(target, rows, row_start, actions, action_start, arrays, sums, found)
    return found


@njit(nogil=True, cache=True)
def _measure_all(target, rows, row_start, actions, action_start, scratch, sums, found_out):  # type: ignore[no-untyped-def]
    for number in range(len(found_out)):
        own = rows[row_start[number] : row_start[number + 1]]
        some = actions[action_start[number] : action_start[number + 1]]
        _measure_rows(target, own, some, scratch[0], scratch[1], sums, found_out[number])


def _count(binned: BinnedContext, target: Target, nodes: Nodes, wanted: Sequence[Count], scratch: _Scratch) -> Counted:
    n_histograms = sum(one.has_histogram for one in wanted)
    n_wide = n_histograms if any(one.is_wide for one in wanted) else 0
    n_pairs = n_histograms if scratch.has_count else 0
    counted = Counted(
        np.zeros((len(wanted), N_COUNTS), np.int64),
        np.zeros((len(wanted), N_ACTION_SUMS, len(target.gradient)), np.int64),
        *(np.zeros((n, binned.n_positions), np.int64) for n in (n_histograms, n_wide, n_pairs)),
    )
    if wanted:
        rows, row_start = _flat([nodes[one.node] for one in wanted])
        actions, action_start = _flat([one.actions for one in wanted])
        _count_all(
            binned.arrays,
            target,
            rows,
            row_start,
            actions,
            action_start,
            np.array([(one.gradient_scale, one.weight_scale, one.fine) for one in wanted]),
            np.array([(one.is_wide, one.has_histogram) for one in wanted]),
            (scratch.row_gradient, scratch.row_weight, scratch.packed, scratch.wide, scratch.pairs),
            counted,
        )
    return counted


@njit(nogil=True, cache=True)
def _count_all(  # type: ignore[no-untyped-def]
    binned, target, rows, row_start, actions, action_start, scales, flags, scratch, counted
):
    at = 0  # of the histograms
    for number in range(len(flags)):
        is_wide, has_histogram = flags[number, 0], flags[number, 1]
        _count_rows(
            binned,
            target,
            rows[row_start[number] : row_start[number + 1]],
            actions[action_start[number] : action_start[number + 1]],
            (scales[number, 0], scales[number, 1], is_wide, scales[number, 2], has_histogram),
            scratch,
            counted,
            at,
            counted.action_sums[number],
            counted.found[number],
        )
        at += has_histogram


@njit(nogil=True, cache=True)
def _load_node(target, rows, actions, row_gradient, row_weight, action_sums_out):  # type: ignore[no-untyped-def]
    """As at the beginning of a problem: sums over its actions, or where there is nothing to add up, the arrays."""
    of_pairs = np.int64(0)
    if len(actions) == 1 and not target.has_mask and not target.is_classifier:
        return target.gradient[actions[0]], target.weight, of_pairs
    of_pairs = load_rows(target, rows, actions, row_gradient, row_weight, action_sums_out)
    return row_gradient, row_weight, of_pairs


@njit(nogil=True, cache=True)
def _measure_rows(target, rows, actions, row_gradient, row_weight, action_sums, found_out):  # type: ignore[no-untyped-def]
    gradient, weight, of_pairs = _load_node(target, rows, actions, row_gradient, row_weight, action_sums)
    norms = sum_norms(target, rows, gradient, weight)
    found_out[M_ROWS], found_out[M_OF_PAIRS] = len(rows), of_pairs
    for k in range(4):
        found_out[M_NORMS + k] = norms[k]


@njit(nogil=True, cache=True)
def _count_rows(binned, target, rows, actions, settings, scratch, counted, at, action_sums_out, found_out):  # type: ignore[no-untyped-def]
    gradient_scale, weight_scale, is_wide, fine, has_histogram = settings
    row_gradient, row_weight, packed, wide, pairs = scratch
    gradient, weight, _ = _load_node(target, rows, actions, row_gradient, row_weight, action_sums_out)
    found_out[C_ROWS] = len(rows)
    leaf = sum_leaf(target, rows, gradient, weight)
    for k in range(4):
        found_out[C_LEAF + k] = leaf[k]
    if is_wide:
        found_out[C_GRADIENT], found_out[C_ABSOLUTE] = quantize_wide(rows, gradient, gradient_scale, packed)
        found_out[C_WEIGHT], _ = quantize_wide(rows, weight, weight_scale, wide)
    else:
        n_coarse, g, w, absolute = quantize(rows, gradient, weight, gradient_scale, weight_scale, fine, packed)
        found_out[C_COARSE], found_out[C_GRADIENT], found_out[C_WEIGHT] = n_coarse, g, w
        found_out[C_ABSOLUTE] = absolute
    if len(pairs) > 0:
        found_out[C_PAIRS] = count_pairs(target, rows, len(actions), actions, pairs)
    if not has_histogram:
        return
    for block in range(len(binned.row_width)):
        add_rows(binned, block, rows, packed, 1, 0 if is_wide else HALF, counted.packed[at])
        if is_wide:
            add_rows(binned, block, rows, wide, 1, 0, counted.wide[at])
        if len(pairs) > 0:
            add_rows(binned, block, rows, pairs, 1, 0, counted.pairs[at])


def _extract(binned: BinnedContext, target: Target, nodes: Nodes, wanted: Sequence[Gather]) -> Rows:
    rows, row_start = _flat([nodes[one.node] for one in wanted])
    actions, action_start = _flat([one.actions for one in wanted])
    counts = np.diff(row_start)
    gradient = np.empty(int((counts * np.diff(action_start)).sum()))
    _take_gradients(target.gradient, rows, row_start, actions, action_start, gradient)
    mask = target.mask[rows] if target.has_mask else None
    return Rows(counts, RowCodes.of(take_rows(binned, rows)), gradient, target.weight[rows], mask)


@njit(nogil=True, cache=True)
def _take_gradients(gradient, rows, row_start, actions, action_start, taken_out):  # type: ignore[no-untyped-def]
    at = 0
    for number in range(len(row_start) - 1):
        for k in range(action_start[number], action_start[number + 1]):
            column = gradient[actions[k]]
            for j in range(row_start[number], row_start[number + 1]):
                taken_out[at] = column[rows[j]]
                at += 1
