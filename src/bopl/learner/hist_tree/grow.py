"""Growing: nodes are (set of contexts, set of actions) pairs.

A *problem* is a set of contexts with one action set. Inside it every split is on a context column, rows carry one
packed integer each, and nodes are grown depth first with histograms handed from parent to child. A node that splits its
action set ends there and leaves two new problems; so does a node whose integers have become too coarse, which starts
again with its own scale. Problems too large for one thread are returned to the caller; the others are grown at once.

Nothing here depends on which thread grows what, nor on the order of the rows: integer sums have no order, and floats
are summed as integers on a grid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import off_grid
from bopl.learner.hist_tree.histogram import HALF, add_rows, clear_columns, subtract_columns
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.pending import (
    ACTION_START,
    N_ACTIONS,
    N_ROWS,
    P_DEPTH,
    P_NODE,
    P_PATH,
    ROW_START,
    make_queue,
    pop,
    push,
    push_pair,
    with_room,
    with_room_flat,
)
from bopl.learner.hist_tree.problem import (
    N_ACTION_SUMS,
    Target,
    action_floats,
    count_pairs,
    fine_units,
    has_sums,
    is_too_coarse,
    load_rows,
    quantize,
    quantize_wide,
    scales_of,
    sum_actions,
    sum_leaf,
    sum_norms,
    wide_scales_of,
)
from bopl.learner.hist_tree.random import draw_columns, mix
from bopl.learner.hist_tree.split import NO_SCORE, NodeSums, SplitRule, SplitScratch, best_action_split, scan_block

__all__ = ["ActionTable", "Limits", "Scale", "Scratch", "Target", "grow", "leaf_value", "make_scratch", "no_scale"]

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
    n_always: int  # columns at the end that every node may split, however few are drawn
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
    action_sums: NDArray[np.int64]  # (n_slots + 1, N_ACTION_SUMS, n_actions); the last slot is spare
    action_floats: NDArray[np.float64]  # (3, n_actions): those of one node as floats
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
        action_sums=np.zeros((n_slots + 1, N_ACTION_SUMS, n_actions), np.int64),
        action_floats=np.zeros((3, n_actions), np.float64),
        split=SplitScratch(
            np.empty(longest_column, np.int64),
            np.empty(longest_column, np.int64),
            np.empty(longest_column, np.int64),
            score,
            score.view(np.int64),
        ),
    )


class Scale(NamedTuple):
    """The integers of a problem: what its gradients and weights are multiplied by, and what they add up to in all."""

    gradient: float
    weight: float
    is_wide: bool
    sum_weight: Any  # int64
    absolute: Any  # int64: sum of absolute gradients
    is_given: bool  # False: the problem is still to be given a scale of its own


def no_scale() -> Scale:
    """Return what stands for the scale of a problem that is to have its own."""
    return Scale(1.0, 1.0, False, np.int64(0), np.int64(0), False)


@njit(nogil=True, cache=True)
def _write_leaf(rows, row_gradient, row_weight, actions, limits, target, floats_out, step_out):  # type: ignore[no-untyped-def]
    """Sum the unrounded gradients of a leaf, set its value, and write the value to every pair it holds."""
    value = set_leaf(sum_leaf(target, rows, row_gradient, row_weight), limits, target, floats_out)
    for k in range(len(actions)):
        steps = step_out[np.uint64(actions[k])]
        for j in range(len(rows)):
            steps[np.uint64(rows[j])] = value


@njit(nogil=True, cache=True)
def set_leaf(sums, limits, target, floats_out):  # type: ignore[no-untyped-def]
    """Write a leaf's row of the table of nodes; return its value."""
    gradient = off_grid(sums[0], sums[1], target.gradient_grid)
    weight = off_grid(sums[2], sums[3], target.weight_grid)
    value = leaf_value(gradient, weight, limits.reg_lambda, limits.min_child_weight, target.is_classifier)
    floats_out[GAIN], floats_out[SUM_GRADIENT], floats_out[SUM_WEIGHT], floats_out[VALUE] = 0.0, gradient, weight, value
    return value


@njit(nogil=True, cache=True)
def leaf_value(gradient, weight, reg_lambda, min_child_weight, is_classifier):  # type: ignore[no-untyped-def]
    """Return a leaf's value; like XGBoost's it is 0 below ``min_child_weight`` (only a root can be)."""
    if is_classifier:
        return 1.0 if gradient > 0.0 else -1.0
    if weight < min_child_weight or weight <= 0.0:
        return 0.0
    return gradient / (weight + reg_lambda)


@njit(nogil=True, cache=True)
def mark_right(feature, action, actions, action_table, is_right_out):  # type: ignore[no-untyped-def]
    """Mark the actions of a set that an action split sends right."""
    for k in range(len(actions)):
        a = actions[k]
        if feature < 0:
            is_right_out[k] = a == action
        else:
            is_right_out[k] = action_table.value[feature, a] > action_table.value[feature, action]


@njit(nogil=True, cache=True)
def is_coarse(n_members, sums, absolute, loaded):  # type: ignore[no-untyped-def]
    """Return whether a node's integers are so small that a scale of its own would show more than its problem's."""
    scale = loaded.scale
    if scale.is_wide:
        return sums.weight <= scale.sum_weight >> 6 or absolute <= scale.absolute >> 6
    weight_is_coarse = sums.weight < n_members * COARSE and sums.weight < scale.sum_weight >> 4
    gradient_is_coarse = absolute < n_members * COARSE and absolute < scale.absolute >> 4
    return weight_is_coarse or gradient_is_coarse


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


class Loaded(NamedTuple):
    """A problem in the integers of its own scale."""

    sums: NodeSums  # of the node that it is opened with
    absolute: Any  # int64: sum of that node's absolute gradients
    scale: Scale
    rule: SplitRule
    to_gain: float  # what a score in integers is multiplied by
    least: float  # a lighter node is a leaf
    has_gradient: bool  # False if no context split can gain


class Stack(NamedTuple):
    """Open nodes of a problem, each with the best context split it has."""

    node: NDArray[np.int64]  # (room, N_FIELDS)
    found: NDArray[np.int64]  # (room, 4), see `scan_block`
    score: NDArray[np.float64]  # negative if there is no split


@njit(nogil=True, cache=True)
def _take_slot(free):  # type: ignore[no-untyped-def]
    """Take a histogram; ``free`` begins with the number of free ones."""
    free[0] -= 1
    return free[free[0] + 1]


@njit(nogil=True, cache=True)
def _give_slot(free, slot):  # type: ignore[no-untyped-def]
    if slot >= 0:
        free[free[0] + 1] = slot
        free[0] += 1


@njit(nogil=True, cache=True)
def _load(target, rows, actions, limits, scale, row_gradient, row_weight, packed, wide_packed, pairs, action_sums):  # type: ignore[no-untyped-def]
    """Sum a problem's rows over its actions, and scale them to integers; return also ``wide_packed`` with room."""
    of_pairs = np.int64(0)
    if len(actions) > 1 or target.has_mask or target.is_classifier:
        of_pairs = load_rows(target, rows, actions, row_gradient, row_weight, action_sums)
    has_gradient, is_given, is_wide = True, scale.is_given, scale.is_wide
    gradient, weight, absolute = np.int64(0), np.int64(0), np.int64(0)
    gradient_scale, weight_scale = scale.gradient, scale.weight
    if not is_given:
        norms = sum_norms(target, rows, row_gradient, row_weight)
        has_gradient = has_sums(target, norms, of_pairs)
        gradient_scale, weight_scale = scales_of(target, norms)
    if not is_given or not is_wide:
        n_coarse, gradient, weight, absolute = quantize(
            rows, row_gradient, row_weight, gradient_scale, weight_scale, fine_units(len(rows)), packed
        )
        if not is_given and is_too_coarse(n_coarse, len(rows)):
            is_wide = True
            gradient_scale, weight_scale = wide_scales_of(target, norms)
    if is_wide:
        wide_packed = with_room_flat(wide_packed, len(packed))
        gradient, absolute = quantize_wide(rows, row_gradient, gradient_scale, packed)
        weight, _ = quantize_wide(rows, row_weight, weight_scale, wide_packed)
    count = np.int64(0)
    if limits.min_samples_leaf > 1:
        count = count_pairs(target, rows, len(actions), actions, pairs)
    if not is_given:
        scale = Scale(gradient_scale, weight_scale, is_wide, weight, absolute, True)
    return open_problem(NodeSums(gradient, weight, count), absolute, scale, limits, has_gradient), wide_packed


@njit(nogil=True, cache=True)
def open_problem(sums, absolute, scale, limits, has_gradient):  # type: ignore[no-untyped-def]
    """Return a problem that is opened with a node of these sums."""
    min_weight = max(np.ceil(limits.min_child_weight * scale.weight), 1.0)
    # A scale too coarse for min_child_weight cannot say that a node is too light to split.
    least = 2.0 * min_weight if min_weight >= COARSE else 0.0
    reg, use_allowed = limits.reg_lambda * scale.weight, limits.colsample < 1.0
    rule = SplitRule(reg, min_weight, limits.min_samples_leaf, scale.is_wide, use_allowed)
    to_gain = scale.weight / (scale.gradient * scale.gradient)
    return Loaded(sums, absolute, scale, rule, to_gain, least, has_gradient)


@njit(nogil=True, cache=True, inline="always")
def may_split(sums, loaded):  # type: ignore[no-untyped-def]
    """Return whether a node is heavy enough, and has pairs enough, for two children."""
    has_pairs = loaded.rule.min_count <= 1 or sums.pairs >= 2 * loaded.rule.min_count
    return sums.weight >= loaded.least and has_pairs


@njit(nogil=True, cache=True, inline="always")
def _open_root(binned, loaded, rows, depth, node, path, limits, scratch, values, tables, free, found, score, stack):  # type: ignore[no-untyped-def]
    """Begin a problem: its root is the only open node, with its histogram if it may split."""
    slot = np.int64(NO_SLOT)
    score[:] = NO_SCORE
    if depth < limits.max_depth and may_split(loaded.sums, loaded):
        slot = _take_slot(free)
        scratch.action_sums[slot] = scratch.action_sums[len(scratch.histogram)]
        scratch.is_dead[slot] = False
        if loaded.rule.use_allowed:
            draw_columns(limits.seed, path, limits.colsample, limits.n_always, scratch.allowed[0])
        if loaded.has_gradient:
            both = (loaded.sums, loaded.sums)
            _scan_children(
                binned,
                loaded.rule,
                rows,
                values,
                tables,
                slot,
                np.int64(NO_SLOT),
                both,
                scratch.allowed,
                scratch.is_dead,
                scratch.split,
                found,
                score,
            )
    _put_node(stack, 0, 0, len(rows), depth, slot, loaded.sums, node, loaded.absolute, path, found[0], score[0])


@njit(nogil=True, cache=True)
def _put_node(stack, at, start, end, depth, slot, sums, node, absolute, path, found, score):  # type: ignore[no-untyped-def]
    stack.node[at] = (start, end, depth, slot, sums.gradient, sums.weight, sums.pairs, node, absolute, path)
    stack.found[at] = found
    stack.score[at] = score


@njit(nogil=True, cache=True)
def context_gain(score, sums, loaded):  # type: ignore[no-untyped-def]
    """Return the gain of a node's best context split, 0 if it has none."""
    if score < 0.0:
        return 0.0
    parent = float(sums.gradient) * float(sums.gradient) / (float(sums.weight) + loaded.rule.reg)
    return (score - parent) * loaded.to_gain


@njit(nogil=True, cache=True)
def action_gain_of(integers, actions, action_table, limits, target, sums):  # type: ignore[no-untyped-def]
    """Return the gain of the best split of the action set (negative if there is none), its feature and action."""
    action_floats(integers, actions, target, sums)
    score, feature, action = best_action_split(
        sums, actions, action_table.order, action_table.value, limits.reg_lambda, limits.min_child_weight,
        limits.min_samples_leaf,
    )  # fmt: skip
    if score < 0.0:
        return NO_SCORE, feature, action
    gradient, weight = 0.0, 0.0
    for a in actions:
        gradient += sums[0, a]
        weight += sums[1, a]
    return score - gradient * gradient / (weight + limits.reg_lambda), feature, action


@njit(nogil=True, cache=True)
def _child_slots(slot, small_goes, large_goes, is_dead, free):  # type: ignore[no-untyped-def]
    """Give the children that may split a histogram each, the parent's to one of them."""
    if large_goes and small_goes:
        small_slot = _take_slot(free)
        is_dead[small_slot] = is_dead[slot]
        return small_slot, slot
    if large_goes:
        return np.int64(NO_SLOT), slot
    if small_goes:
        return slot, np.int64(NO_SLOT)
    _give_slot(free, slot)
    return np.int64(NO_SLOT), np.int64(NO_SLOT)


@njit(nogil=True, cache=True, inline="always")
def _divide(binned, target, limits, loaded, actions, scratch, values, tables, free, found, score, stack, at, child):  # type: ignore[no-untyped-def]
    """Split the node at ``at`` on its context column; its children take its place and the next.

    The smaller child goes first: of the histograms kept open, each has at most half the rows of the one before.
    """
    start, end, depth, slot = stack.node[at, START], stack.node[at, END], stack.node[at, DEPTH], stack.node[at, SLOT]
    total = NodeSums(stack.node[at, GRADIENT], stack.node[at, WEIGHT], stack.node[at, COUNT])
    absolute, path = stack.node[at, ABSOLUTE], stack.node[at, PATH]
    members = scratch.members[start:end]
    n_left = split_members(binned, stack.found[at, 0], stack.found[at, 1] == 1, members, scratch.buffer)
    is_left = 2 * n_left <= end - start  # the smaller child is the left one
    middle = start + n_left
    small = members[:n_left] if is_left else members[n_left:]
    small_count = np.int64(0)
    if loaded.rule.min_count > 1:
        for row in small:
            small_count += scratch.pairs[row]
    left_count = small_count if is_left else total.pairs - small_count
    left = NodeSums(stack.found[at, 2], stack.found[at, 3], left_count)
    right = NodeSums(total.gradient - left.gradient, total.weight - left.weight, total.pairs - left_count)
    small_sums, large_sums = (left, right) if is_left else (right, left)
    small_path, large_path = mix(path, 1 if is_left else 2), mix(path, 2 if is_left else 1)
    goes_deeper = depth + 1 < limits.max_depth
    small_goes = goes_deeper and may_split(small_sums, loaded)
    large_goes = goes_deeper and may_split(large_sums, loaded)
    small_slot, large_slot = _child_slots(slot, small_goes, large_goes, scratch.is_dead, free)
    score[:] = NO_SCORE
    small_absolute = np.int64(0)
    if small_goes or large_goes:
        if loaded.rule.use_allowed:
            draw_columns(limits.seed, small_path, limits.colsample, limits.n_always, scratch.allowed[0])
            draw_columns(limits.seed, large_path, limits.colsample, limits.n_always, scratch.allowed[1])
        small_absolute = _scan_children(
            binned,
            loaded.rule,
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
        if len(actions) > 1:
            spare = scratch.action_sums[len(scratch.histogram)]
            sum_actions(target, small, actions, spare)
            if large_goes:
                scratch.action_sums[large_slot] -= spare
            if small_goes:
                scratch.action_sums[small_slot] = spare
    small_start, small_end = (start, middle) if is_left else (middle, end)
    large_start, large_end = (middle, end) if is_left else (start, middle)
    small_node = child if is_left else child + 1
    large_node = child + 1 if is_left else child
    large_absolute = absolute - small_absolute
    _put_node(
        stack, at, large_start, large_end, depth + 1, large_slot, large_sums, large_node, large_absolute, large_path,
        found[1], score[1],
    )  # fmt: skip
    _put_node(
        stack, at + 1, small_start, small_end, depth + 1, small_slot, small_sums, small_node, small_absolute,
        small_path, found[0], score[0],
    )  # fmt: skip


@njit(nogil=True, cache=True)
def grow(binned, target, action_table, limits, rows, actions, depth, path, scale, scratch, step_out):  # type: ignore[no-untyped-def]
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
    scale : Scale
        That of the problem, of which these rows are a node; `no_scale` if they are all of it.
    scratch : Scratch
    step_out : ndarray of shape (n_actions, n_samples)
        The value of each leaf is written to its pairs.

    Returns
    -------
    ints, floats : ndarray
        Table of nodes; the first is the problem's root.
    table, rows, actions, top : ndarray
        The `Queue` of large problems left over; P_NODE is the node of this table that each continues.
    """
    ints, floats, n_nodes = np.empty((64, N_NODE_INTS), np.int64), np.empty((64, N_NODE_FLOATS), np.float64), 1
    pending = push(make_queue(len(rows), len(actions)), rows, actions, depth, 0, path)
    large = make_queue(4, 4)
    n_slots, room = len(scratch.histogram), limits.max_depth + 4
    stack = Stack(np.empty((room, N_FIELDS), np.int64), np.zeros((room, 4), np.int64), np.empty(room, np.float64))
    found, score = np.zeros((2, 4), np.int64), np.empty(2, np.float64)
    free = np.empty(n_slots + 1, np.int64)
    wide, wide_packed = np.empty((0, 0), np.int64), np.empty(0, np.int64)
    is_right = np.empty(scratch.action_sums.shape[2], np.bool_)
    given = scale

    while pending.top[0] > 0:
        problem = pop(pending)
        n_rows, root = problem[N_ROWS], problem[P_NODE]
        actions = pending.actions[problem[ACTION_START] : problem[ACTION_START] + problem[N_ACTIONS]].copy()
        rows = scratch.members[:n_rows]
        rows[:] = pending.rows[problem[ROW_START] : problem[ROW_START] + n_rows]
        row_gradient, row_weight = scratch.row_gradient, scratch.row_weight
        if len(actions) == 1 and not target.has_mask and not target.is_classifier:
            row_gradient, row_weight = target.gradient[actions[0]], target.weight  # nothing to add up
        loaded, wide_packed = _load(
            target,
            rows,
            actions,
            limits,
            given,
            row_gradient,
            row_weight,
            scratch.packed,
            wide_packed,
            scratch.pairs,
            scratch.action_sums[n_slots],
        )
        if loaded.rule.is_wide and len(wide) == 0:
            wide = np.empty_like(scratch.histogram)
        values = (scratch.packed, wide_packed, scratch.pairs)
        tables = (scratch.histogram, wide, scratch.count_histogram)
        free[0] = n_slots
        for k in range(n_slots):
            free[k + 1] = n_slots - 1 - k
        depth, path = problem[P_DEPTH], problem[P_PATH]
        _open_root(binned, loaded, rows, depth, root, path, limits, scratch, values, tables, free, found, score, stack)
        n_open, whole_root = 1, root if not given.is_given else np.int64(-1)
        given = Scale(1.0, 1.0, False, np.int64(0), np.int64(0), False)

        while n_open > 0:
            n_open -= 1
            start, end, depth = stack.node[n_open, START], stack.node[n_open, END], stack.node[n_open, DEPTH]
            slot, node, path = stack.node[n_open, SLOT], stack.node[n_open, NODE], stack.node[n_open, PATH]
            sums = NodeSums(stack.node[n_open, GRADIENT], stack.node[n_open, WEIGHT], stack.node[n_open, COUNT])
            members = scratch.members[start:end]
            if slot >= 0 and node != whole_root and is_coarse(len(members), sums, stack.node[n_open, ABSOLUTE], loaded):
                _give_slot(free, slot)
                pending = push(pending, members, actions, depth, node, path)
                continue

            gain, action_gain, feature, action = 0.0, NO_SCORE, -1, -1
            if slot >= 0:
                gain = context_gain(stack.score[n_open], sums, loaded)
                if len(actions) > 1:
                    action_gain, feature, action = action_gain_of(
                        scratch.action_sums[slot], actions, action_table, limits, target, scratch.action_floats
                    )
            if max(gain, action_gain) <= MIN_GAIN:
                ints[node] = (LEAF, LEAF, LEAF, 0, 0, 0)
                _write_leaf(members, row_gradient, row_weight, actions, limits, target, floats[node], step_out)
                _give_slot(free, slot)
                continue

            ints, floats = with_room(ints, n_nodes + 2), with_room(floats, n_nodes + 2)
            child = n_nodes
            n_nodes += 2
            floats[node] = (max(gain, action_gain), 0.0, 0.0, 0.0)
            if action_gain > gain:
                ints[node] = (child, child + 1, ON_ACTION, 0, feature, action)
                _give_slot(free, slot)
                mark_right(feature, action, actions, action_table, is_right)
                if len(members) >= limits.large:
                    large = push_pair(large, members, actions, is_right, depth + 1, child, path)
                else:
                    pending = push_pair(pending, members, actions, is_right, depth + 1, child, path)
                continue
            ints[node] = (child, child + 1, stack.found[n_open, 0], stack.found[n_open, 1], 0, 0)
            _divide(
                binned, target, limits, loaded, actions, scratch, values, tables, free, found, score, stack, n_open,
                child,
            )  # fmt: skip
            n_open += 2

    return ints[:n_nodes], floats[:n_nodes], large.table, large.rows, large.actions, large.top
