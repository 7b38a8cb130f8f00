"""A finished tree's values on the training contexts, from their bins."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.grow import LEFT, ON_ACTION, POSITION, RIGHT
from bopl.learner.hist_tree.partition import split_members


@njit(nogil=True, cache=True)
def apply_nodes(binned, ints, value, right_actions, rows, step_out):  # type: ignore[no-untyped-def]
    """Push all contexts down each action's path through the tree.

    Used where growth itself could not write the step: rows left out of the round's draw, or leaves merged afterwards.

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
    buffer = np.empty_like(rows)
    stack = np.empty((len(ints) + 1, 3), np.int64)
    for a in range(step_out.shape[0]):
        word, bit = a // 64, np.uint64(a % 64)
        members = rows.copy()
        stack[0] = (0, 0, len(rows))
        n_open = 1
        while n_open > 0:
            n_open -= 1
            node, start, end = stack[n_open, 0], stack[n_open, 1], stack[n_open, 2]
            position = ints[node, POSITION]
            if position == ON_ACTION:
                goes_right = (right_actions[node, word] >> bit) & np.uint64(1)
                stack[n_open] = (ints[node, RIGHT] if goes_right else ints[node, LEFT], start, end)
                n_open += 1
            elif ints[node, LEFT] < 0:
                for j in range(start, end):
                    step_out[a, members[j]] = value[node]
            else:
                n_left = split_members(binned, position, ints[node, 3] > 0, members[start:end], buffer)
                stack[n_open] = (ints[node, LEFT], start, start + n_left)
                stack[n_open + 1] = (ints[node, RIGHT], start + n_left, end)
                n_open += 2
