"""One context at a time: a traversal of each tree scores all of its actions, carrying the action set down as bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.tree import LEAF_FEATURE, WORD_BITS

EQUAL_BIT, DEFAULT_LEFT_BIT = 1, 2
# A left child is the next node. The fields share 16 bytes, so that a threshold comes with its node's cache line.
FLAT_NODE = np.dtype(
    [
        ("right", np.int32),
        ("feature", np.int32),  # context column, `ACTION_SPLIT` or `LEAF_FEATURE`
        ("threshold", np.float32),
        ("extra", np.int32),  # flags of a split on the context; the row of ``right_actions`` of one on the action
    ],
    align=True,
)


class CsrRows(NamedTuple):
    """A CSR matrix as the kernels read it."""

    data: NDArray[np.float32]  # (n_entries,)
    indices: NDArray[np.int32]  # (n_entries,) context column of each entry
    indptr: NDArray[np.int32]  # (n_samples + 1,) where the entries of each row begin


class FlatTrees(NamedTuple):
    """Nodes of many trees, one after another in preorder."""

    node: NDArray[Any]  # (n_nodes,) of FLAT_NODE
    right_actions: NDArray[np.uint64]  # (n_action_splits, n_words)
    value: NDArray[np.float64]  # (n_nodes,) coefficient times leaf value
    root: NDArray[np.int64]  # (n_trees,)
    all_actions: NDArray[np.uint64]  # (n_words,)


@njit(nogil=True, cache=True)
def _goes_right(x, threshold, flags):  # type: ignore[no-untyped-def]
    """Return whether a value goes right at a split with flags; a missing category has threshold NaN."""
    if flags & EQUAL_BIT:
        return x == threshold or (np.isnan(x) and np.isnan(threshold))
    return not (x < threshold or np.isnan(x))


@njit(nogil=True, cache=True)
def _traverse_tree(x, trees, root, word, open_node, open_set, score_out):  # type: ignore[no-untyped-def]
    """Add one tree's values of the 64 actions of ``word`` to ``score_out``."""
    # An action split whose set goes both ways leaves its right side open. Sides of open branches have no action in
    # common, so there are never more than n_actions of them: which `FlatEnsemble.depth` allows for.
    nodes = trees.node
    open_node[0], open_set[0] = root, trees.all_actions[word]
    n_open = np.uint64(1)
    first = np.uint64(word * WORD_BITS)
    while n_open > np.uint64(0):
        n_open -= np.uint64(1)
        node, actions = np.uint64(open_node[n_open]), open_set[n_open]
        feature = nodes[node].feature
        while feature != LEAF_FEATURE:
            if feature >= 0:
                value = x[np.uint64(feature)]
                # Without flags a missing value, which is not below anything, goes right.
                goes_right = not value < nodes[node].threshold
                if nodes[node].extra != 0:
                    goes_right = _goes_right(value, nodes[node].threshold, nodes[node].extra)
                node = np.uint64(nodes[node].right) if goes_right else node + np.uint64(1)
            else:
                right = actions & trees.right_actions[np.uint64(nodes[node].extra), word]
                if right == actions:
                    node = np.uint64(nodes[node].right)
                else:
                    if right != np.uint64(0):
                        open_node[n_open], open_set[n_open] = nodes[node].right, right
                        n_open += np.uint64(1)
                        actions &= ~right
                    node += np.uint64(1)
            feature = nodes[node].feature
        added = trees.value[node]
        # Visits the bits that are set and no others: ``x & (x - 1)`` clears the lowest one.
        while actions != np.uint64(0):
            score_out[first + np.uint64(trailing_zeros(actions))] += added  # type: ignore[call-arg]
            actions &= actions - np.uint64(1)


@njit(nogil=True, cache=True)
def score_row(x, trees, open_node, open_set, score_out):  # type: ignore[no-untyped-def]
    """Add every tree's values for one context to ``score_out`` (n_actions,)."""
    # Trees outside: every action adds its trees in their order, so that all ways of scoring give the same bits.
    for t in range(len(trees.root)):
        for word in range(len(trees.all_actions)):
            _traverse_tree(x, trees, trees.root[t], word, open_node, open_set, score_out)


@njit(nogil=True, cache=True)
def score_rows(context, trees, depth, start, end, score_out):  # type: ignore[no-untyped-def]
    """Add every tree's values for rows ``start`` to ``end`` of a dense context."""
    open_node, open_set = np.empty(depth, np.int64), np.empty(depth, np.uint64)
    for i in range(start, end):
        score_row(context[i], trees, open_node, open_set, score_out[i])


@njit(nogil=True, cache=True)
def score_csr_rows(context, n_features, trees, depth, start, end, score_out):  # type: ignore[no-untyped-def]
    """The same for `CsrRows`: spread one row at a time into a dense one; entries that are not stored are zero."""
    open_node, open_set = np.empty(depth, np.int64), np.empty(depth, np.uint64)
    data, indices, indptr = context
    x = np.zeros(n_features, np.float32)
    for i in range(start, end):
        for k in range(indptr[i], indptr[i + 1]):
            x[indices[k]] = data[k]
        score_row(x, trees, open_node, open_set, score_out[i])
        # Only what was written is cleared: rows have few entries, and a context may have many thousand columns.
        for k in range(indptr[i], indptr[i + 1]):
            x[indices[k]] = 0.0
