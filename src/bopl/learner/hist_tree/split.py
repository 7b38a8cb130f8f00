"""The best split of a node's contexts, from its histogram, block by block.

A column's candidates are its bins: the left child of an ordered column has all bins up to one, that of a one-against-
rest column has one or all but one. Among equal scores the first candidate wins: context columns before actions, lower
positions before higher ones.

Indices are unsigned and no array is sliced: a test for "counted from the end" at every access and a reference counted
for every slice would cost as much as the sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, LOW_MASK, pack
from bopl.learner.hist_tree.node import NodeSums
from bopl.learner.hist_tree.score import NO_SCORE, first_above, may_beat, score_packed, score_wide
from bopl.learner.hist_tree.storage import ORDERED, BinnedContext

RANGE_STEP = 16  # candidates are left out in runs of this length
WHOLE = np.int64(-1)  # mask of sums that are not packed

SPLIT = np.dtype(
    [
        ("position", np.int64),  # in the histogram
        ("left_gradient", np.int64),  # integer sums of the left child
        ("left_weight", np.int64),
        ("default_left", np.bool_),  # missing values go left
        ("score", np.float64),  # negative if there is no split
    ],
    align=True,
)


class Histogram(NamedTuple):
    """The histogram of a node, or of each slot; with `NodeSums` these are the sums over its rows.

    ``wide`` and ``pairs`` are ``packed`` again where the rule of the problem does not need them.
    """

    packed: NDArray[np.int64]  # (n_positions,) gradient and weight, or the gradient alone in a wide scale
    wide: NDArray[np.int64]  # the weight in a wide scale
    pairs: NDArray[np.int64]  # the number of pairs


class ScannedNode(NamedTuple):
    """A node whose best split is looked for."""

    sums: NodeSums
    histogram: Histogram  # its common bins are filled in on the way
    allowed: NDArray[np.bool_]  # (n_features,) columns that may be split, read only if ``SplitRule.use_allowed``


class SplitScratch(NamedTuple):
    """Buffers for the candidates of the longest column: the sums of one side, and the scores."""

    packed: NDArray[np.int64]  # gradient and weight, or the gradient alone in a wide scale
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]
    score: NDArray[np.float64]
    score_bits: NDArray[np.int64]  # the memory of ``score``


def make_split_scratch(binned: BinnedContext) -> SplitScratch:
    """Return the buffers of one thread."""
    longest = int(max(binned.arrays.column["n_bins"], default=0))
    packed, wide, pairs = (np.empty(longest, np.int64) for _ in range(3))
    score = np.empty(longest, np.float64)
    return SplitScratch(packed, wide, pairs, score, score.view(np.int64))


class SplitRule(NamedTuple):
    """What makes a split of a problem valid, in the units of its integers; ``min_weight`` is at least 1."""

    reg: float
    min_weight: float
    min_pairs: int
    is_wide: bool
    use_allowed: bool


# -- A column's histogram ----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _complete(start, end, common, total, histogram_out):  # type: ignore[no-untyped-def]
    """Give the common bin, which rows do not add to, what the others leave of the total; return the others' sum."""
    if common < 0:
        return total
    at = start + np.uint64(common)
    histogram_out[at] = 0  # what it held is left over from the parent, or from another node that had the slot
    others = np.int64(0)
    for p in range(start, end):
        others += histogram_out[p]
    histogram_out[at] = total - others
    return others


@njit(nogil=True, cache=True)
def _complete_all(column, node, total, rule, packed_out, wide_out, pairs_out):  # type: ignore[no-untyped-def]
    """Fill in the common bin; return False if no split of the column leaves enough on both sides, here or below.

    If the common bin is the first of an ordered column, no right child can hold more than the other bins do.
    """
    start, common = np.uint64(column.start), column.common
    end, is_first = start + np.uint64(column.n_bins), common == 0 and column.kind == ORDERED
    others = _complete(start, end, common, total, packed_out)
    # Wide weights are in a table of their own, and wide problems too rare to be worth the same test there.
    if is_first and not rule.is_wide and (others & LOW_MASK) < rule.min_weight:
        return False
    if rule.is_wide:
        _complete(start, end, common, node.weight, wide_out)
    if rule.min_pairs > 1:
        other_pairs = _complete(start, end, common, node.pairs, pairs_out)
        return not (is_first and other_pairs < rule.min_pairs)
    return True


# -- Sums of one side --------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _sum_up(histogram, start, end, side_out):  # type: ignore[no-untyped-def]
    """Write the running sums of a column: the left children of its splits."""
    running = np.int64(0)
    for p in range(start, end):
        running += histogram[p]
        side_out[p - start] = running


@njit(nogil=True, cache=True)
def _copy(histogram, start, end, side_out):  # type: ignore[no-untyped-def]
    """Write each bin by itself: the children of one-against-rest splits."""
    for p in range(start, end):
        side_out[p - start] = histogram[p]


@njit(nogil=True, cache=True)
def _sum_side(column, histogram, side_out):  # type: ignore[no-untyped-def]
    """Write one side of every candidate."""
    start = np.uint64(column.start)
    end = start + np.uint64(column.n_bins)
    if column.kind == ORDERED:
        _sum_up(histogram, start, end, side_out)
    else:
        _copy(histogram, start, end, side_out)


@njit(nogil=True, cache=True)
def _move_left(missing, n, side_out):  # type: ignore[no-untyped-def]
    """Add missing values to the left side of every candidate of an ordered column."""
    for b in range(n):
        side_out[b] += missing


# -- Candidates --------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _narrow(side, mask, low, high, least, most):  # type: ignore[no-untyped-def]
    """Narrow a range of running sums to those that lie between ``least`` and ``most`` under the mask; they ascend."""
    step, one = np.uint64(RANGE_STEP), np.uint64(1)
    # Whole runs first, then single candidates: a search by halves would mispredict a branch at every other step.
    while low + step <= high and (side[low + step - one] & mask) < least:
        low += step
    while low < high and (side[low] & mask) < least:
        low += one
    while high >= low + step and (side[high - step] & mask) > most:
        high -= step
    while high > low and (side[high - one] & mask) > most:
        high -= one
    return low, high


@njit(nogil=True, cache=True)
def _valid_range(n_candidates, node, rule, side, side_pairs):  # type: ignore[no-untyped-def]
    """Return the range of an ordered column's candidates that leave enough weight and pairs on both sides."""
    low, high = np.uint64(0), n_candidates
    # The mask takes the weight out of packed sums. It is exact: the gradient above it never borrows from it.
    low, high = _narrow(side, LOW_MASK, low, high, rule.min_weight, float(node.weight) - rule.min_weight)
    if rule.min_pairs > 1:
        low, high = _narrow(side_pairs, WHOLE, low, high, rule.min_pairs, node.pairs - rule.min_pairs)
    return low, high


@njit(nogil=True, cache=True)
def _close_unordered(column, n, position, allowed, use_allowed, score_out):  # type: ignore[no-untyped-def]
    """Cross out bins that are not splits: a bundle's "none of them", and columns not drawn for this node."""
    for b in range(column.first):
        score_out[b] = NO_SCORE
    if use_allowed:
        start = np.uint64(column.start)
        for b in range(n):
            if not allowed[position[start + b].feature]:
                score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _close_few_pairs(pairs, n, total_pairs, min_pairs, score_out):  # type: ignore[no-untyped-def]
    """Cross out candidates that leave fewer than ``min_pairs`` pairs on a side."""
    for b in range(n):
        if pairs[b] < min_pairs or total_pairs - pairs[b] < min_pairs:
            score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _put_split(b, column, default_left, positions, is_wide, scratch, node, split_out):  # type: ignore[no-untyped-def]
    """Write the split of candidate ``b`` of a column; its sums are those of the side that was summed up."""
    position = column.start + b
    gradient = scratch.packed[b] if is_wide else scratch.packed[b] >> HALF
    weight = scratch.wide[b] if is_wide else scratch.packed[b] & LOW_MASK
    is_left = column.kind == ORDERED or positions[position].is_left
    split_out.position, split_out.default_left, split_out.score = position, default_left, scratch.score[b]
    split_out.left_gradient = gradient if is_left else node.gradient - gradient
    split_out.left_weight = weight if is_left else node.weight - weight


@njit(nogil=True, cache=True)
def scan_block(binned, block, rule, node, scratch, is_dead_out, split_out):  # type: ignore[no-untyped-def]
    """Look for a better split than the one found so far among the context columns of one block.

    Parameters
    ----------
    binned : Binned
    block : int
    rule : SplitRule
    node : ScannedNode
    scratch : SplitScratch
    is_dead_out : ndarray of bool, shape (n_histogram_columns,)
        Columns left out. A column is added where no split leaves enough weight and pairs on both sides: none will below
        either.
    split_out : record of SPLIT
        The best split so far.
    """
    # Arrays are taken out of their tuples once: every time costs a count of references.
    sums, allowed = node.sums, node.allowed
    packed, wide, pairs = node.histogram.packed, node.histogram.wide, node.histogram.pairs
    side, side_wide, side_pairs = scratch.packed, scratch.wide, scratch.pairs
    score, score_bits = scratch.score, scratch.score_bits
    is_wide, has_min_pairs = rule.is_wide, rule.min_pairs > 1
    total = sums.gradient if is_wide else pack(sums.gradient, sums.weight)
    best = split_out.score
    for c in range(np.uint64(binned.block[block].column_start), np.uint64(binned.block[block].column_end)):
        if is_dead_out[c]:
            continue
        column = binned.column[c]
        is_ordered, knows_missing = column.kind == ORDERED, column.missing >= 0
        if rule.use_allowed and is_ordered and not allowed[binned.position[column.start].feature]:
            continue
        # Below this line the common bin holds its sums: everything after it reads the column as if rows had added them.
        if not _complete_all(column, sums, total, rule, packed, wide, pairs):
            is_dead_out[c] = True
            continue
        _sum_side(column, packed, side)
        if is_wide:
            _sum_side(column, wide, side_wide)
        if has_min_pairs:
            _sum_side(column, pairs, side_pairs)
        n = np.uint64(column.missing) if knows_missing else np.uint64(column.n_bins)  # candidates
        missing = np.uint64(column.start) + n
        # Missing values are in the last bin, so running sums leave them right. A second turn moves them left, unless
        # the node has none of them: both turns would then score the same, and the first of equal scores wins.
        for default_left in (False, True):
            if default_left:
                if not knows_missing or (packed[missing] == 0 and (not is_wide or wide[missing] == 0)):
                    break
                _move_left(packed[missing], n, side)
                if is_wide:
                    _move_left(wide[missing], n, side_wide)
                if has_min_pairs:
                    _move_left(pairs[missing], n, side_pairs)
            low, high = np.uint64(0), n
            if is_wide:
                score_wide(side, side_wide, n, sums, rule.reg, rule.min_weight, score)
            else:
                if is_ordered:
                    # Weights of running sums ascend, so valid candidates lie side by side. With missing values the
                    # other turn may still find some; without them the column is dead (promise 3 of the README).
                    low, high = _valid_range(n, sums, rule, side, side_pairs)
                    is_dead_out[c] = low >= high and not knows_missing
                    if not may_beat(side, low, high, total, rule.reg, best):
                        continue
                score_packed(side, low, high, total, rule.reg, rule.min_weight, score)
            if not is_ordered:
                _close_unordered(column, n, binned.position, allowed, rule.use_allowed, score)
            if has_min_pairs and (is_wide or not is_ordered):
                _close_few_pairs(side_pairs, n, sums.pairs, rule.min_pairs, score)
            # "Above", not "at least": the first candidate of equal score wins, whatever block it stands in.
            b = first_above(score, score_bits, low, high, best)
            if b >= 0:
                best = score[b]
                _put_split(np.int64(b), column, default_left, binned.position, is_wide, scratch, sums, split_out)
