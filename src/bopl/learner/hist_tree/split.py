"""Best split of a node from its histogram (contexts) or from its per-action sums (actions).

The score of a split is ``GL^2 / (WL + lambda) + GR^2 / (WR + lambda)``; the gain is that less the parent's term. Among
equal scores the first candidate wins: context columns before actions, lower positions before higher ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, LOW_MASK
from bopl.learner.hist_tree.storage import ORDERED

NO_SCORE = -1.0  # scores are never negative
RANGE_STEP = 16  # candidates are left out in runs of this length
WHOLE = np.int64(-1)  # mask of sums that are not packed
ALMOST = 1.0 - 1e-9  # a score within this of the best is computed exactly


class SplitScratch(NamedTuple):
    """Room for the candidates of the longest column.

    ``gradient`` holds packed sums unless gradient and weight have an int64 each.
    """

    gradient: NDArray[np.int64]
    weight: NDArray[np.int64]
    pairs: NDArray[np.int64]
    score: NDArray[np.float64]
    bits: NDArray[np.int64]  # the memory of ``score``


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
def _score_packed(side, start, end, total, reg, min_weight, score_out):  # type: ignore[no-untyped-def]
    """Score sides given by packed sums, the other child being the rest of the total.

    Without branches, reductions or a division that may raise, this loop compiles to vector code.
    """
    parent_gradient = float(total >> HALF)
    parent_weight = float(total & LOW_MASK)
    most = parent_weight - min_weight
    parent_weight += 2.0 * reg
    for b in range(start, end):
        g = float(side[b] >> HALF)
        w = float(side[b] & LOW_MASK)
        is_valid = (w >= min_weight) & (w <= most)
        w += reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        score = (g * g * other_w + other_g * other_g * w) / (w * other_w)
        score_out[b] = score if is_valid else NO_SCORE


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _may_beat(side, start, end, total, reg, best):  # type: ignore[no-untyped-def]
    """Return whether a side may score above ``best``, by a few multiplications each instead of a division.

    Without ``reg`` the score is ``(G^2 + (GL W - G WL)^2 / (WL WR)) / W``. Rounding is allowed for, so that this only
    ever spares the exact scores, and never decides between them.
    """
    parent_gradient, parent_weight = float(total >> HALF), float(total & LOW_MASK)
    to_beat = best * ALMOST
    n_above = np.int64(0)  # a count compiles to vector code, "any" does not
    if reg == 0.0:
        excess = max(to_beat * parent_weight - parent_gradient * parent_gradient, 0.0)
        for b in range(start, end):
            w = float(side[b] & LOW_MASK)
            d = float(side[b] >> HALF) * parent_weight - parent_gradient * w
            n_above += np.int64(d * d > excess * (w * (parent_weight - w)))
        return n_above > 0
    parent_weight += 2.0 * reg
    for b in range(start, end):
        g = float(side[b] >> HALF)
        w = float(side[b] & LOW_MASK) + reg
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
    for b in range(n):
        g = float(gradient[b])
        w = float(weight[b])
        is_valid = (w >= min_weight) & (w <= most)
        w += reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        score = (g * g * other_w + other_g * other_g * w) / (w * other_w)
        score_out[b] = score if is_valid else NO_SCORE


@njit(nogil=True, cache=True)
def _first_above(score, bits, start, end, to_beat):  # type: ignore[no-untyped-def]
    """Return the index of the first largest of ``score[start:end]`` if that is above ``to_beat``, otherwise -1.

    Non-negative floats order as their bits do, and an integer maximum compiles to vector code. ``bits`` is the memory
    of ``score`` read as integers.
    """
    largest = np.int64(-1)
    for b in range(start, end):
        largest = max(largest, bits[b])
    if largest < 0:
        return np.int64(-1)
    for b in range(start, end):
        if bits[b] == largest:
            return np.int64(b) if score[b] > to_beat else np.int64(-1)
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _complete(histogram_out, start, end, common, total):  # type: ignore[no-untyped-def]
    """Give the common bin, which rows do not add to, what the others leave of the total; return the others' sum."""
    if common < 0:
        return total
    at = start + np.uint64(common)
    histogram_out[at] = 0
    others = np.int64(0)
    for p in range(start, end):
        others += histogram_out[p]
    histogram_out[at] = total - others
    return others


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


@njit(nogil=True, cache=True)
def _close_candidates(position_feature, start, first, n, allowed, use_allowed, score_out):  # type: ignore[no-untyped-def]
    """Cross out bins that are no split: a bundle's "none of them", and columns not drawn for this node."""
    for b in range(first):
        score_out[b] = NO_SCORE
    if use_allowed:
        for b in range(n):
            if not allowed[position_feature[start + b]]:
                score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def _add_missing(missing, n, side_out):  # type: ignore[no-untyped-def]
    """Move missing values to the left of every candidate of an ordered column."""
    for b in range(n):
        side_out[b] += missing


@njit(nogil=True, cache=True)
def _close_small(start, end, total_count, min_count, count, score_out):  # type: ignore[no-untyped-def]
    """Cross out candidates that leave fewer than ``min_count`` pairs on a side."""
    for b in range(start, end):
        if count[b] < min_count or total_count - count[b] < min_count:
            score_out[b] = NO_SCORE


@njit(nogil=True, cache=True)
def scan_block(binned, block, node, rule, packed, wide, count, allowed, scratch, is_dead_out, found_out, score_out):  # type: ignore[no-untyped-def]
    """Look for a better split than the one found so far among the context columns of one block.

    Indices are unsigned and no array is sliced: a test for "counted from the end" at every access and a reference
    counted for every slice would cost as much as the sums.

    Parameters
    ----------
    binned : Binned
    block : int
    node : NodeSums
    rule : SplitRule
    packed : ndarray of int64, shape (n_positions,)
        Packed sums, or the gradient sums if ``rule.is_wide``. Common bins are filled in.
    wide, count : ndarray of int64
        The weight sums if ``rule.is_wide``, and the numbers of pairs if ``rule.min_count`` is above 1.
    allowed : ndarray of bool, shape (n_features,)
        Columns that may be split, read only if ``rule.use_allowed``.
    scratch : SplitScratch
    is_dead_out : ndarray of bool, shape (n_histogram_columns,)
        Columns left out. A column is added where no split leaves enough weight and pairs on both sides: none will below
        either.
    found_out : ndarray of int64, shape (4,)
        Position, whether missing values go left, gradient and weight of the left child.
    score_out : ndarray of float64, shape (1,)
        The best score so far, negative if there is no split.
    """
    is_wide, min_weight, has_count, reg = rule.is_wide, rule.min_weight, rule.min_count > 1, rule.reg
    total = node.gradient if is_wide else (node.gradient << HALF) + node.weight
    most = float(node.weight) - min_weight
    side, side_weight, side_count, score = scratch.gradient, scratch.weight, scratch.pairs, scratch.score
    zero = np.uint64(0)
    best = score_out[0]
    for c in range(np.uint64(binned.block_column[block]), np.uint64(binned.block_column[block + 1])):
        if is_dead_out[c]:
            continue
        start, size, common = (
            np.uint64(binned.column_start[c]),
            np.uint64(binned.column_bins[c]),
            binned.column_common[c],
        )
        end = start + size
        is_ordered, missing_bin = binned.column_kind[c] == ORDERED, binned.column_missing[c]
        if rule.use_allowed and is_ordered and not allowed[binned.position_feature[start]]:
            continue
        others = _complete(packed, start, end, common, total)
        # If the common bin is the first, no right child can hold more than the other bins do.
        if common == 0 and is_ordered and not is_wide and (others & LOW_MASK) < min_weight:
            is_dead_out[c] = True
            continue
        if is_wide:
            _complete(wide, start, end, common, node.weight)
        if has_count:
            other_pairs = _complete(count, start, end, common, node.pairs)
            if common == 0 and is_ordered and other_pairs < rule.min_count:
                is_dead_out[c] = True
                continue
        if is_ordered:
            _sum_up(packed, start, end, side)
            if is_wide:
                _sum_up(wide, start, end, side_weight)
            if has_count:
                _sum_up(count, start, end, side_count)
        else:
            _copy(packed, start, end, side)
            if is_wide:
                _copy(wide, start, end, side_weight)
            if has_count:
                _copy(count, start, end, side_count)
        n = np.uint64(missing_bin) if missing_bin >= 0 else size
        for default_left in (0, 1):
            if default_left:
                missing = start + n
                if missing_bin < 0 or (packed[missing] == 0 and (not is_wide or wide[missing] == 0)):
                    break
                _add_missing(packed[missing], n, side)
                if is_wide:
                    _add_missing(wide[missing], n, side_weight)
                if has_count:
                    _add_missing(count[missing], n, side_count)
            low, high = zero, n
            if is_wide:
                _score_wide(side, side_weight, n, node.gradient, node.weight, reg, min_weight, score)
            else:
                if is_ordered:
                    low, high = _narrow(side, LOW_MASK, low, high, min_weight, most)
                    if has_count:
                        low, high = _narrow(side_count, WHOLE, low, high, rule.min_count, node.pairs - rule.min_count)
                    is_dead_out[c] = low >= high and missing_bin < 0
                    if not _may_beat(side, low, high, total, reg, best):
                        continue
                _score_packed(side, low, high, total, reg, min_weight, score)
            if not is_ordered:
                _close_candidates(
                    binned.position_feature, start, binned.column_first[c], n, allowed, rule.use_allowed, score
                )
            if has_count and (is_wide or not is_ordered):
                _close_small(low, high, node.pairs, rule.min_count, side_count, score)
            b = _first_above(score, scratch.bits, low, high, best)
            if b >= 0:
                gradient = side[b] if is_wide else side[b] >> HALF
                weight = side_weight[b] if is_wide else side[b] & LOW_MASK
                position = np.int64(start) + b
                if not is_ordered and not binned.position_is_left[position]:
                    gradient, weight = node.gradient - gradient, node.weight - weight
                best = score[b]
                found_out[0], found_out[1], found_out[2], found_out[3] = position, default_left, gradient, weight
    score_out[0] = best


@njit(nogil=True, cache=True)
def split_score(left_gradient, left_weight, right_gradient, right_weight, reg):  # type: ignore[no-untyped-def]
    """Return the score of two children given by their sums."""
    return left_gradient * left_gradient / (left_weight + reg) + right_gradient * right_gradient / (right_weight + reg)


@njit(nogil=True, cache=True)
def best_action_split(sums, actions, action_order, action_value, reg, min_weight, min_count):  # type: ignore[no-untyped-def]
    """Return the best split of an action set, by identity or by a threshold on an action feature.

    Parameters
    ----------
    sums : ndarray of float, shape (3, n_actions)
        Gradient, weight and number of pairs of each action over the node's contexts; zero outside ``actions``.
    actions : ndarray of int32
        The node's action set, ascending.
    action_order : ndarray of int32, shape (n_action_features, n_actions)
        All actions by ascending value of each action feature.
    action_value : ndarray of float, shape (n_action_features, n_actions)
    reg, min_weight : float
    min_count : int

    Returns
    -------
    score : float
        Negative if there is no split.
    feature : int
        -1 for identity, otherwise the action feature.
    action : int
        Identity: the action that goes right. Otherwise the last action, in the feature's order, that goes left.
    """
    gradient, weight, count = 0.0, 0.0, 0.0
    for a in actions:
        gradient += sums[0, a]
        weight += sums[1, a]
        count += sums[2, a]
    best_score, best_feature, best_action = NO_SCORE, -1, -1
    for a in actions:
        lighter, fewer = min(sums[1, a], weight - sums[1, a]), min(sums[2, a], count - sums[2, a])
        if lighter >= min_weight and lighter > 0.0 and fewer >= min_count:
            score = split_score(gradient - sums[0, a], weight - sums[1, a], sums[0, a], sums[1, a], reg)
            if score > best_score:
                best_score, best_feature, best_action = score, -1, a
    is_member = np.zeros(sums.shape[1], np.bool_)
    for a in actions:
        is_member[a] = True
    for f in range(len(action_order)):
        left_gradient, left_weight, left_count, last = 0.0, 0.0, 0.0, -1
        for a in action_order[f]:
            if not is_member[a]:
                continue
            lighter, fewer = min(left_weight, weight - left_weight), min(left_count, count - left_count)
            is_open = lighter >= min_weight and lighter > 0.0 and fewer >= min_count
            if last >= 0 and action_value[f, a] > action_value[f, last] and is_open:
                score = split_score(left_gradient, left_weight, gradient - left_gradient, weight - left_weight, reg)
                if score > best_score:
                    best_score, best_feature, best_action = score, f, last
            left_gradient += sums[0, a]
            left_weight += sums[1, a]
            left_count += sums[2, a]
            last = a
    return best_score, best_feature, best_action
