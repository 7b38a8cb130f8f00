"""Growing over pieces, the pieces' side: rows by node, and one pass over them for all open nodes at once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.apply import GrownTree, apply_nodes
from bopl.learner.hist_tree.grid import on_grid
from bopl.learner.hist_tree.histogram import HALF, add_rows, pack
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.problem import (
    ACTION_SUMS,
    Target,
    are_neighbours,
    count_pairs,
    load_problem,
    sum_leaf,
    sum_norms,
)
from bopl.learner.hist_tree.rows import RowCodes, take_rows
from bopl.learner.hist_tree.scale import quantize_wide
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.wave import Answer, NodeSets, Rows, TreeTask, Wave


def _no_rows() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


def _no_spans() -> NDArray[np.int64]:
    return np.zeros((1, 2), np.int64)


@dataclass
class HeldRows:
    """The rows of a piece by node of the tree that is being grown.

    A node's rows lie together, ascending, until it is divided; then its children's lie there, one's after the other's.
    The second child of a branch gets a copy. So every node's rows can be found until the next tree begins, and the
    finished tree need not send them down again. The memory is kept for that next tree.
    """

    rows: NDArray[np.int32] = field(default_factory=_no_rows)
    n_used: int = 0  # entries of ``rows`` in use
    span: NDArray[np.int64] = field(default_factory=_no_spans)  # (n_nodes, 2): where a node's rows begin and end

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.span.nbytes

    def begin(self, rows: NDArray[np.int32]) -> None:
        """Begin a tree: its root has these rows."""
        self._reserve(len(rows), is_empty=True)
        self.rows[: len(rows)] = rows
        self.n_used, self.span[0] = len(rows), (0, len(rows))

    def split(self, binned: BinnedContext, wave: Wave, n_left_out: NDArray[np.int64]) -> None:
        """Give the rows of divided and branched nodes to their children; add how many go left of the divided ones."""
        if len(self.span) < wave.n_nodes:
            self.span = np.concatenate([self.span, np.zeros((2 * wave.n_nodes - len(self.span), 2), np.int64)])
        if len(wave.divides):
            _divide_all(binned.arrays, wave.divides, _take_buffer(binned.n_samples), self.rows, self.span, n_left_out)
        for node, left, right in wave.branches.tolist():
            start, end = self.span[node].tolist()
            self._reserve(self.n_used + end - start)
            self.rows[self.n_used : self.n_used + end - start] = self.rows[start:end]
            self.span[left], self.span[right] = (start, end), (self.n_used, self.n_used + end - start)
            self.n_used += end - start

    def spans(self, asked: NodeSets) -> NDArray[np.int64]:
        """Return where the rows of some nodes begin and end."""
        return self.span[asked.node]

    def write_values(
        self, binned: BinnedContext, tree: GrownTree, held: NDArray[np.int32], step_out: NDArray[np.float64]
    ) -> None:
        """Write the values of the finished tree on all rows, which its growth has divided most of the way.

        ``held`` is, for each node of the tree, the node whose rows these are, where the growth ended; -1 elsewhere.
        """
        known = np.where(held[:, None] >= 0, self.span[held], -1)
        apply_nodes(binned.arrays, tree.nodes, tree.right_actions, known, self.rows[: self.n_used], step_out)

    def _reserve(self, n: int, *, is_empty: bool = False) -> None:
        if n > len(self.rows):
            longer = np.empty(n if is_empty else n + n // 8, np.int32)
            longer[: self.n_used] = self.rows[: self.n_used]
            self.rows = longer


@njit(nogil=True, cache=True)
def _divide_all(binned, divides, buffer, rows_out, span_out, n_left_out):  # type: ignore[no-untyped-def]
    for number in range(len(divides)):
        one = divides[number]
        start, end = span_out[one.node]
        n_left = split_members(binned, one.position, one.default_left, rows_out[start:end], buffer)
        span_out[one.left, 0], span_out[one.left, 1] = start, start + n_left
        span_out[one.right, 0], span_out[one.right, 1] = start + n_left, end
        n_left_out[number] += n_left


def run_wave(
    binned: BinnedContext, target: Target, held: HeldRows, wave: Wave, task: TreeTask, first: int, answer_out: Answer
) -> None:
    """Divide a piece's nodes, and add its part to the answer.

    Parameters
    ----------
    binned : BinnedContext
        The piece's contexts.
    target : Target
    held : HeldRows
        Changed in place.
    wave : Wave
    task : TreeTask
    first : int
        Number of the piece's first sample.
    answer_out : Answer
    """
    held.split(binned, wave, answer_out.n_left)
    scratch = _take_scratch(binned.n_samples, task)
    if len(wave.measures.node):
        _measure_all(target, held.rows, held.spans(wave.measures), wave.measures, scratch, answer_out.measures)
    if len(wave.how):
        spans = held.spans(wave.counts)
        _count_all(binned.arrays, target, held.rows, spans, wave.counts, wave.how, scratch, answer_out.counts)
    if len(wave.gathers.node) and binned.n_samples:
        answer_out.rows[first] = _extract(binned, target, held, wave.gathers)


class WaveScratch(NamedTuple):
    """Working memory of a pass over a piece: arrays with an entry for every row, and sums by action."""

    row_gradient: NDArray[np.float64]
    row_weight: NDArray[np.float64]
    packed: NDArray[np.int64]
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]  # empty if pairs are not counted
    action_sums: NDArray[Any]  # (n_actions,) of ACTION_SUMS


_KEPT = threading.local()  # the arrays of a thread's last pass: fresh ones cost more than some passes do
_N_WORDS = 6  # arrays of a row that are kept: five of `WaveScratch`, and the buffer of a division


def _take_words(n_rows: int) -> NDArray[np.int64]:
    """Return working memory for so many rows, the thread's own; what it holds is left over from other passes."""
    kept: NDArray[np.int64] | None = getattr(_KEPT, "words", None)
    if kept is None or kept.shape[1] < n_rows:
        kept = _KEPT.words = np.empty((_N_WORDS, n_rows), np.int64)
    return kept


def _take_buffer(n_rows: int) -> NDArray[np.int32]:
    return _take_words(n_rows)[_N_WORDS - 1].view(np.int32)


def _take_scratch(n_rows: int, task: TreeTask) -> WaveScratch:
    gradient, weight, packed, wide, pairs = (words[:n_rows] for words in _take_words(n_rows)[: _N_WORDS - 1])
    return WaveScratch(
        gradient.view(np.float64),
        weight.view(np.float64),
        packed,
        wide,
        pairs if task.has_count else pairs[:0],
        np.zeros(task.n_actions, ACTION_SUMS),
    )


@njit(nogil=True, cache=True)
def _measure_all(target, held, spans, asked, scratch, measured_out):  # type: ignore[no-untyped-def]
    for number in range(len(spans)):
        rows = held[spans[number, 0] : spans[number, 1]]
        actions = asked.actions[asked.start[number] : asked.start[number + 1]]
        gradient, weight, of_pairs = load_problem(
            target, rows, actions, scratch.row_gradient, scratch.row_weight, scratch.action_sums
        )
        norms, measured = sum_norms(target, rows, gradient, weight), measured_out[number]
        measured.rows += len(rows)
        measured.of_pairs += of_pairs
        measured.gradient_high += norms.gradient_high
        measured.gradient_low += norms.gradient_low
        measured.weight_high += norms.weight_high
        measured.weight_low += norms.weight_low


@njit(nogil=True, cache=True)
def _count_all(binned, target, held, spans, asked, how, scratch, counted_out):  # type: ignore[no-untyped-def]
    at = 0  # of the histograms
    for number in range(len(spans)):
        rows = held[spans[number, 0] : spans[number, 1]]
        actions = asked.actions[asked.start[number] : asked.start[number + 1]]
        _count_sums(target, rows, actions, how[number], scratch, counted_out.sums[number])
        if len(actions) > 1 or target.has_mask or target.is_classifier:  # otherwise nothing was summed by action
            _add_sums(scratch.action_sums, actions, counted_out.action_sums[number])
        if how[number].has_histogram:
            _count_histogram(binned, rows, how[number].is_wide, scratch, at, counted_out)
            at += 1


@njit(nogil=True, cache=True)
def _add_sums(sums, actions, sums_out):  # type: ignore[no-untyped-def]
    for a in actions:
        sums_out[a].gradient_high += sums[a].gradient_high
        sums_out[a].gradient_low += sums[a].gradient_low
        sums_out[a].weight_high += sums[a].weight_high
        sums_out[a].weight_low += sums[a].weight_low
        sums_out[a].pairs += sums[a].pairs


@njit(nogil=True, cache=True)
def _count_sums(target, rows, actions, how, scratch, sums_out):  # type: ignore[no-untyped-def]
    """Turn a node's rows into the integers of its problem, and add their sums."""
    gradient, weight, _ = load_problem(
        target, rows, actions, scratch.row_gradient, scratch.row_weight, scratch.action_sums
    )
    sums_out.rows += len(rows)
    if how.is_wide:
        total, absolute = quantize_wide(rows, gradient, how.gradient_scale, scratch.packed)
        sums_out.gradient += total
        sums_out.absolute += absolute
        sums_out.weight += quantize_wide(rows, weight, how.weight_scale, scratch.wide)[0]
        gradient_high, gradient_low, weight_high, weight_low = sum_leaf(target, rows, gradient, weight)
        sums_out.leaf_gradient_high += gradient_high
        sums_out.leaf_gradient_low += gradient_low
        sums_out.leaf_weight_high += weight_high
        sums_out.leaf_weight_low += weight_low
    else:
        _pack_and_sum(target, rows, gradient, weight, how, scratch.packed, sums_out)
    if len(scratch.pairs) > 0:
        sums_out.pairs += count_pairs(target, rows, len(actions), actions, scratch.pairs)


@njit(nogil=True, cache=True)
def _pack_and_sum(target, rows, gradient, weight, how, packed_out, sums_out):  # type: ignore[no-untyped-def]
    """Pack gradients and weights as `quantize` does, and sum them as `sum_leaf` does, in one reading of the rows."""
    gradient_grid, weight_grid = target.gradient_grid, target.weight_grid
    gradient_scale, weight_scale, fine = how.gradient_scale, how.weight_scale, how.fine
    gradient_high, gradient_low, weight_high, weight_low = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    n_coarse, sum_gradient, sum_weight, sum_abs = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    is_range, first = are_neighbours(rows), np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        high, low = on_grid(gradient[row], gradient_grid)
        gradient_high += high
        gradient_low += low
        high, low = on_grid(weight[row], weight_grid)
        weight_high += high
        weight_low += low
        scaled = weight[row] * weight_scale
        n_coarse += (scaled < fine) & (scaled > 0.0)
        g, w = np.int64(np.rint(gradient[row] * gradient_scale)), np.int64(np.rint(scaled))
        sum_gradient += g
        sum_weight += w
        sum_abs += abs(g)
        packed_out[row] = pack(g, w)
    sums_out.coarse += n_coarse
    sums_out.gradient += sum_gradient
    sums_out.weight += sum_weight
    sums_out.absolute += sum_abs
    sums_out.leaf_gradient_high += gradient_high
    sums_out.leaf_gradient_low += gradient_low
    sums_out.leaf_weight_high += weight_high
    sums_out.leaf_weight_low += weight_low


@njit(nogil=True, cache=True)
def _count_histogram(binned, rows, is_wide, scratch, at, counted_out):  # type: ignore[no-untyped-def]
    """Add a node's rows, turned into integers before, to its histograms."""
    for block in range(len(binned.block)):
        add_rows(binned, block, rows, scratch.packed, 1, 0 if is_wide else HALF, counted_out.packed[at])
        if is_wide:
            add_rows(binned, block, rows, scratch.wide, 1, 0, counted_out.wide[at])
        if len(scratch.pairs) > 0:
            add_rows(binned, block, rows, scratch.pairs, 1, 0, counted_out.pairs[at])


def _extract(binned: BinnedContext, target: Target, held: HeldRows, asked: NodeSets) -> Rows:
    spans = held.spans(asked)
    counts = spans[:, 1] - spans[:, 0]
    rows = np.concatenate([held.rows[start:end] for start, end in spans.tolist()])
    gradient = np.empty(int((counts * np.diff(asked.start)).sum()))
    _take_gradients(target.gradient, held.rows, spans, asked, gradient)
    mask = target.mask[rows] if target.has_mask else None
    return Rows(counts, RowCodes.of(take_rows(binned, rows)), gradient, target.weight[rows], mask)


@njit(nogil=True, cache=True)
def _take_gradients(gradient, held, spans, asked, taken_out):  # type: ignore[no-untyped-def]
    at = 0
    for number in range(len(spans)):
        for k in range(asked.start[number], asked.start[number + 1]):
            column = gradient[asked.actions[k]]
            for j in range(spans[number, 0], spans[number, 1]):
                taken_out[at] = column[held[j]]
                at += 1
