"""Growing over pieces, the pieces' side: one pass over a piece's rows for all open nodes at once.

A `Wave` is what the owner of the tree asks of every piece: divide the rows of nodes that were split, and return what is
to be known of others. All that is returned are integers, which are added up over pieces in any order, and the rows of
nodes that have become small, which are kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
from bopl.learner.hist_tree.storage import BinnedContext, take_rows

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
    """Rows of a node as the engine needs them to grow it: the actions of their problem alone."""

    binned: BinnedContext
    gradient: NDArray[np.float64]  # (len(actions), n_rows)
    weight: NDArray[np.float64]
    mask: NDArray[np.bool_] | None  # (n_rows, len(actions))


Nodes = dict[int, NDArray[np.int32]]


@dataclass
class Answer:
    """What the pieces returned: sums over all of them, and rows by the number of the first sample of their piece."""

    n_left: NDArray[np.int64]  # of each divided node
    measures: list[Any]
    counts: list[Any]
    rows: dict[int, list[Rows]] = field(default_factory=dict)

    def __add__(self, other: Answer) -> Answer:
        for mine, theirs in zip(self.measures, other.measures, strict=True):
            _add(mine, theirs)
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            _add(mine, theirs)
        self.n_left += other.n_left
        self.rows.update(other.rows)
        return self


def _add(mine: list[Any], theirs: list[Any]) -> None:
    for into, other in zip(mine, theirs, strict=True):
        into += other


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
    n_left = [_divide(binned, nodes, one) for one in wave.divides]
    for one in wave.branches:
        rows = nodes.pop(one.node)
        nodes[one.left], nodes[one.right] = rows, rows.copy()
    scratch = _Scratch(binned.n_samples, has_count)
    answer = Answer(
        np.array(n_left, np.int64),
        [_measure(target, nodes[one.node], one, scratch) for one in wave.measures],
        [_count(binned, target, nodes[one.node], one, scratch) for one in wave.counts],
    )
    if wave.gathers and binned.n_samples:
        answer.rows[first] = [_extract(binned, target, nodes[one.node], one) for one in wave.gathers]
    for node in wave.dropped:
        nodes.pop(node, None)
    return answer


def divide_only(binned: BinnedContext, nodes: Nodes, wave: Wave) -> None:
    """As `run_wave`, without an answer."""
    for one in wave.divides:
        _divide(binned, nodes, one)
    for branch in wave.branches:
        rows = nodes.pop(branch.node)
        nodes[branch.left], nodes[branch.right] = rows, rows.copy()
    for node in wave.dropped:
        nodes.pop(node, None)


class _Scratch:
    """Working memory of a pass."""

    def __init__(self, n_rows: int, has_count: bool) -> None:
        self.row_gradient, self.row_weight = np.empty(n_rows), np.empty(n_rows)
        self.packed, self.wide = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
        self.pairs = np.empty(n_rows if has_count else 0, np.int64)
        self.has_count = has_count


def _divide(binned: BinnedContext, nodes: Nodes, split: Divide) -> int:
    rows = nodes.pop(split.node)
    n_left = split_members(binned.arrays, split.position, split.default_left, rows, np.empty_like(rows))
    nodes[split.left], nodes[split.right] = rows[:n_left].copy(), rows[n_left:].copy()
    return int(n_left)


def _measure(target: Target, rows: NDArray[np.int32], wanted: Measure, scratch: _Scratch) -> list[Any]:
    found = np.zeros(N_MEASURES, np.int64)
    sums = np.zeros((N_ACTION_SUMS, len(target.gradient)), np.int64)
    _measure_rows(target, rows, wanted.actions, scratch.row_gradient, scratch.row_weight, sums, found)
    return [found]


def _count(
    binned: BinnedContext, target: Target, rows: NDArray[np.int32], wanted: Count, scratch: _Scratch
) -> list[Any]:
    found = np.zeros(N_COUNTS, np.int64)
    sums = np.zeros((N_ACTION_SUMS, len(target.gradient)), np.int64)
    n_positions = binned.n_positions if wanted.has_histogram else 0
    packed = np.zeros(n_positions, np.int64)
    wide = np.zeros(n_positions if wanted.is_wide else 0, np.int64)
    pairs = np.zeros(n_positions if scratch.has_count else 0, np.int64)
    _count_rows(
        binned.arrays,
        target,
        rows,
        wanted.actions,
        (wanted.gradient_scale, wanted.weight_scale, wanted.is_wide, wanted.fine, wanted.has_histogram),
        (scratch.row_gradient, scratch.row_weight, scratch.packed, scratch.wide, scratch.pairs),
        (packed, wide, pairs),
        sums,
        found,
    )
    return [found, sums, packed, wide, pairs]


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
def _count_rows(binned, target, rows, actions, settings, scratch, tables_out, action_sums_out, found_out):  # type: ignore[no-untyped-def]
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
        add_rows(binned, block, rows, packed, 1, 0 if is_wide else HALF, tables_out[0])
        if is_wide:
            add_rows(binned, block, rows, wide, 1, 0, tables_out[1])
        if len(pairs) > 0:
            add_rows(binned, block, rows, pairs, 1, 0, tables_out[2])


def _extract(binned: BinnedContext, target: Target, rows: NDArray[np.int32], wanted: Gather) -> Rows:
    mask = target.mask[rows][:, wanted.actions] if target.has_mask else None
    return Rows(take_rows(binned, rows), target.gradient[np.ix_(wanted.actions, rows)], target.weight[rows], mask)
