"""The finished tree: flat arrays over raw contexts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit

LEAF_FEATURE = -1  # ``Tree.feature`` of a leaf
ACTION_SPLIT = -2  # ... and of a split on the action
WORD_BITS = 64  # action sets are carried as words of bits


@dataclass(frozen=True)
class Tree:
    """One regression or classification tree over (context, action) pairs; node 0 is the root, nodes are in preorder.

    Attributes
    ----------
    left, right : ndarray of int32, shape (n_nodes,)
        Children, -1 for a leaf.
    feature : ndarray of int32
        Context column of the split, -1 for a leaf, -2 for a split on the action.
    threshold : ndarray of float32
        ``x < threshold`` goes left; if ``is_equal``, ``x == threshold`` goes right and all else left. For a split on an
        action feature, the threshold on that feature.
    default_left : ndarray of bool
        Whether a missing value goes left.
    is_equal : ndarray of bool
    action_feature : ndarray of int32
        For a split on the action: -1 if by identity, otherwise the action feature.
    action : ndarray of int32
        For a split by identity: the action that goes right.
    right_actions : ndarray of uint64, shape (n_nodes, n_words)
        For a split on the action: bit ``a % 64`` of word ``a // 64`` is set if action ``a`` goes right.
    value : ndarray of float64
        Leaf values.
    gain : ndarray of float64
        What each split gained.
    sum_weight : ndarray of float64
        Unrounded sum of weights of each node.
    n_actions, n_features, n_action_features : int
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    default_left: NDArray[np.bool_]
    is_equal: NDArray[np.bool_]
    action_feature: NDArray[np.int32]
    action: NDArray[np.int32]
    right_actions: NDArray[np.uint64]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]
    sum_weight: NDArray[np.float64]
    n_actions: int
    n_features: int
    n_action_features: int = 0

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.left)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.feature == LEAF_FEATURE))

    @property
    def n_columns(self) -> int:
        """Number of columns of ``[x; onehot(a); features of a]``."""
        return self.n_features + self.n_actions + self.n_action_features

    def to_bytes(self) -> bytes:
        """Return every array's bytes in order: equal trees have equal bytes."""
        arrays = [getattr(self, f.name) for f in fields(self)]
        return b"".join(a.tobytes() for a in arrays if isinstance(a, np.ndarray))


def split_columns(tree: Tree) -> NDArray[np.int64]:
    """Return the column of ``[x; onehot(a); features of a]`` that every split looks at, 0 for leaves."""
    on_action = tree.feature == ACTION_SPLIT
    of_action = np.where(tree.action_feature < 0, tree.action, tree.n_actions + tree.action_feature)
    column = np.where(on_action, tree.n_features + of_action, tree.feature)
    return np.where(tree.feature == LEAF_FEATURE, 0, column).astype(np.int64)


def n_words(n_actions: int) -> int:
    """Return how many words an action set takes."""
    return -(-n_actions // WORD_BITS)


def pack_actions(is_member: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return an action set as words of bits."""
    padded = np.zeros(n_words(len(is_member)) * WORD_BITS, bool)
    padded[: len(is_member)] = is_member
    return np.packbits(padded, bitorder="little").view(np.uint64)


def preorder(root: int, left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the numbers of all nodes that the root reaches, parents first and left before right."""
    order = np.empty(len(left), np.int64)
    n_nodes = _write_preorder(root, np.ascontiguousarray(left), np.ascontiguousarray(right), order)
    return order[:n_nodes]


@njit(nogil=True, cache=True)
def _write_preorder(root, left, right, order_out):  # type: ignore[no-untyped-def]
    stack = np.empty(len(left) + 1, np.int64)  # no more branches are open than there are nodes
    stack[0] = root
    n_open, n = 1, 0
    while n_open > 0:
        n_open -= 1
        node = stack[n_open]
        order_out[n] = node
        n += 1
        if left[node] >= 0:
            stack[n_open] = right[node]
            stack[n_open + 1] = left[node]
            n_open += 2
    return n
