"""From the tables of nodes that the threads return to a finished tree."""

from __future__ import annotations

from dataclasses import dataclass
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
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree, pack_actions


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
