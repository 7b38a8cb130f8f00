"""The finished tree: flat arrays over raw contexts, and its assembly from the tables that the threads return."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grow import (
    ACTION,
    ACTION_FEATURE,
    DEFAULT_LEFT,
    GAIN,
    LEAF,
    LEFT,
    ON_ACTION,
    POSITION,
    RIGHT,
    SUM_GRADIENT,
    SUM_WEIGHT,
    VALUE,
)
from bopl.learner.hist_tree.storage import SplitTable

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


@dataclass(frozen=True)
class Piece:
    """The nodes that one call of ``grow`` returned, and the pieces that continue some of them."""

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    continued: dict[int, Piece]  # node of this piece -> the piece whose root it is


def merge_pieces(root: Piece) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Join all pieces into one table of nodes in preorder, whatever order the pieces came in."""
    pieces: list[tuple[Piece, int]] = []
    todo = [(root, -1)]
    offset = 0
    hooks: list[tuple[int, int]] = []
    while todo:
        piece, hook = todo.pop()
        pieces.append((piece, offset))
        if hook >= 0:
            hooks.append((hook, offset))
        todo.extend((child, offset + node) for node, child in piece.continued.items())
        offset += len(piece.ints)
    ints = np.concatenate([_shifted(piece.ints, by) for piece, by in pieces])
    floats = np.concatenate([piece.floats for piece, _ in pieces])
    for hook, start in hooks:
        ints[hook], floats[hook] = ints[start], floats[start]
    order = np.empty(len(ints), np.int64)
    n_nodes = _preorder(ints[:, LEFT], ints[:, RIGHT], order)
    order = order[:n_nodes]
    new_id = np.full(len(ints), -1, np.int64)
    new_id[order] = np.arange(n_nodes)
    ints, floats = ints[order], floats[order]
    for child in (LEFT, RIGHT):
        ints[:, child] = np.where(ints[:, child] >= 0, new_id[ints[:, child]], -1)
    _sum_up(ints, floats)
    return ints, floats


def _shifted(ints: NDArray[np.int64], by: int) -> NDArray[np.int64]:
    shifted = ints.copy()
    for child in (LEFT, RIGHT):
        shifted[:, child] = np.where(ints[:, child] >= 0, ints[:, child] + by, -1)
    return shifted


@njit(nogil=True, cache=True)
def _preorder(left, right, order_out):  # type: ignore[no-untyped-def]
    stack = np.empty(len(left) + 1, np.int64)
    stack[0] = 0
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


@njit(nogil=True, cache=True)
def _sum_up(ints, floats_out):  # type: ignore[no-untyped-def]
    """Add the sums of the leaves up the tree; in preorder every child comes after its parent."""
    for node in range(len(ints) - 1, -1, -1):
        if ints[node, LEFT] >= 0:
            for k in (SUM_GRADIENT, SUM_WEIGHT):
                floats_out[node, k] = floats_out[ints[node, LEFT], k] + floats_out[ints[node, RIGHT], k]


def make_tree(
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    splits: SplitTable,
    action_features: Any,
    n_actions: int,
    n_features: int,
) -> Tree:
    """Translate a table of nodes from histogram positions to raw contexts and actions."""
    position = ints[:, POSITION]
    on_context = position >= 0
    on_action = position == ON_ACTION
    at = np.where(on_context, position, 0)
    feature = np.where(on_action, ACTION_SPLIT, LEAF_FEATURE).astype(np.int32)
    threshold = np.zeros(len(ints), np.float32)
    is_equal = np.zeros(len(ints), bool)
    if len(splits.feature):
        feature = np.where(on_context, splits.feature[at], feature).astype(np.int32)
        threshold = np.where(on_context, splits.threshold[at], 0).astype(np.float32)
        is_equal = on_context & splits.is_equal[at]
    right_actions = np.zeros((len(ints), -(-n_actions // WORD_BITS)), np.uint64)
    for node in np.flatnonzero(on_action):
        goes_right, threshold[node] = _right_actions(ints[node], action_features, n_actions)
        right_actions[node] = pack_actions(goes_right)
    by_identity = on_action & (ints[:, ACTION_FEATURE] < 0)
    return Tree(
        left=ints[:, LEFT].astype(np.int32),
        right=ints[:, RIGHT].astype(np.int32),
        feature=feature,
        threshold=threshold,
        default_left=on_context & (ints[:, DEFAULT_LEFT] > 0),
        is_equal=is_equal,
        action_feature=np.where(on_action, ints[:, ACTION_FEATURE], -1).astype(np.int32),
        action=np.where(by_identity, ints[:, ACTION], -1).astype(np.int32),
        right_actions=right_actions,
        value=np.where(position == LEAF, floats[:, VALUE], 0.0),
        gain=floats[:, GAIN].copy(),
        sum_weight=floats[:, SUM_WEIGHT].copy(),
        n_actions=n_actions,
        n_features=n_features,
        n_action_features=action_features.shape[1],
    )


def _right_actions(ints: NDArray[np.int64], action_features: Any, n_actions: int) -> tuple[NDArray[np.bool_], float]:
    """Return which of all actions an action split sends right, and its threshold on the action feature."""
    feature, action = int(ints[ACTION_FEATURE]), int(ints[ACTION])
    if feature < 0:
        return np.arange(n_actions) == action, 0.0
    value = action_features[:, feature]
    above = value > value[action]
    return above, float(np.float32(value[above].min()))


def pack_actions(is_member: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return an action set as words of bits."""
    n_words = -(-len(is_member) // WORD_BITS)
    padded = np.zeros(n_words * WORD_BITS, bool)
    padded[: len(is_member)] = is_member
    return np.packbits(padded, bitorder="little").view(np.uint64)
