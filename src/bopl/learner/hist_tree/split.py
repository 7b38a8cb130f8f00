"""Best split of a node from its histogram (contexts) or from its per-action sums (actions).

The score of a split is ``GL^2 / (WL + lambda) + GR^2 / (WR + lambda)``; the gain is that less the parent's term. Among
equal scores the first candidate wins: context columns before actions, lower positions before higher ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bopl.learner.hist_tree.histogram import HALF, LOW_MASK
from bopl.learner.hist_tree.storage import ORDERED

NO_SCORE = -1.0  # scores are never negative
RANGE_STEP = 16  # candidates are left out in runs of this length
ALMOST = 1.0 - 1e-9  # a score within this of the best is computed exactly


class SplitScratch(NamedTuple):
    """Room for the candidates of one column, longer than the longest by one at least.

    ``gradient`` holds packed sums unless gradient and weight have an int64 each.
    """

    gradient: NDArray[np.int64]
    weight: NDArray[np.int64]
    pairs: NDArray[np.int64]
    score: NDArray[np.float64]


class NodeSums(NamedTuple):
    """Integer sums of a node: gradient, weight and number of eligible pairs."""

    gradient: Any  # int64
    weight: Any
    pairs: Any


class SplitRule(NamedTuple):
    """What makes a split of a problem valid, in the units of its integers; ``min_weight`` is at least 1."""

    reg: float
    min_weight: float
    min_count: int
    is_wide: bool
    use_allowed: bool


@njit(nogil=True, cache=True, error_model="numpy")
def _score_packed(packed, n, total, reg, min_weight, score_out):  # type: ignore[no-untyped-def]
    """Score each of ``n`` sides given by packed sums, the other child being the rest of the total.

    Without branches, reductions or a division that may raise, this loop compiles to vector code.
    """
    parent_gradient = float(total >> HALF)
    parent_weight = float(total & LOW_MASK)
    most = parent_weight - min_weight
    parent_weight += 2.0 * reg
    sides, scores = packed[:n], score_out[:n]
    for b in range(n):
        g = float(sides[b] >> HALF)
        w = float(sides[b] & LOW_MASK)
        is_valid = (w >= min_weight) & (w <= most)
        w += reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        score = (g * g * other_w + other_g * other_g * w) / (w * other_w)
        scores[b] = score if is_valid else NO_SCORE


@njit(nogil=True, cache=True, error_model="numpy")
def _may_beat(packed, n, total, reg, best):  # type: ignore[no-untyped-def]
    """Return whether a side may score above ``best``, by a multiplication each instead of a division.

    Rounding is allowed for, so that this only ever spares the exact scores, and never decides between them.
    """
    parent_gradient = float(total >> HALF)
    parent_weight = float(total & LOW_MASK) + 2.0 * reg
    to_beat = best * ALMOST
    sides = packed[:n]
    n_above = np.int64(0)  # a count compiles to vector code, "any" does not
    for b in range(n):
        g = float(sides[b] >> HALF)
        w = float(sides[b] & LOW_MASK) + reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        n_above += np.int64(g * g * other_w + other_g * other_g * w > to_beat * (w * other_w))
    return n_above > 0


@njit(nogil=True, cache=True, error_model="numpy")
def _score_wide(gradient, weight, n, total_gradient, total_weight, reg, min_weight, score_out):  # type: ignore[no-untyped-def]
    """As ``_score_packed``, for gradient and weight sums in an int64 each."""
    parent_gradient = float(total_gradient)
    parent_weight = float(total_weight)
    most = parent_weight - min_weight
    parent_weight += 2.0 * reg
    gradients, weights, scores = gradient[:n], weight[:n], score_out[:n]
    for b in range(n):
        g = float(gradients[b])
        w = float(weights[b])
        is_valid = (w >= min_weight) & (w <= most)
        w += reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        score = (g * g * other_w + other_g * other_g * w) / (w * other_w)
        scores[b] = score if is_valid else NO_SCORE


@njit(nogil=True, cache=True)
def _first_above(score, n, to_beat):  # type: ignore[no-untyped-def]
    """Return the index of the first largest of ``score[:n]`` if that is above ``to_beat``, otherwise -1.

    Non-negative floats order as their bits do, and an integer maximum compiles to vector code. ``score[n]`` is
    overwritten.
    """
    bits = score.view(np.int64)
    values = bits[:n]
    largest = np.int64(-1)
    for b in range(n):
        largest = max(largest, values[b])
    bits[n] = largest
    if largest < 0 or score[n] <= to_beat:
        return -1
    for b in range(n):
        if values[b] == largest:
            return b
    return -1


@njit(nogil=True, cache=True)
def _fill_side(histogram, is_ordered, common, total, side_out):  # type: ignore[no-untyped-def]
    """Write the candidate children of a column: running sums if it is ordered, otherwise each bin by itself.

    The common bin, which rows do not add to, gets what the others leave of the total.
    """
    n_bins = len(histogram)
    sides = side_out[:n_bins]
    running = np.int64(0)
    if is_ordered:
        for b in range(n_bins):
            running += histogram[b]
            sides[b] = running
        if common >= 0:
            rest = total - running
            for b in range(common, n_bins):
                sides[b] += rest
    else:
        for b in range(n_bins):
            running += histogram[b]
            sides[b] = histogram[b]
        if common >= 0:
            sides[common] = total - running


@njit(nogil=True, cache=True)
def _sum_weight(packed, start, end):  # type: ignore[no-untyped-def]
    """Return the weight of some positions together; much cheaper than their running sums."""
    part = packed[start:end]
    total = np.int64(0)
    for p in range(end - start):
        total += part[p]
    return total & LOW_MASK


@njit(nogil=True, cache=True)
def _valid_range(packed, n, least, most):  # type: ignore[no-untyped-def]
    """Return the range of running sums whose weight lies between ``least`` and ``most``; the weights ascend."""
    low, high = 0, n
    while low < n and (packed[min(low + RANGE_STEP, n) - 1] & LOW_MASK) < least:
        low += RANGE_STEP
    low = min(low, n)
    while high > low and (packed[max(high - RANGE_STEP, low)] & LOW_MASK) > most:
        high -= RANGE_STEP
    while low < high and (packed[low] & LOW_MASK) < least:
        low += 1
    while high > low and (packed[high - 1] & LOW_MASK) > most:
        high -= 1
    return low, max(high, low)


@njit(nogil=True, cache=True)
def _close_candidates(binned, c, allowed, use_allowed, score_out):  # type: ignore[no-untyped-def]
    """Cross out bins that are no split: a bundle's "none of them", and columns not drawn for this node."""
    for b in range(binned.column_first[c]):
        score_out[b] = NO_SCORE
    if use_allowed:
        start = binned.column_start[c]
        for b in range(binned.column_bins[c]):
            if not allowed[binned.position_feature[start + b]]:
                score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _add_missing(missing_bin, side_out):  # type: ignore[no-untyped-def]
    """Move missing values to the left of every candidate of an ordered column; return False if the node has none."""
    missing = side_out[missing_bin] - side_out[missing_bin - 1]
    if missing == 0:
        return False
    for b in range(missing_bin):
        side_out[b] += missing
    return True


@njit(nogil=True, cache=True)
def _close_small(n, total_count, min_count, count, score_out):  # type: ignore[no-untyped-def]
    """Cross out candidates that leave fewer than ``min_count`` pairs on a side."""
    for b in range(n):
        if count[b] < min_count or total_count - count[b] < min_count:
            score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def scan_block(binned, block, node, rule, packed, wide, count, allowed, scratch, is_dead_out, found_out, score_out):  # type: ignore[no-untyped-def]
    """Look for a better split than the one found so far among the context columns of one block.

    Parameters
    ----------
    binned : Binned
    block : int
    node : NodeSums
    rule : SplitRule
    packed : ndarray of int64, shape (n_positions,)
        Packed sums, or the gradient sums if ``rule.is_wide``.
    wide, count : ndarray of int64
        The weight sums if ``rule.is_wide``, and the numbers of pairs if ``rule.min_count`` is above 1.
    allowed : ndarray of bool, shape (n_features,)
        Columns that may be split, read only if ``rule.use_allowed``.
    scratch : SplitScratch
    is_dead_out : ndarray of bool, shape (n_histogram_columns,)
        Columns left out. A column is added where no split leaves enough weight on both sides: none will below either.
    found_out : ndarray of int64, shape (4,)
        Position, whether missing values go left, gradient and weight of the left child.
    score_out : ndarray of float64, shape (1,)
        The best score so far, negative if there is no split.
    """
    is_wide, min_weight, has_count = rule.is_wide, rule.min_weight, rule.min_count > 1
    total = node.gradient if is_wide else (node.gradient << HALF) + node.weight
    side, side_weight, side_count, score = scratch.gradient, scratch.weight, scratch.pairs, scratch.score
    for c in range(binned.block_column[block], binned.block_column[block + 1]):
        start, size, common = binned.column_start[c], binned.column_bins[c], binned.column_common[c]
        if is_dead_out[c]:
            continue
        is_ordered, missing_bin = binned.column_kind[c] == ORDERED, binned.column_missing[c]
        if rule.use_allowed and is_ordered and not allowed[binned.position_feature[start]]:
            continue
        n = missing_bin if missing_bin >= 0 else size
        # If the common bin is the first, no right child can hold more than the other bins do.
        if common == 0 and is_ordered and not is_wide and _sum_weight(packed, start, start + size) < min_weight:
            is_dead_out[c] = True
            continue
        _fill_side(packed[start : start + size], is_ordered, common, total, side)
        if is_wide:
            _fill_side(wide[start : start + size], is_ordered, common, node.weight, side_weight)
        if has_count:
            _fill_side(count[start : start + size], is_ordered, common, node.pairs, side_count)
        for default_left in (0, 1):
            if default_left and not _move_missing(missing_bin, is_wide, has_count, side, side_weight, side_count):
                break
            low, high = 0, n
            if is_wide:
                _score_wide(side, side_weight, n, node.gradient, node.weight, rule.reg, min_weight, score)
            else:
                if is_ordered:
                    low, high = _valid_range(side, n, min_weight, node.weight - min_weight)
                    is_dead_out[c] = low >= high and missing_bin < 0
                    if not _may_beat(side[low:], high - low, total, rule.reg, score_out[0]):
                        continue
                _score_packed(side[low:], high - low, total, rule.reg, min_weight, score[low:])
            if not is_ordered:
                _close_candidates(binned, c, allowed, rule.use_allowed, score)
            if has_count:
                _close_small(high, node.pairs, rule.min_count, side_count, score)
            b = _first_above(score[low:], high - low, score_out[0])
            if b >= 0:
                b += low
                gradient = side[b] if is_wide else side[b] >> HALF
                weight = side_weight[b] if is_wide else side[b] & LOW_MASK
                if not is_ordered and not binned.position_is_left[start + b]:
                    gradient, weight = node.gradient - gradient, node.weight - weight
                score_out[0] = score[b]
                found_out[0], found_out[1], found_out[2], found_out[3] = start + b, default_left, gradient, weight


@njit(nogil=True, cache=True)
def _move_missing(missing_bin, is_wide, has_count, side_out, side_weight_out, side_count_out):  # type: ignore[no-untyped-def]
    """Move missing values left in every sum of an ordered column; return False if there are none."""
    if missing_bin < 1:
        return False
    moved = _add_missing(missing_bin, side_out)
    if is_wide:
        moved = _add_missing(missing_bin, side_weight_out) or moved
    if has_count:
        _add_missing(missing_bin, side_count_out)
    return moved


@njit(nogil=True, cache=True)
def split_score(left_gradient, left_weight, right_gradient, right_weight, reg):  # type: ignore[no-untyped-def]
    """Return the score of two children given by their sums."""
    return left_gradient * left_gradient / (left_weight + reg) + right_gradient * right_gradient / (right_weight + reg)


@njit(nogil=True, cache=True)
def best_action_split(gradient, weight, actions, action_order, action_value, reg, min_weight):  # type: ignore[no-untyped-def]
    """Return the best split of an action set, by identity or by a threshold on an action feature.

    Parameters
    ----------
    gradient, weight : ndarray of float, shape (n_actions,)
        Sums of each action over the node's contexts; zero outside ``actions``.
    actions : ndarray of int32
        The node's action set, ascending.
    action_order : ndarray of int32, shape (n_action_features, n_actions)
        All actions by ascending value of each action feature.
    action_value : ndarray of float, shape (n_action_features, n_actions)
    reg, min_weight : float

    Returns
    -------
    score : float
        Negative if there is no split.
    feature : int
        -1 for identity, otherwise the action feature.
    action : int
        Identity: the action that goes right. Otherwise the last action, in the feature's order, that goes left.
    """
    total_gradient, total_weight = 0.0, 0.0
    for a in actions:
        total_gradient += gradient[a]
        total_weight += weight[a]
    best_score, best_feature, best_action = NO_SCORE, -1, -1
    for a in actions:
        rest = total_weight - weight[a]
        if weight[a] >= min_weight and rest >= min_weight and weight[a] > 0.0 and rest > 0.0:
            score = split_score(total_gradient - gradient[a], rest, gradient[a], weight[a], reg)
            if score > best_score:
                best_score, best_feature, best_action = score, -1, a
    is_member = np.zeros(len(gradient), np.bool_)
    for a in actions:
        is_member[a] = True
    for f in range(len(action_order)):
        left_gradient, left_weight, last = 0.0, 0.0, -1
        for a in action_order[f]:
            if not is_member[a]:
                continue
            rest = total_weight - left_weight
            is_heavy = min(left_weight, rest) >= min_weight and min(left_weight, rest) > 0.0
            if last >= 0 and action_value[f, a] > action_value[f, last] and is_heavy:
                score = split_score(left_gradient, left_weight, total_gradient - left_gradient, rest, reg)
                if score > best_score:
                    best_score, best_feature, best_action = score, f, last
            left_gradient += gradient[a]
            left_weight += weight[a]
            last = a
    return best_score, best_feature, best_action
