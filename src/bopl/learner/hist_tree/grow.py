"""Growing: nodes are (set of contexts, set of actions) pairs.

A *problem* is a set of contexts with one action set. Inside it every split is on a context column, rows carry one
packed integer each, and nodes are grown depth first with histograms handed from parent to child. A node that splits its
action set ends there and leaves two new problems; so does a node whose integers have become too coarse, which starts
again with its own scale. Problems too large for one thread are returned to the caller; the others are grown at once.

Nothing here depends on which thread grows what, nor on the order of the rows: integer sums have no order, and floats
are summed as integers on a grid.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.action_split import BY_IDENTITY, find_action_split, mark_right
from bopl.learner.hist_tree.children import LARGER, SMALLER, RowIntegers, scan_children
from bopl.learner.hist_tree.leaf import write_leaf
from bopl.learner.hist_tree.node import (
    NO_SLOT,
    NODE,
    OPEN_NODE,
    Child,
    NodeSums,
    OpenNodes,
    put_action_split,
    put_context_split,
    put_leaf,
    put_open,
    with_capacity,
)
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.pending import make_queue, pop, push, push_pair
from bopl.learner.hist_tree.problem import subtract_sums, sum_actions
from bopl.learner.hist_tree.random import WENT_LEFT, WENT_RIGHT, draw_columns, mix
from bopl.learner.hist_tree.scale import NO_SCALE, context_gain, is_coarse, may_split, scale_problem
from bopl.learner.hist_tree.score import NO_SCORE
from bopl.learner.hist_tree.scratch import child_slots, free_all, give_slot, take_slot
from bopl.learner.hist_tree.split import SPLIT, Histogram

MIN_GAIN = 1e-6  # XGBoost's kRtEps: a split must gain more than this
FIRST_NODES = 64  # nodes of a new table of nodes
FIRST_LARGE = 4  # rows and actions that a new queue of large problems holds


@njit(nogil=True, cache=True, inline="always")
def _next_problem(pending, scratch_out):  # type: ignore[no-untyped-def]
    """Return the problem that waits at the top, with its rows, in ``scratch_out.members``, and its actions.

    Both are copied out of the queue's memory, which the next push may overwrite or replace.
    """
    waiting = pop(pending)
    actions = pending.actions[waiting.action_start : waiting.action_start + waiting.n_actions].copy()
    rows = scratch_out.members[: waiting.n_rows]
    rows[:] = pending.rows[waiting.row_start : waiting.row_start + waiting.n_rows]
    return waiting, rows, actions


# `_open_root` and `_divide` take a dozen arguments, not records of them. They are inlined, and numba counts references
# to every array of a tuple that is built or taken apart: with two records instead, rounds took four to six per cent
# longer.


@njit(nogil=True, cache=True, inline="always")
def _open_root(  # type: ignore[no-untyped-def]
    binned, limits, problem, rows, waiting, integers, tables_out, scratch_out, splits_out, open_out
):
    """Begin a problem: its root is the only open node, with its histogram if it may split."""
    depth, path, node = waiting.depth, waiting.path, waiting.node
    slot, sums = np.int64(NO_SLOT), problem.sums
    splits_out[SMALLER].score = NO_SCORE
    if depth < limits.max_depth and may_split(sums, problem):
        slot = take_slot(scratch_out.slots)
        spare = scratch_out.action_sums[len(scratch_out.histogram)]  # where `scale_problem` left them
        scratch_out.action_sums[slot] = spare
        scratch_out.scan.is_dead[slot] = False
        if problem.rule.use_allowed:
            draw_columns(limits.seed, path, limits.colsample, limits.n_always, scratch_out.scan.allowed[SMALLER])
        if problem.has_gradient:
            # A root is the smaller child of nobody: all of its rows are added up, and nothing is subtracted.
            whole = Child(np.int64(0), np.int64(len(rows)), path, node, slot, sums)
            nobody = Child(np.int64(0), np.int64(0), path, node, np.int64(NO_SLOT), sums)
            scan_children(
                binned, problem.rule, rows, integers, (whole, nobody), scratch_out.scan, tables_out, splits_out
            )
    root = Child(np.int64(0), np.int64(len(rows)), path, node, slot, sums)
    put_open(root, depth, problem.absolute, open_out.node[0])
    open_out.split[0] = splits_out[SMALLER]


@njit(nogil=True, cache=True, inline="always")
def _child_sums(total, split, small, small_is_left, pairs, min_pairs):  # type: ignore[no-untyped-def]
    """Return the sums of the left and of the right child; pairs, if they count, are those of the smaller one's rows."""
    small_pairs = np.int64(0)
    if min_pairs > 1:
        for row in small:
            small_pairs += pairs[row]
    left_pairs = small_pairs if small_is_left else total.pairs - small_pairs
    left = NodeSums(split.left_gradient, split.left_weight, left_pairs)
    right = NodeSums(total.gradient - left.gradient, total.weight - left.weight, total.pairs - left_pairs)
    return left, right


@njit(nogil=True, cache=True, inline="always")
def _divide(  # type: ignore[no-untyped-def]
    binned, target, limits, problem, actions, integers, child, at, tables_out, scratch_out, splits_out, open_out
):
    """Split the open node at ``at`` on its context column; its children take its place and the next.

    The smaller child goes first: of the histograms kept open, each has at most half the rows of the one before, so that
    a logarithm of them is enough (`make_scratch`).
    """
    # Read before anything is put on the stack: the larger child overwrites its parent's entry.
    parent, split = open_out.node[at], open_out.split[at]
    start, end, depth, path, absolute = parent.start, parent.end, parent.depth + 1, parent.path, parent.absolute
    total = NodeSums(parent.gradient, parent.weight, parent.pairs)
    members = scratch_out.members[start:end]
    n_left = split_members(binned, split.position, split.default_left, members, scratch_out.buffer)
    small_is_left = 2 * n_left <= end - start
    middle = start + n_left
    rows = members[:n_left] if small_is_left else members[n_left:]  # of the smaller child
    left_sums, right_sums = _child_sums(total, split, rows, small_is_left, scratch_out.pairs, problem.rule.min_pairs)
    left_goes = depth < limits.max_depth and may_split(left_sums, problem)
    right_goes = depth < limits.max_depth and may_split(right_sums, problem)
    small_goes, large_goes = (left_goes, right_goes) if small_is_left else (right_goes, left_goes)
    small_slot, large_slot = child_slots(
        parent.slot, small_goes, large_goes, scratch_out.scan.is_dead, scratch_out.slots
    )
    left_slot, right_slot = (small_slot, large_slot) if small_is_left else (large_slot, small_slot)
    left = Child(start, middle, mix(path, WENT_LEFT), child, left_slot, left_sums)
    right = Child(middle, end, mix(path, WENT_RIGHT), child + 1, right_slot, right_sums)
    small, large = (left, right) if small_is_left else (right, left)
    splits_out[SMALLER].score = splits_out[LARGER].score = NO_SCORE
    small_absolute = np.int64(0)
    if small_goes or large_goes:
        if problem.rule.use_allowed:
            draw_columns(limits.seed, small.path, limits.colsample, limits.n_always, scratch_out.scan.allowed[SMALLER])
            draw_columns(limits.seed, large.path, limits.colsample, limits.n_always, scratch_out.scan.allowed[LARGER])
        small_absolute = scan_children(
            binned, problem.rule, rows, integers, (small, large), scratch_out.scan, tables_out, splits_out
        )
        if len(actions) > 1:  # one action cannot be split from itself
            spare = scratch_out.action_sums[len(scratch_out.histogram)]
            sum_actions(target, rows, actions, spare)
            if large_goes:  # its slot is the parent's, with the parent's sums
                subtract_sums(spare, scratch_out.action_sums[large_slot])
            if small_goes:
                scratch_out.action_sums[small_slot] = spare
    put_open(large, depth, absolute - small_absolute, open_out.node[at])
    put_open(small, depth, small_absolute, open_out.node[at + 1])
    open_out.split[at], open_out.split[at + 1] = splits_out[LARGER], splits_out[SMALLER]


@njit(nogil=True, cache=True, inline="always")
def _split_of_actions(slot, actions, action_table, limits, target, scratch_out):  # type: ignore[no-untyped-def]
    """Return the best action split of an open node: its gain, feature and action; without a slot there is none."""
    found = NO_SCORE, BY_IDENTITY, -1
    if slot >= 0 and len(actions) > 1:
        sums, floats = scratch_out.action_sums[slot], scratch_out.action_floats
        found = find_action_split(sums, actions, action_table, limits, target, floats)
    return found


@njit(nogil=True, cache=True, inline="always")
def _queue_sides(queue, members, actions, split, node, action_table, is_right_out):  # type: ignore[no-untyped-def]
    """Let both sides of an action split wait as problems of their own, below an open node; return the queue."""
    feature, action, child = split
    mark_right(feature, action, actions, action_table, is_right_out)
    return push_pair(queue, members, actions, is_right_out, node.depth + 1, child, node.path)


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
        That of the problem, of which these rows are a node; ``NO_SCALE`` if they are all of it.
    scratch : Scratch
    step_out : ndarray of shape (n_actions, n_samples)
        The value of each leaf is written to its pairs.

    Returns
    -------
    nodes : ndarray of NODE
        The first is the problem's root.
    large : Queue
        Large problems left over, each with the node that it continues.
    """
    nodes, n_nodes = np.empty(FIRST_NODES, NODE), 1
    pending = push(make_queue(len(rows), len(actions)), rows, actions, depth, 0, path)
    large = make_queue(FIRST_LARGE, FIRST_LARGE)
    capacity = limits.max_depth + 4  # of a depth-first traversal, two at each level
    stack, splits = OpenNodes(np.empty(capacity, OPEN_NODE), np.zeros(capacity, SPLIT)), np.zeros(2, SPLIT)
    wide, wide_histogram = np.empty(0, np.int64), np.empty((0, 0), np.int64)  # allocated once there is a wide scale
    is_right = np.empty(scratch.action_sums.shape[1], np.bool_)

    while pending.used[0].problems > 0:
        waiting, rows, actions = _next_problem(pending, scratch)
        root = waiting.node
        problem, row_gradient, row_weight, wide = scale_problem(target, rows, actions, limits, scale, wide, scratch)
        if problem.rule.is_wide and len(wide_histogram) == 0:
            wide_histogram = np.empty_like(scratch.histogram)
        integers = RowIntegers(scratch.packed, wide, scratch.pairs)
        tables = Histogram(scratch.histogram, wide_histogram, scratch.pair_histogram)
        free_all(scratch.slots)  # a problem is grown to its end before the next begins, so none is in use
        _open_root(binned, limits, problem, rows, waiting, integers, tables, scratch, splits, stack)
        # A root with a scale of its own is not given another; one that came with its problem's may need it.
        whole_root = np.int64(-1) if scale.is_given else root
        scale, n_open = NO_SCALE, 1

        while n_open > 0:
            n_open -= 1
            top = stack.node[n_open]
            node, slot, members = top.node, top.slot, scratch.members[top.start : top.end]
            sums = NodeSums(top.gradient, top.weight, top.pairs)
            if slot >= 0 and node != whole_root and is_coarse(len(members), sums, top.absolute, problem):
                # Promise 2 of the README: it waits until this problem is done, then gets a scale of its own.
                give_slot(slot, scratch.slots)
                pending = push(pending, members, actions, top.depth, node, top.path)
                continue
            gain = context_gain(stack.split[n_open].score, sums, problem)  # 0 without a slot: there is no score, either
            action_gain, feature, action = _split_of_actions(slot, actions, action_table, limits, target, scratch)
            if max(gain, action_gain) <= MIN_GAIN:
                write_leaf(members, row_gradient, row_weight, actions, limits, target, nodes[node], step_out)
                give_slot(slot, scratch.slots)
                continue
            child, n_nodes = n_nodes, n_nodes + 2
            nodes = with_capacity(nodes, n_nodes)
            if action_gain > gain:  # of equal gains the context split wins
                put_action_split(feature, action, action_gain, child, nodes[node])
                give_slot(slot, scratch.slots)
                split = (feature, action, child)
                if len(members) >= limits.large:
                    put_leaf(nodes[child])  # until the caller puts what continues them in their place
                    put_leaf(nodes[child + 1])
                    large = _queue_sides(large, members, actions, split, top, action_table, is_right)
                else:
                    pending = _queue_sides(pending, members, actions, split, top, action_table, is_right)
                continue
            put_context_split(stack.split[n_open], gain, child, nodes[node])
            _divide(binned, target, limits, problem, actions, integers, child, n_open, tables, scratch, splits, stack)
            n_open += 2

    return nodes[:n_nodes], large
