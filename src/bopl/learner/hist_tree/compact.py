"""One context at a time, up to 64 actions: all that a node says stands in its 16 bytes, so that a step of a walk is one
access to memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE
from bopl.learner.hist_tree.walk import CUT, DEFAULT_LEFT_BIT, EQUAL_BIT, EXTRA, FEATURE, RIGHT, Walk

HALF = 1  # which half of a node's two words of 64 bits holds the value of a leaf, or the actions that go right


class CompactWalk(NamedTuple):
    """The nodes of a `Walk` whose action sets are single words; all arrays are the same memory."""

    link: NDArray[np.int32]  # (n_nodes, 4): right child, context column, bits of the threshold, flags
    cut: NDArray[np.float32]  # (n_nodes, 4)
    right_actions: NDArray[np.uint64]  # (n_nodes, 2)
    value: NDArray[np.float64]  # (n_nodes, 2) coefficient times leaf value


def make_compact_walk(walk: Walk) -> CompactWalk:
    """Return the same nodes with leaf values and action sets in the place of thresholds and flags."""
    link = walk.link.copy()
    right_actions, value = link.view(np.uint64), link.view(np.float64)
    is_leaf, on_action = link[:, FEATURE] == LEAF_FEATURE, link[:, FEATURE] == ACTION_SPLIT
    right_actions[on_action, HALF] = walk.right_actions[walk.link[on_action, EXTRA], 0]
    value[is_leaf, HALF] = walk.value[is_leaf]
    return CompactWalk(link, link.view(np.float32), right_actions, value)


@njit(nogil=True, cache=True)
def score_compact(context, link, cut, right_actions, value, root, every, depth, start, end, score_out):  # type: ignore[no-untyped-def]
    """Add every tree's values for rows ``start`` to ``end`` of a dense context, tree by tree."""
    open_node, open_set = np.empty(depth, np.uint64), np.empty(depth, np.uint64)
    one = np.uint64(1)
    for i in range(start, end):
        x, score = context[i], score_out[i]
        for t in range(len(root)):
            open_node[0], open_set[0] = np.uint64(root[t]), every
            n_open = one
            while n_open > np.uint64(0):
                n_open -= one
                node, actions = open_node[n_open], open_set[n_open]
                feature = link[node, FEATURE]
                while feature != LEAF_FEATURE:
                    if feature >= 0:
                        # Without branches, which nobody could predict: EQUAL sends right what equals the threshold
                        # (missing with missing), DEFAULT_LEFT sends missing values left.
                        number, threshold, flags = x[np.uint64(feature)], cut[node, CUT], link[node, EXTRA]
                        is_missing = number != number
                        is_equal = (number == threshold) | (is_missing & (threshold != threshold))
                        is_less = (number < threshold) | (is_missing & ((flags & DEFAULT_LEFT_BIT) != 0))
                        goes_right = np.int64(is_equal) if (flags & EQUAL_BIT) != 0 else np.int64(not is_less)
                        jump = np.int64(link[node, RIGHT]) - np.int64(node) - 1
                        node = np.uint64(np.int64(node) + 1 + (jump & -goes_right))
                    else:
                        right = actions & right_actions[node, HALF]
                        if right == actions:
                            node = np.uint64(link[node, RIGHT])
                        else:
                            if right != np.uint64(0):
                                open_node[n_open], open_set[n_open] = np.uint64(link[node, RIGHT]), right
                                n_open += one
                                actions &= ~right
                            node += one
                    feature = link[node, FEATURE]
                added = value[node, HALF]
                while actions != np.uint64(0):
                    score[np.uint64(trailing_zeros(actions))] += added  # type: ignore[call-arg]
                    actions &= actions - one
