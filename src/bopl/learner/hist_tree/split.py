"""The best split of a node's contexts, from its histogram, block by block.

A column's candidates are its bins: the left child of an ordered column has all bins up to one, that of a one-against-
rest column has one or all but one. Among equal scores the first candidate wins: context columns before actions, lower
positions before higher ones.

Indices are unsigned and no array is sliced: a test for "counted from the end" at every access and a reference counted
for every slice would cost as much as the sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, LOW_MASK, pack
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


class SplitScratch(NamedTuple):
    """Buffers for the candidates of the longest column: the sums of one side, and the scores."""

    packed: NDArray[np.int64]  # gradient and weight, or the gradient alone in a wide scale
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]
    score: NDArray[np.float64]
    score_bits: NDArray[np.int64]  # the memory of ``score``


def make_split_scratch(binned: BinnedContext) -> SplitScratch:
    """Return the buffers of one thread."""
    longest = int(max(binned.arrays.column_bins, default=0))
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


class Column(NamedTuple):
    """A histogram column: its positions are ``start`` to ``end``."""

    start: Any  # uint64
    end: Any
    n_candidates: Any  # uint64: bins, but for that of missing values
    first: Any  # first bin that is a split
    common: Any  # bin without codes, or -1
    missing: Any  # bin of missing values, or -1
    is_ordered: bool


@njit(nogil=True, cache=True, inline="always")
def _column_at(binned, c):  # type: ignore[no-untyped-def]
    start, size, missing = np.uint64(binned.column_start[c]), np.uint64(binned.column_bins[c]), binned.column_missing[c]
    return Column(
        start,
        start + size,
        np.uint64(missing) if missing >= 0 else size,
        binned.column_first[c],
        binned.column_common[c],
        missing,
        binned.column_kind[c] == ORDERED,
    )


# -- A column's histogram ----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _complete(column, total, histogram_out):  # type: ignore[no-untyped-def]
    """Give the common bin, which rows do not add to, what the others leave of the total; return the others' sum."""
    if column.common < 0:
        return total
    at = column.start + np.uint64(column.common)
    histogram_out[at] = 0
    others = np.int64(0)
    for p in range(column.start, column.end):
        others += histogram_out[p]
    histogram_out[at] = total - others
    return others


@njit(nogil=True, cache=True, inline="always")
def _complete_all(column, node, total, rule, histogram_out):  # type: ignore[no-untyped-def]
    """Fill in the common bin; return False if no split of the column leaves enough on both sides, here or below.

    If the common bin is the first of an ordered column, no right child can hold more than the other bins do.
    """
    is_first = column.common == 0 and column.is_ordered
    others = _complete(column, total, histogram_out.packed)
    if is_first and not rule.is_wide and (others & LOW_MASK) < rule.min_weight:
        return False
    if rule.is_wide:
        _complete(column, node.weight, histogram_out.wide)
    if rule.min_pairs > 1:
        other_pairs = _complete(column, node.pairs, histogram_out.pairs)
        return not (is_first and other_pairs < rule.min_pairs)
    return True


# -- Sums of one side --------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _sum_side(column, histogram, side_out):  # type: ignore[no-untyped-def]
    """Write one side of each candidate: running sums of an ordered column, otherwise each bin by itself."""
    if column.is_ordered:
        running = np.int64(0)
        for p in range(column.start, column.end):
            running += histogram[p]
            side_out[p - column.start] = running
    else:
        for p in range(column.start, column.end):
            side_out[p - column.start] = histogram[p]


@njit(nogil=True, cache=True, inline="always")
def _sum_sides(column, rule, histogram, scratch_out):  # type: ignore[no-untyped-def]
    _sum_side(column, histogram.packed, scratch_out.packed)
    if rule.is_wide:
        _sum_side(column, histogram.wide, scratch_out.wide)
    if rule.min_pairs > 1:
        _sum_side(column, histogram.pairs, scratch_out.pairs)


@njit(nogil=True, cache=True)
def _add_to_side(missing, n, side_out):  # type: ignore[no-untyped-def]
    for b in range(n):
        side_out[b] += missing


@njit(nogil=True, cache=True, inline="always")
def _has_missing(column, rule, histogram):  # type: ignore[no-untyped-def]
    """Return whether a node has missing values in an ordered column that knows them."""
    if column.missing < 0:
        return False
    at = column.start + column.n_candidates
    return histogram.packed[at] != 0 or (rule.is_wide and histogram.wide[at] != 0)


@njit(nogil=True, cache=True, inline="always")
def _move_missing_left(column, rule, histogram, scratch_out):  # type: ignore[no-untyped-def]
    """Add the missing values to the left side of every candidate."""
    at, n = column.start + column.n_candidates, column.n_candidates
    _add_to_side(histogram.packed[at], n, scratch_out.packed)
    if rule.is_wide:
        _add_to_side(histogram.wide[at], n, scratch_out.wide)
    if rule.min_pairs > 1:
        _add_to_side(histogram.pairs[at], n, scratch_out.pairs)


# -- Candidates --------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _narrow(side, mask, low, high, least, most):  # type: ignore[no-untyped-def]
    """Narrow a range of running sums to those that lie between ``least`` and ``most`` under the mask; they ascend."""
    step, one = np.uint64(RANGE_STEP), np.uint64(1)
    while low + step <= high and (side[low + step - one] & mask) < least:
        low += step
    while low < high and (side[low] & mask) < least:
        low += one
    while high >= low + step and (side[high - step] & mask) > most:
        high -= step
    while high > low and (side[high - one] & mask) > most:
        high -= one
    return low, high


@njit(nogil=True, cache=True, inline="always")
def _valid_range(column, node, rule, scratch):  # type: ignore[no-untyped-def]
    """Return the range of an ordered column's candidates that leave enough weight and pairs on both sides."""
    low, high = np.uint64(0), column.n_candidates
    most = float(node.weight) - rule.min_weight
    low, high = _narrow(scratch.packed, LOW_MASK, low, high, rule.min_weight, most)
    if rule.min_pairs > 1:
        low, high = _narrow(scratch.pairs, WHOLE, low, high, rule.min_pairs, node.pairs - rule.min_pairs)
    return low, high


@njit(nogil=True, cache=True)
def _close_unordered(column, position_feature, allowed, use_allowed, score_out):  # type: ignore[no-untyped-def]
    """Cross out bins that are no split: a bundle's "none of them", and columns not drawn for this node."""
    for b in range(column.first):
        score_out[b] = NO_SCORE
    if use_allowed:
        for b in range(column.n_candidates):
            if not allowed[position_feature[column.start + b]]:
                score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _close_few_pairs(pairs, n, total_pairs, min_pairs, score_out):  # type: ignore[no-untyped-def]
    """Cross out candidates that leave fewer than ``min_pairs`` pairs on a side."""
    for b in range(n):
        if pairs[b] < min_pairs or total_pairs - pairs[b] < min_pairs:
            score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _put_split(b, column, node, rule, default_left, is_left, scratch, split_out):  # type: ignore[no-untyped-def]
    """Write the candidate ``b``; its sums are those of the left child if ``is_left``."""
    gradient = scratch.packed[b] if rule.is_wide else scratch.packed[b] >> HALF
    weight = scratch.wide[b] if rule.is_wide else scratch.packed[b] & LOW_MASK
    split_out.position, split_out.default_left = np.int64(column.start) + b, default_left
    split_out.left_gradient = gradient if is_left else node.gradient - gradient
    split_out.left_weight = weight if is_left else node.weight - weight
    split_out.score = scratch.score[b]


@njit(nogil=True, cache=True)
def scan_block(binned, block, node, rule, histogram, allowed, scratch, is_dead_out, split_out):  # type: ignore[no-untyped-def]
    """Look for a better split than the one found so far among the context columns of one block.

    Parameters
    ----------
    binned : Binned
    block : int
    node : NodeSums
    rule : SplitRule
    histogram : Histogram
        Of the node; its common bins are filled in.
    allowed : ndarray of bool, shape (n_features,)
        Columns that may be split, read only if ``rule.use_allowed``.
    scratch : SplitScratch
    is_dead_out : ndarray of bool, shape (n_histogram_columns,)
        Columns left out. A column is added where no split leaves enough weight and pairs on both sides: none will below
        either.
    split_out : record of SPLIT
        The best split so far.
    """
    total = node.gradient if rule.is_wide else pack(node.gradient, node.weight)
    has_min_pairs = rule.min_pairs > 1
    best = split_out.score
    for c in range(np.uint64(binned.block_column[block]), np.uint64(binned.block_column[block + 1])):
        if is_dead_out[c]:
            continue
        column = _column_at(binned, c)
        if rule.use_allowed and column.is_ordered and not allowed[binned.position_feature[column.start]]:
            continue
        if not _complete_all(column, node, total, rule, histogram):
            is_dead_out[c] = True
            continue
        _sum_sides(column, rule, histogram, scratch)
        for default_left in (False, True):
            if default_left:
                if not _has_missing(column, rule, histogram):
                    break
                _move_missing_left(column, rule, histogram, scratch)
            low, high = np.uint64(0), column.n_candidates
            if rule.is_wide:
                score_wide(
                    scratch.packed, scratch.wide, high, node.gradient, node.weight, rule.reg, rule.min_weight,
                    scratch.score,
                )  # fmt: skip
            else:
                if column.is_ordered:
                    low, high = _valid_range(column, node, rule, scratch)
                    is_dead_out[c] = low >= high and column.missing < 0
                    if not may_beat(scratch.packed, low, high, total, rule.reg, best):
                        continue
                score_packed(scratch.packed, low, high, total, rule.reg, rule.min_weight, scratch.score)
            if not column.is_ordered:
                _close_unordered(column, binned.position_feature, allowed, rule.use_allowed, scratch.score)
            if has_min_pairs and (rule.is_wide or not column.is_ordered):
                _close_few_pairs(scratch.pairs, high, node.pairs, rule.min_pairs, scratch.score)
            b = first_above(scratch.score, scratch.score_bits, low, high, best)
            if b >= 0:
                is_left = column.is_ordered or binned.position_is_left[np.int64(column.start) + b]
                _put_split(b, column, node, rule, default_left, is_left, scratch, split_out)
                best = split_out.score
