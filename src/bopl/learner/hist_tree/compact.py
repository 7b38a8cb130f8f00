"""One context at a time, up to 64 actions: many trees are traversed side by side, so that loads of nodes overlap.

Trees ask the same questions again and again: whether a column is below one of its few cuts. All of them are answered
first, some thousands in a microsecond, and a split holds the number of its question. Which actions reach a node does
not depend on the context at all: splits on the action decide it. So sets of actions are worked out once, and a tree
consists of splits, *forks* (splits on the action: both sides are taken) and leaves (a value, and its actions).

A list holds places in many trees. One pass over it moves every place one split down, without a branch that the
processor would have to guess; a place that reaches a leaf leaves the list, one that reaches a fork becomes two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.lanes import masked_store
from bopl.learner.hist_tree.prefetch import prefetch
from bopl.learner.hist_tree.traversal import DEFAULT_LEFT_BIT, EQUAL_BIT, FlatTrees
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE

MIN_TREES = 8  # fewer are scored sooner than they are laid out

# Splits, leaves and forks are arrays of 32-bit numbers, several to a node: a pass over a list of places then takes one
# load for a question, and one for the child that the answer picks.

# The code of a node: what it is, in two bits, then where it stands in the array of its kind.
SPLIT, LEAF, FORK, NOWHERE = 0, 1, 2, 3  # the last: no action reaches it, or all of them go on to the same child
KIND_SHIFT = 30
PLACE_BITS = (1 << KIND_SHIFT) - 1
SPLIT_SIZE, LEAF_SIZE, FORK_SIZE = 3, 4, 2  # numbers that a node takes there
MAX_NODES = PLACE_BITS // max(SPLIT_SIZE, LEAF_SIZE, FORK_SIZE)

BELOW, BELOW_OR_MISSING, NOT_EQUAL = 0, 1, 2  # what goes left
N_RULES = 3

LANES = 8  # values stored at once
MAX_PLACES = 1024  # at a time: the lists, and the values they lead to, stay in the first cache


class CompactTrees(NamedTuple):
    """`FlatTrees` without what no action reaches. Questions are grouped by column and rule."""

    column: NDArray[np.int64]  # (n_groups,) of the context
    rule: NDArray[np.int64]  # (n_groups,)
    begin: NDArray[np.int64]  # (n_groups + 1,) where the thresholds of each group begin
    threshold: NDArray[np.float32]  # (n_questions,)
    split: NDArray[np.uint32]  # question, code of the left child, code of the right child; and so on
    fork: NDArray[np.uint32]  # codes of both children; and so on
    leaf: NDArray[np.uint32]  # coefficient times value (8 bytes), action set, tree; and so on
    value: NDArray[np.float64]  # the same memory
    actions: NDArray[np.uint64]  # (n_sets,)
    root: NDArray[np.uint32]  # (n_trees,) codes


def make_compact_trees(trees: FlatTrees) -> CompactTrees | None:
    """Return trees as `CompactTrees`; None if there are more than 64 actions, few trees, or more nodes than codes."""
    node, n_nodes = trees.node, len(trees.node)
    if len(trees.all_actions) > 1 or len(trees.root) < MIN_TREES or n_nodes > MAX_NODES:
        return None
    on_action = node["feature"] == ACTION_SPLIT
    right_actions = np.zeros(n_nodes, np.uint64)
    right_actions[on_action] = trees.right_actions[node["extra"][on_action], 0]
    reached, code = np.zeros(n_nodes, np.uint64), np.zeros(n_nodes, np.uint32)
    reached[trees.root] = trees.all_actions[0]
    kind = np.full(n_nodes, NOWHERE, np.uint8)
    _number_nodes(node, right_actions, reached, kind, code)

    splits, forks, leaves = (np.flatnonzero(kind == one) for one in (SPLIT, FORK, LEAF))
    questions, asked = _questions_of(node[splits])
    sets, set_of_leaf = np.unique(reached[leaves], return_inverse=True)
    leaf = np.empty((len(leaves), LEAF_SIZE), np.uint32)
    value = leaf.view(np.float64)
    value[:, 0] = trees.value[leaves]
    leaf[:, 2], leaf[:, 3] = set_of_leaf, np.searchsorted(trees.root, leaves, side="right") - 1
    column, rule, begin, threshold = questions
    return CompactTrees(
        column=column,
        rule=rule,
        begin=begin,
        threshold=threshold,
        split=np.stack([asked.astype(np.uint32), code[splits + 1], code[node["right"][splits]]], axis=1).reshape(-1),
        fork=np.stack([code[forks + 1], code[node["right"][forks]]], axis=1).reshape(-1),
        leaf=leaf.reshape(-1),
        value=value.reshape(-1),
        actions=sets,
        root=code[trees.root],
    )


def _questions_of(split: NDArray[Any]) -> Any:
    """Return the different questions of some splits, as the first fields of `CompactTrees`, and which each one asks."""
    feature, threshold, flags = split["feature"], split["threshold"], split["extra"]
    rule = np.where(flags & EQUAL_BIT, NOT_EQUAL, np.where(flags & DEFAULT_LEFT_BIT, BELOW_OR_MISSING, BELOW))
    group = feature.astype(np.int64) * N_RULES + rule
    bits = (threshold + np.float32(0.0)).view(np.uint32)  # zero has two signs
    bits[np.isnan(threshold)] = np.float32(np.nan).view(np.uint32)
    _, first, asked = np.unique(group << 32 | bits, return_index=True, return_inverse=True)
    groups, begin = np.unique(group[first], return_index=True)
    return (groups // N_RULES, groups % N_RULES, np.append(begin, len(first)), threshold[first]), asked


@njit(nogil=True, cache=True)
def _number_nodes(nodes, right_actions, reached_out, kind_out, code_out):  # type: ignore[no-untyped-def]
    """Write which actions reach each node, those of roots being there, its kind and its code; nodes are in preorder."""
    n_numbers = np.zeros(3, np.int64)
    size = (SPLIT_SIZE, LEAF_SIZE, FORK_SIZE)
    for node in range(len(nodes)):
        actions = reached_out[node]
        if actions == np.uint64(0):
            reached_left, reached_right, kind = actions, actions, NOWHERE
        elif nodes[node].feature == ACTION_SPLIT:
            reached_right = actions & right_actions[node]
            reached_left = actions & ~reached_right
            # Where all go the same way it stands for the child that they go to.
            kind = FORK if reached_left != np.uint64(0) and reached_right != np.uint64(0) else NOWHERE
        else:
            reached_left, reached_right = actions, actions
            kind = LEAF if nodes[node].feature == LEAF_FEATURE else SPLIT
        if nodes[node].feature != LEAF_FEATURE:
            reached_out[node + 1], reached_out[nodes[node].right] = reached_left, reached_right
        kind_out[node] = kind
        if kind != NOWHERE:
            code_out[node] = (kind << KIND_SHIFT) | n_numbers[kind]
            n_numbers[kind] += size[kind]
    # From the end: a node that stands for its child takes the child's code, which is there by then.
    for node in range(len(nodes) - 1, -1, -1):
        if kind_out[node] == NOWHERE and reached_out[node] != np.uint64(0):
            right = nodes[node].right
            code_out[node] = code_out[right] if reached_out[right] != np.uint64(0) else code_out[node + 1]


@njit(nogil=True, cache=True)
def _answer(x, trees, goes_right_out):  # type: ignore[no-untyped-def]
    """Answer all questions for one context: 1 for those that send it right."""
    for group in range(len(trees.column)):
        number, rule = x[trees.column[group]], trees.rule[group]
        threshold = trees.threshold[trees.begin[group] : trees.begin[group + 1]]
        answer = goes_right_out[trees.begin[group] : trees.begin[group + 1]]
        if rule == BELOW:  # a missing value is not below anything
            for k in range(len(threshold)):
                answer[k] = not number < threshold[k]
        elif rule == BELOW_OR_MISSING:
            for k in range(len(threshold)):
                answer[k] = number >= threshold[k]
        elif number == number:  # not NaN
            for k in range(len(threshold)):
                answer[k] = number == threshold[k]
        else:
            for k in range(len(threshold)):
                answer[k] = threshold[k] != threshold[k]  # a missing value equals the missing category alone


_put = masked_store(types.float64, ir.DoubleType, LANES)


@njit(nogil=True, cache=True)
def _collect(code, n_places, n_leaves, n_forks, place_out, leaf_out, fork_out):  # type: ignore[no-untyped-def]
    """Append a node to the list of its kind, and to the free ends of the others, which costs less than a branch."""
    kind = code >> np.uint32(KIND_SHIFT)
    place_out[n_places], leaf_out[n_leaves], fork_out[n_forks] = code, code, code
    n_places += np.uint64(kind == np.uint32(SPLIT))
    n_leaves += np.uint64(kind == np.uint32(LEAF))
    n_forks += np.uint64(kind == np.uint32(FORK))
    return n_places, n_leaves, n_forks


@njit(nogil=True, cache=True)
def _find_leaves(trees, first, last, goes_right, place, reached, fork, leaf_out):  # type: ignore[no-untyped-def]
    """Write the leaves that one context reaches in some trees; return how many there are."""
    split, exit, one, zero = trees.split, trees.fork, np.uint64(1), np.uint64(0)
    n_leaves, n_reached = zero, zero
    for t in range(first, last):
        reached[n_reached] = trees.root[t]
        n_reached += one
    while True:
        n_places, n_forks = zero, zero
        for k in range(n_reached):
            prefetch(trees.leaf, reached[k] & np.uint32(PLACE_BITS))  # type: ignore[call-arg]
            n_places, n_leaves, n_forks = _collect(reached[k], n_places, n_leaves, n_forks, place, leaf_out, fork)
        while n_forks > zero:
            n_forks -= one
            at = np.uint64(fork[n_forks] & np.uint32(PLACE_BITS))
            left, right = exit[at], exit[at + one]
            n_places, n_leaves, n_forks = _collect(left, n_places, n_leaves, n_forks, place, leaf_out, fork)
            n_places, n_leaves, n_forks = _collect(right, n_places, n_leaves, n_forks, place, leaf_out, fork)
        if n_places == zero:
            return n_leaves
        # Places that are still at a split go on in the same list; others leave it for ``reached``, to be sorted by kind
        # once all of them have arrived. Lists are compacted in place: n_places is never ahead of k.
        n_reached = zero
        while n_places > zero:
            n, n_places = n_places, zero
            for k in range(n):
                at = np.uint64(place[k])
                code = split[at + one + np.uint64(goes_right[np.uint64(split[at])])]
                # Of the next pass; a leaf's number does no harm.
                prefetch(split, code & np.uint32(PLACE_BITS))  # type: ignore[call-arg]
                place[n_places], reached[n_reached + k - n_places] = code, code
                n_places += np.uint64(code <= np.uint32(PLACE_BITS))
            n_reached += n - n_places


@njit(nogil=True, cache=True)
def score_compact(context, trees, start, end, score_out):  # type: ignore[no-untyped-def]
    """Add every tree's values for rows ``start`` to ``end`` of a float32 context, in the order of the trees."""
    n_actions, n_trees = score_out.shape[1], len(trees.root)
    n_side_by_side = max(MAX_PLACES // n_actions, 1)
    width = -(-n_actions // LANES) * LANES
    capacity = n_side_by_side * n_actions + 1  # places of a tree are for different actions; a list has a free end
    place, reached = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
    leaf, fork = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
    value = np.empty(n_side_by_side * width, np.float64)
    goes_right = np.empty(len(trees.threshold), np.uint8)
    for i in range(start, end):
        _answer(context[i], trees, goes_right)
        for first in range(0, n_trees, n_side_by_side):
            last = min(first + n_side_by_side, n_trees)
            for k in range(_find_leaves(trees, first, last, goes_right, place, reached, fork, leaf)):
                at = np.uint64(leaf[k] & np.uint32(PLACE_BITS))
                added = trees.value[at >> np.uint64(1)]
                actions, tree = trees.actions[trees.leaf[at + np.uint64(2)]], trees.leaf[at + np.uint64(3)]
                for lane in range(0, width, LANES):
                    begin = (np.int64(tree) - first) * width + lane
                    _put(value, begin, added, actions >> np.uint64(lane))
            # Leaves came in no order; their values are added tree by tree: scores have the bits of plain traversals.
            for t in range(last - first):
                for a in range(n_actions):
                    score_out[i, a] += value[t * width + a]
