"""A finished tree's values on the training contexts, from their bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.node import ACTION_POSITION
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.tree import WORD_BITS

# A node on the stack, with its rows ``members[start:end]``.
_VISIT = np.dtype([("node", np.int64), ("start", np.int64), ("end", np.int64)])


@dataclass(frozen=True)
class GrownTree:
    """A tree over histogram positions, as it is applied to binned contexts."""

    nodes: NDArray[Any]  # (n_nodes,) of NODE
    right_actions: NDArray[np.uint64]  # (n_nodes, n_words), as in `Tree`

    def write_values(self, binned: BinnedContext, step_out: NDArray[np.float64]) -> None:
        """Write the tree's value of every pair of binned contexts; ``step_out`` is (n_actions, n_samples)."""
        known = np.full((len(self.nodes), 2), -1)
        known[0] = 0, binned.n_samples
        rows = np.arange(binned.n_samples, dtype=np.int32)
        apply_nodes(binned.arrays, self.nodes, self.right_actions, known, rows, step_out)


@njit(nogil=True, cache=True)
def _put_visit(node, start, end, visit_out):  # type: ignore[no-untyped-def]
    visit_out.node, visit_out.start, visit_out.end = node, start, end


@njit(nogil=True, cache=True)
def apply_nodes(binned, nodes, right_actions, known, rows, step_out):  # type: ignore[no-untyped-def]
    """Push contexts down the tree from the nodes where they are known, with the action sets of these.

    Used where growth itself could not write the step: rows left out of the round's draw, leaves merged afterwards, and
    pieces, which have seen a part of the growth. Rows are divided once at every node, whatever actions it holds.

    Parameters
    ----------
    binned : Binned
    nodes : ndarray of NODE
    right_actions : ndarray of uint64, shape (n_nodes, n_words)
    known : ndarray of int64, shape (n_nodes, 2)
        Where the rows of a node begin and end, -1 if they come from its parent or are not needed: on every way from the
        root to a leaf one node's are known.
    rows : ndarray of int32
        Reordered.
    step_out : ndarray of shape (n_actions, n_samples)
    """
    # The stack is no deeper than the tree has nodes, and a node's action set takes the place of its parent's.
    n_actions = step_out.shape[0]
    buffer = np.empty(step_out.shape[1], np.int32)
    stack = np.empty(len(nodes) + 1, _VISIT)
    holds = np.zeros((len(nodes) + 1, n_actions), np.bool_)  # the action set of each node on the stack
    _put_visit(0, -1, -1, stack[0])
    holds[0] = True
    n_open = 1
    while n_open > 0:
        n_open -= 1
        number, start, end = stack[n_open].node, stack[n_open].start, stack[n_open].end
        if known[number, 0] >= 0:
            start, end = known[number]
        node, own = nodes[number], holds[n_open]
        if node.position == ACTION_POSITION:  # both children have all rows, in whatever order one of them leaves them
            other = holds[n_open + 1]
            for a in range(n_actions):
                goes_right = (right_actions[number, a // WORD_BITS] >> np.uint64(a % WORD_BITS)) & np.uint64(1)
                other[a] = own[a] and goes_right == np.uint64(1)
                own[a] = own[a] and goes_right == np.uint64(0)
            _put_visit(node.left, start, end, stack[n_open])
            _put_visit(node.right, start, end, stack[n_open + 1])
            n_open += 2
        elif node.left < 0:
            for a in range(n_actions):
                if own[a]:
                    steps = step_out[a]
                    for j in range(start, end):
                        steps[np.uint64(rows[j])] = node.value
        else:
            middle = start
            if start >= 0:
                middle += split_members(binned, np.int64(node.position), node.default_left, rows[start:end], buffer)
            holds[n_open + 1] = own
            _put_visit(node.left, start, middle, stack[n_open])
            _put_visit(node.right, middle, end, stack[n_open + 1])
            n_open += 2
