"""A finished tree's values on the training contexts, from their bins."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.grow import LEFT, ON_ACTION, POSITION, RIGHT
from bopl.learner.hist_tree.partition import split_members


@njit(nogil=True, cache=True)
def apply_nodes(binned, ints, value, right_actions, rows, step_out):  # type: ignore[no-untyped-def]
    """Push all contexts, with the set of all actions, down the tree.

    Used where growth itself could not write the step: rows left out of the round's draw, leaves merged afterwards, and
    pieces, which have seen a part of the growth. Rows are divided once at every node, whatever actions it holds.

    Parameters
    ----------
    binned : Binned
    ints : ndarray of int64
        Table of nodes.
    value : ndarray of float64
    right_actions : ndarray of uint64, shape (n_nodes, n_words)
    rows : ndarray of int32
        0 to n_samples - 1.
    step_out : ndarray of shape (n_actions, n_samples)
    """
    n_actions = step_out.shape[0]
    buffer, members = np.empty_like(rows), rows.copy()
    stack = np.empty((len(ints) + 1, 3), np.int64)
    holds = np.zeros((len(ints) + 1, n_actions), np.bool_)  # the action set of each node on the stack
    stack[0] = (0, 0, len(rows))
    holds[0] = True
    n_open = 1
    while n_open > 0:
        n_open -= 1
        node, start, end = stack[n_open, 0], stack[n_open, 1], stack[n_open, 2]
        position, own = ints[node, POSITION], holds[n_open]
        if position == ON_ACTION:  # both children have all rows, in whatever order one of them leaves them
            other = holds[n_open + 1]
            for a in range(n_actions):
                goes_right = (right_actions[node, a // 64] >> np.uint64(a % 64)) & np.uint64(1)
                other[a] = own[a] and goes_right == np.uint64(1)
                own[a] = own[a] and goes_right == np.uint64(0)
            stack[n_open] = (ints[node, LEFT], start, end)
            stack[n_open + 1] = (ints[node, RIGHT], start, end)
            n_open += 2
        elif ints[node, LEFT] < 0:
            for a in range(n_actions):
                if own[a]:
                    steps = step_out[a]
                    for j in range(start, end):
                        steps[np.uint64(members[j])] = value[node]
        else:
            n_left = split_members(binned, position, ints[node, 3] > 0, members[start:end], buffer)
            holds[n_open + 1] = own
            stack[n_open] = (ints[node, LEFT], start, start + n_left)
            stack[n_open + 1] = (ints[node, RIGHT], start + n_left, end)
            n_open += 2
