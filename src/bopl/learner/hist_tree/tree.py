"""The finished tree: flat arrays over raw contexts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

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

    def to_bytes(self) -> bytes:
        """Return every array's bytes in order: equal trees have equal bytes."""
        arrays = [getattr(self, f.name) for f in fields(self)]
        return b"".join(a.tobytes() for a in arrays if isinstance(a, np.ndarray))


def pack_actions(is_member: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return an action set as words of bits."""
    n_words = -(-len(is_member) // WORD_BITS)
    padded = np.zeros(n_words * WORD_BITS, bool)
    padded[: len(is_member)] = is_member
    return np.packbits(padded, bitorder="little").view(np.uint64)
