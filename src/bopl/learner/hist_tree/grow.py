"""Growing: nodes are (set of contexts, set of actions) pairs.

A *problem* is a set of contexts with one action set. Inside it every split is on a context column, rows carry one
packed integer each, and nodes are grown depth first with histograms handed from parent to child. A node that splits its
action set ends there and leaves two new problems; so does a node whose integers have become too coarse, which starts
again with its own scale. Problems too large for one thread are returned to the caller; the others are grown at once.

Nothing here depends on which thread grows what: integer sums have no order, and float sums run over rows in ascending
order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bopl.learner.hist_tree.histogram import HALF, add_rows, clear_columns, subtract_columns
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.problem import Target, count_pairs, load_rows, quantize, quantize_wide, sum_actions
from bopl.learner.hist_tree.random import draw_columns, mix
from bopl.learner.hist_tree.split import NO_SCORE, NodeSums, SplitRule, SplitScratch, best_action_split, scan_block

__all__ = ["ActionTable", "Limits", "Scratch", "Target", "grow", "leaf_value", "make_scratch"]

COARSE = 256  # a row's mean integer below this means that rounding shows
MIN_GAIN = 1e-6  # XGBoost's kRtEps: a split must gain more than this
NO_SLOT = -1

# Columns of the stack of open nodes.
START, END, DEPTH, SLOT, GRADIENT, WEIGHT, COUNT, NODE, ABSOLUTE, PATH, N_FIELDS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
# Columns of the integer and float tables of finished nodes.
LEFT, RIGHT, POSITION, DEFAULT_LEFT, ACTION_FEATURE, ACTION, N_NODE_INTS = 0, 1, 2, 3, 4, 5, 6
GAIN, SUM_GRADIENT, SUM_WEIGHT, VALUE, N_NODE_FLOATS = 0, 1, 2, 3, 4
LEAF = -1  # POSITION of a leaf; an action split has ON_ACTION there
ON_ACTION = -2
# Columns of the tables of pending and returned problems.
ROW_START, N_ROWS, ACTION_START, N_ACTIONS, P_DEPTH, P_NODE, P_PATH, N_PROBLEM_INTS = 0, 1, 2, 3, 4, 5, 6, 7


class ActionTable(NamedTuple):
    """Actions in the order of each action feature."""

    order: NDArray[np.int32]  # (n_action_features, n_actions)
    value: NDArray[np.float64]  # (n_action_features, n_actions)


class Limits(NamedTuple):
    """Settings of the growth."""

    max_depth: int
    min_child_weight: float
    min_samples_leaf: int
    reg_lambda: float
    colsample: float
    n_features: int
    seed: int
    large: int  # problems of at least this many contexts go back to the caller


class Scratch(NamedTuple):
    """One thread's working memory; arrays by row have an entry for every context."""

    members: NDArray[np.int32]
    buffer: NDArray[np.int32]
    row_gradient: NDArray[np.float64]  # sums over the problem's actions
    row_weight: NDArray[np.float64]
    packed: NDArray[np.int64]
    pairs: NDArray[np.int64]  # used if min_samples_leaf is above 1, otherwise empty
    histogram: NDArray[np.int64]  # (n_slots, n_positions)
    count_histogram: NDArray[np.int64]
    allowed: NDArray[np.bool_]  # (2, n_features), for the smaller and the larger child
    is_dead: NDArray[np.bool_]  # (n_slots, n_histogram_columns): columns that can split neither a node nor those below
    action_sums: NDArray[
        np.float64
    ]  # (n_slots + 1, 2, n_actions): gradient and weight of each action; the last is spare
    split: SplitScratch


def make_scratch(
    n_rows: int,
    n_positions: int,
    longest_column: int,
    n_columns: int,
    n_features: int,
    n_actions: int,
    *,
    has_count: bool,
) -> Scratch:
    """Allocate one thread's working memory for ``n_rows`` contexts."""
    score = np.empty(longest_column, np.float64)
    n_slots = int(np.log2(max(n_rows, 2))) + 3  # the smaller child goes first, so open histograms halve in rows
    return Scratch(
        members=np.empty(n_rows, np.int32),
        buffer=np.empty(n_rows, np.int32),
        row_gradient=np.empty(n_rows, np.float64),
        row_weight=np.empty(n_rows, np.float64),
        packed=np.empty(n_rows, np.int64),
        pairs=np.empty(n_rows if has_count else 0, np.int64),
        histogram=np.empty((n_slots, n_positions), np.int64),
        count_histogram=np.empty((n_slots if has_count else 0, n_positions), np.int64),
        allowed=np.ones((2, max(n_features, 1)), np.bool_),
        is_dead=np.zeros((n_slots, n_columns), np.bool_),
        action_sums=np.zeros((n_slots + 1, 2, n_actions), np.float64),
        split=SplitScratch(
            np.empty(longest_column, np.int64),
            np.empty(longest_column, np.int64),
            np.empty(longest_column, np.int64),
            score,
            score.view(np.int64),
        ),
    )


@njit(nogil=True, cache=True)
def _with_room(table, n):  # type: ignore[no-untyped-def]
    """Return ``table``, or a longer copy if it has no room for ``n`` rows."""
    if n <= len(table):
        return table
    longer = np.empty((max(n, 2 * len(table)), table.shape[1]), table.dtype)
    longer[: len(table)] = table
    return longer


@njit(nogil=True, cache=True)
def _with_room_flat(values, n):  # type: ignore[no-untyped-def]
    if n <= len(values):
        return values
    longer = np.empty(max(n, 2 * len(values)), values.dtype)
    longer[: len(values)] = values
    return longer


@njit(nogil=True, cache=True)
def _write_leaf(rows, row_gradient, row_weight, actions, limits, is_classifier, floats_out, step_out):  # type: ignore[no-untyped-def]
    """Sum the unrounded gradients of a leaf, set its value, and write the value to every pair it holds."""
    gradient, weight = 0.0, 0.0
    for j in range(len(rows)):
        row = np.uint64(rows[j])
        gradient += row_gradient[row]
        weight += row_weight[row]
    value = leaf_value(gradient, weight, limits.reg_lambda, limits.min_child_weight, is_classifier)
    floats_out[GAIN], floats_out[SUM_GRADIENT], floats_out[SUM_WEIGHT], floats_out[VALUE] = 0.0, gradient, weight, value
    for k in range(len(actions)):
        steps = step_out[np.uint64(actions[k])]
        for j in range(len(rows)):
            steps[np.uint64(rows[j])] = value


@njit(nogil=True, cache=True)
def leaf_value(gradient, weight, reg_lambda, min_child_weight, is_classifier):  # type: ignore[no-untyped-def]
    """Return a leaf's value; like XGBoost's it is 0 below ``min_child_weight`` (only a root can be)."""
    if is_classifier:
        return 1.0 if gradient > 0.0 else -1.0
    if weight < min_child_weight or weight <= 0.0:
        return 0.0
    return gradient / (weight + reg_lambda)


@njit(nogil=True, cache=True)
def _goes_right(feature, action, actions, action_table, is_right_out):  # type: ignore[no-untyped-def]
    """Mark the actions of a set that an action split sends right; return how many."""
    n_right = 0
    for k in range(len(actions)):
        a = actions[k]
        if feature < 0:
            is_right_out[k] = a == action
        else:
            is_right_out[k] = action_table.value[feature, a] > action_table.value[feature, action]
        n_right += is_right_out[k]
    return n_right


@njit(nogil=True, cache=True)
def _copy_actions(actions, is_right, side, pool_out, start):  # type: ignore[no-untyped-def]
    n = 0
    for k in range(len(actions)):
        if is_right[k] == side:
            pool_out[start + n] = actions[k]
            n += 1


@njit(nogil=True, cache=True)
def _is_coarse(n_members, weight, absolute, problem_weight, problem_absolute, is_wide):  # type: ignore[no-untyped-def]
    """Return whether a node's integers are so small that a scale of its own would show more."""
    if is_wide:
        return weight <= problem_weight >> 6 or absolute <= problem_absolute >> 6
    weight_is_coarse = weight < n_members * COARSE and weight < problem_weight >> 4
    gradient_is_coarse = absolute < n_members * COARSE and absolute < problem_absolute >> 4
    return weight_is_coarse or gradient_is_coarse


@njit(nogil=True, cache=True)
def _push_restart(table, n, rows, top, actions, action_top, members, own_actions, depth, node, path):  # type: ignore[no-untyped-def]
    """Add a problem that continues ``node`` with the same action set; return the tables and their lengths."""
    table = _with_room(table, n + 1)
    rows = _with_room_flat(rows, top + len(members))
    actions = _with_room_flat(actions, action_top + len(own_actions))
    rows[top : top + len(members)] = members
    actions[action_top : action_top + len(own_actions)] = own_actions
    table[n] = (top, len(members), action_top, len(own_actions), depth, node, path)
    return table, n + 1, rows, top + len(members), actions, action_top + len(own_actions)


@njit(nogil=True, cache=True)
def _push_pair(table, n, rows, top, actions, action_top, members, own_actions, is_right, n_right, depth, node, path):  # type: ignore[no-untyped-def]
    """Add the two problems of an action split, ``node`` and ``node + 1``, which share their rows."""
    table = _with_room(table, n + 2)
    rows = _with_room_flat(rows, top + len(members))
    actions = _with_room_flat(actions, action_top + len(own_actions))
    rows[top : top + len(members)] = members
    n_left = len(own_actions) - n_right
    _copy_actions(own_actions, is_right, False, actions, action_top)
    _copy_actions(own_actions, is_right, True, actions, action_top + n_left)
    table[n] = (top, len(members), action_top, n_left, depth, node, mix(path, 1))
    table[n + 1] = (top, len(members), action_top + n_left, n_right, depth, node + 1, mix(path, 2))
    return table, n + 2, rows, top + len(members), actions, action_top + len(own_actions)


@njit(nogil=True, cache=True)
def _scan_children(  # type: ignore[no-untyped-def]
    binned, rule, small, values, tables, small_slot, large_slot, sums, allowed, is_dead, scratch, found, score
):
    """Build the smaller child's histogram, turn the parent's into the larger one's, and look for the splits of both.

    All of it block by block, while the block's histograms are in cache. Index 0 is the smaller child, 1 the larger; a
    slot of -1 means that the child is a leaf. ``values`` and ``tables`` are the packed, wide and count arrays by row
    and by slot. Return the sum of the smaller child's absolute gradients.
    """
    absolute = np.int64(0)
    shift = 0 if rule.is_wide else HALF
    has_count = rule.min_count > 1
    for block in range(len(binned.row_width)):
        for kind in range(3):
            if (kind == 1 and not rule.is_wide) or (kind == 2 and not has_count):
                continue
            moved = shift if kind == 0 else 0
            if small_slot >= 0:
                clear_columns(binned, block, is_dead[small_slot], tables[kind][small_slot])
                summed = add_rows(binned, block, small, values[kind], 1, moved, tables[kind][small_slot])
                if large_slot >= 0:
                    subtract_columns(
                        binned, block, is_dead[large_slot], tables[kind][small_slot], tables[kind][large_slot]
                    )
            else:
                summed = add_rows(binned, block, small, values[kind], -1, moved, tables[kind][large_slot])
            absolute = summed if kind == 0 else absolute
        for child in range(2):
            slot = small_slot if child == 0 else large_slot
            if slot >= 0:
                packed = tables[0][slot]
                wide = tables[1][slot] if rule.is_wide else packed
                count = tables[2][slot] if has_count else packed
                scan_block(
                    binned,
                    block,
                    sums[child],
                    rule,
                    packed,
                    wide,
                    count,
                    allowed[child],
                    scratch,
                    is_dead[slot],
                    found[child],
                    score[child : child + 1],
                )
    return absolute


@njit(nogil=True, cache=True)
def _action_gain(sums, actions, action_table, limits):  # type: ignore[no-untyped-def]
    """Return the gain of the best split of the action set (negative if there is none), its feature and action."""
    score, feature, action = best_action_split(
        sums[0], sums[1], actions, action_table.order, action_table.value, limits.reg_lambda, limits.min_child_weight
    )
    if score < 0.0:
        return NO_SCORE, feature, action
    gradient, weight = 0.0, 0.0
    for a in actions:
        gradient += sums[0, a]
        weight += sums[1, a]
    return score - gradient * gradient / (weight + limits.reg_lambda), feature, action


@njit(nogil=True, cache=True)
def grow(binned, target, action_table, limits, rows, actions, depth, path, scratch, step_out):  # type: ignore[no-untyped-def]
    """Grow one problem and all that follow from it, except large ones.

    Parameters
    ----------
    binned : Binned
    target : Target
    action_table : ActionTable
    limits : Limits
    rows : ndarray of int32
        Contexts of the problem, ascending.
    actions : ndarray of int32
        Its action set, ascending.
    depth : int
        Depth of its root.
    path : int
        Number that stands for the way from the tree's root; randomness is drawn from it.
    scratch : Scratch
    step_out : ndarray of shape (n_actions, n_samples)
        The value of each leaf is written to its pairs.

    Returns
    -------
    ints, floats : ndarray
        Table of nodes; the first is the problem's root.
    problems : ndarray of int64
        Large problems left over; P_NODE is the node of this table that each continues.
    problem_rows, problem_actions : ndarray of int32
    """
    ints = np.empty((64, N_NODE_INTS), np.int64)
    floats = np.empty((64, N_NODE_FLOATS), np.float64)
    n_nodes = 1
    pending = np.empty((16, N_PROBLEM_INTS), np.int64)
    pending[0] = (0, len(rows), 0, len(actions), depth, 0, path)
    n_pending = 1
    row_pool, action_pool = rows.copy(), actions.copy()
    large = np.empty((4, N_PROBLEM_INTS), np.int64)
    large_rows, large_actions = np.empty(4, np.int32), np.empty(4, np.int32)
    n_large, n_large_rows, n_large_actions = 0, 0, 0
    stack = np.empty((limits.max_depth + 4, N_FIELDS), np.int64)
    stack_found = np.zeros((limits.max_depth + 4, 4), np.int64)
    stack_score = np.empty(limits.max_depth + 4, np.float64)
    found, score = np.zeros((2, 4), np.int64), np.empty(2, np.float64)
    n_slots = len(scratch.histogram)
    free = np.empty(n_slots, np.int64)
    wide = np.empty((0, 0), np.int64)
    wide_packed = np.empty(0, np.int64)
    is_right = np.empty(scratch.action_sums.shape[2], np.bool_)
    spare = scratch.action_sums[n_slots]
    has_count, use_allowed = limits.min_samples_leaf > 1, limits.colsample < 1.0

    while n_pending > 0:
        n_pending -= 1
        problem = pending[n_pending].copy()
        n_rows, n_actions, fresh, path = problem[N_ROWS], problem[N_ACTIONS], problem[P_NODE], problem[P_PATH]
        # Everything above this problem in the pools belongs to problems that are done.
        pool_top = problem[ROW_START] + n_rows
        action_top = problem[ACTION_START] + n_actions
        own_actions = action_pool[problem[ACTION_START] : action_top].copy()
        own_rows = scratch.members[:n_rows]
        own_rows[:] = row_pool[problem[ROW_START] : pool_top]
        packed = scratch.packed
        row_gradient, row_weight, has_gradient = scratch.row_gradient, scratch.row_weight, True
        if n_actions == 1 and not target.has_mask and not target.is_classifier:
            row_gradient, row_weight = target.gradient[own_actions[0]], target.weight  # nothing to add up
        else:
            has_gradient = load_rows(target, own_rows, own_actions, row_gradient, row_weight, spare)
        gradient_scale, weight_scale, total_g, total_w, total_abs = quantize(own_rows, row_gradient, row_weight, packed)
        is_wide = weight_scale == 0.0
        if is_wide:
            wide = wide if len(wide) > 0 else np.empty_like(scratch.histogram)
            wide_packed = _with_room_flat(wide_packed, len(packed))
            gradient_scale, total_g, total_abs = quantize_wide(own_rows, row_gradient, packed)
            weight_scale, total_w, _ = quantize_wide(own_rows, row_weight, wide_packed)
        total_count = np.int64(0)
        if has_count:
            total_count = count_pairs(target, own_rows, n_actions, own_actions, scratch.pairs)
        min_weight = max(np.ceil(limits.min_child_weight * weight_scale), 1.0)
        # A scale too coarse for min_child_weight cannot say that a node is too light to split.
        least = 2.0 * min_weight if min_weight >= COARSE else 0.0
        reg = limits.reg_lambda * weight_scale
        rule = SplitRule(reg, min_weight, limits.min_samples_leaf, is_wide, use_allowed)
        to_gain = weight_scale / (gradient_scale * gradient_scale)
        values, tables = (packed, wide_packed, scratch.pairs), (scratch.histogram, wide, scratch.count_histogram)
        problem_w, problem_abs = total_w, total_abs
        for k in range(n_slots):
            free[k] = n_slots - 1 - k
        n_free = n_slots
        slot = np.int64(NO_SLOT)
        stack_score[0] = NO_SCORE
        if problem[P_DEPTH] < limits.max_depth and total_w >= least:
            n_free -= 1
            slot = free[n_free]
            scratch.action_sums[slot] = spare
            scratch.is_dead[slot] = False
            score[:] = NO_SCORE
            if use_allowed:
                draw_columns(limits.seed, path, limits.colsample, scratch.allowed[0])
            if has_gradient:
                sums = NodeSums(total_g, total_w, total_count)
                _scan_children(
                    binned,
                    rule,
                    own_rows,
                    values,
                    tables,
                    slot,
                    np.int64(NO_SLOT),
                    (sums, sums),
                    scratch.allowed,
                    scratch.is_dead,
                    scratch.split,
                    found,
                    score,
                )
            stack_found[0] = found[0]
            stack_score[0] = score[0]
        stack[0] = (0, n_rows, problem[P_DEPTH], slot, total_g, total_w, total_count, fresh, total_abs, path)
        n_open = 1

        while n_open > 0:
            n_open -= 1
            start, end, depth, slot = (
                stack[n_open, START],
                stack[n_open, END],
                stack[n_open, DEPTH],
                stack[n_open, SLOT],
            )
            total_g, total_w, total_count = stack[n_open, GRADIENT], stack[n_open, WEIGHT], stack[n_open, COUNT]
            node, total_abs, path = stack[n_open, NODE], stack[n_open, ABSOLUTE], stack[n_open, PATH]
            members = scratch.members[start:end]
            n_members = end - start
            if (
                slot >= 0
                and node != fresh
                and _is_coarse(n_members, total_w, total_abs, problem_w, problem_abs, is_wide)
            ):
                free[n_free] = slot
                n_free += 1
                pending, n_pending, row_pool, pool_top, action_pool, action_top = _push_restart(
                    pending,
                    n_pending,
                    row_pool,
                    pool_top,
                    action_pool,
                    action_top,
                    members,
                    own_actions,
                    depth,
                    node,
                    path,
                )
                continue

            gain, is_action, best_feature, best_action = 0.0, False, -1, -1
            if stack_score[n_open] >= 0.0 and slot >= 0:
                gain = (stack_score[n_open] - float(total_g) * float(total_g) / (float(total_w) + reg)) * to_gain
            if slot >= 0 and n_actions > 1:
                action_gain, best_feature, best_action = _action_gain(
                    scratch.action_sums[slot], own_actions, action_table, limits
                )
                if action_gain > max(gain, MIN_GAIN):
                    n_right = _goes_right(best_feature, best_action, own_actions, action_table, is_right)
                    is_action = not has_count or _has_pairs(
                        target, members, own_actions, is_right, limits.min_samples_leaf
                    )
                    gain = action_gain if is_action else gain

            if gain <= MIN_GAIN:
                ints[node] = (LEAF, LEAF, LEAF, 0, 0, 0)
                _write_leaf(
                    members, row_gradient, row_weight, own_actions, limits, target.is_classifier, floats[node], step_out
                )
                if slot >= 0:
                    free[n_free] = slot
                    n_free += 1
                continue

            ints, floats = _with_room(ints, n_nodes + 2), _with_room(floats, n_nodes + 2)
            left_node, right_node = n_nodes, n_nodes + 1
            n_nodes += 2
            floats[node] = (gain, 0.0, 0.0, 0.0)
            if is_action:
                ints[node] = (left_node, right_node, ON_ACTION, 0, best_feature, best_action)
                free[n_free] = slot
                n_free += 1
                if n_members >= limits.large:
                    large, n_large, large_rows, n_large_rows, large_actions, n_large_actions = _push_pair(
                        large,
                        n_large,
                        large_rows,
                        n_large_rows,
                        large_actions,
                        n_large_actions,
                        members,
                        own_actions,
                        is_right,
                        n_right,
                        depth + 1,
                        left_node,
                        path,
                    )
                else:
                    pending, n_pending, row_pool, pool_top, action_pool, action_top = _push_pair(
                        pending,
                        n_pending,
                        row_pool,
                        pool_top,
                        action_pool,
                        action_top,
                        members,
                        own_actions,
                        is_right,
                        n_right,
                        depth + 1,
                        left_node,
                        path,
                    )
                continue

            position, default_left = stack_found[n_open, 0], stack_found[n_open, 1]
            left_g, left_w = stack_found[n_open, 2], stack_found[n_open, 3]
            ints[node] = (left_node, right_node, position, default_left, 0, 0)
            n_left = split_members(binned, position, default_left == 1, members, scratch.buffer)
            small_is_left = 2 * n_left <= n_members
            small = members[:n_left] if small_is_left else members[n_left:]
            small_count = np.int64(0)
            if has_count:
                for row in small:
                    small_count += scratch.pairs[row]
            left = NodeSums(left_g, left_w, small_count if small_is_left else total_count - small_count)
            right = NodeSums(total_g - left.gradient, total_w - left.weight, total_count - left.pairs)
            small_sums, large_sums = (left, right) if small_is_left else (right, left)
            small_path, large_path = mix(path, 1 if small_is_left else 2), mix(path, 2 if small_is_left else 1)
            goes_deeper = depth + 1 < limits.max_depth
            small_goes, large_goes = (
                goes_deeper and small_sums.weight >= least,
                goes_deeper and large_sums.weight >= least,
            )
            small_slot, large_slot = np.int64(NO_SLOT), np.int64(NO_SLOT)
            if large_goes:
                large_slot = slot
                if small_goes:
                    n_free -= 1
                    small_slot = free[n_free]
                    scratch.is_dead[small_slot] = scratch.is_dead[slot]
            elif small_goes:
                small_slot = slot
            else:
                free[n_free] = slot
                n_free += 1
            score[:] = NO_SCORE
            small_abs = np.int64(0)
            if small_goes or large_goes:
                if use_allowed:
                    draw_columns(limits.seed, small_path, limits.colsample, scratch.allowed[0])
                    draw_columns(limits.seed, large_path, limits.colsample, scratch.allowed[1])
                small_abs = _scan_children(
                    binned,
                    rule,
                    small,
                    values,
                    tables,
                    small_slot,
                    large_slot,
                    (small_sums, large_sums),
                    scratch.allowed,
                    scratch.is_dead,
                    scratch.split,
                    found,
                    score,
                )
                if n_actions > 1:
                    sum_actions(target, small, own_actions, spare)
                    if large_goes:
                        scratch.action_sums[slot] -= spare
                    if small_goes:
                        scratch.action_sums[small_slot] = spare
            small_start = start if small_is_left else start + n_left
            large_start = start + n_left if small_is_left else start
            small_node = left_node if small_is_left else right_node
            # The smaller child goes first: of the histograms kept open, each has at most half the rows of the one
            # before.
            stack[n_open] = (
                large_start,
                large_start + n_members - len(small),
                depth + 1,
                large_slot,
                large_sums.gradient,
                large_sums.weight,
                large_sums.pairs,
                left_node + right_node - small_node,
                total_abs - small_abs,
                large_path,
            )
            stack[n_open + 1] = (
                small_start,
                small_start + len(small),
                depth + 1,
                small_slot,
                small_sums.gradient,
                small_sums.weight,
                small_sums.pairs,
                small_node,
                small_abs,
                small_path,
            )
            for child in range(2):
                stack_found[n_open + 1 - child] = found[child]
                stack_score[n_open + 1 - child] = score[child]
            n_open += 2

    return ints[:n_nodes], floats[:n_nodes], large[:n_large], large_rows, large_actions


@njit(nogil=True, cache=True)
def _has_pairs(target, rows, actions, is_right, least):  # type: ignore[no-untyped-def]
    """Return whether both sides of an action split hold at least ``least`` eligible pairs."""
    n_left, n_right = 0, 0
    for row in rows:
        for k in range(len(actions)):
            if not target.has_mask or target.mask[row, actions[k]]:
                n_right += is_right[k]
                n_left += not is_right[k]
    return min(n_left, n_right) >= least
