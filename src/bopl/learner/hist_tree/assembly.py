"""From the tables of nodes that the threads return to a finished tree, cut to ``max_leaves``."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.leaf import leaf_value
from bopl.learner.hist_tree.node import ACTION_POSITION, LEAF_POSITION, NO_CHILD
from bopl.learner.hist_tree.storage import SplitTable
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, Tree, n_words, pack_actions, preorder


@dataclass(frozen=True)
class Fragment:
    """The nodes that one call of ``grow`` returned, and the fragments that continue some of them."""

    nodes: NDArray[Any]  # of NODE
    continued: dict[int, Fragment]  # node of this fragment -> the one whose root it is


def merge_fragments(root: Fragment) -> NDArray[Any]:
    """Join all fragments into one table of nodes in preorder, whatever order they came in."""
    # All fragments end to end, in any order; then every node that is continued is overwritten with the root that
    # continues it. Preorder follows children alone, so it leaves out those roots, and the order of arrival with them.
    fragments: list[tuple[Fragment, int]] = []
    todo = [(root, -1)]
    offset = 0
    hooks: list[tuple[int, int]] = []
    while todo:
        fragment, hook = todo.pop()
        fragments.append((fragment, offset))
        if hook >= 0:
            hooks.append((hook, offset))
        todo.extend((child, offset + node) for node, child in fragment.continued.items())
        offset += len(fragment.nodes)
    nodes = np.concatenate([fragment.nodes for fragment, _ in fragments])
    for fragment, start in fragments:
        _shift_children(start, nodes[start : start + len(fragment.nodes)])
    for hook, start in hooks:
        nodes[hook] = nodes[start]
    merged = take_nodes(nodes, preorder(0, nodes["left"], nodes["right"]))
    _sum_up(merged)
    return merged


def take_nodes(nodes: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Return some nodes, whose children are among them, in another order."""
    taken = np.empty(len(numbers), nodes.dtype)
    _take(nodes, numbers, np.empty(len(nodes), np.int32), taken)
    return taken


@njit(nogil=True, cache=True)
def _take(nodes, numbers, new_id, nodes_out):  # type: ignore[no-untyped-def]
    for k in range(len(numbers)):
        new_id[numbers[k]] = k
        nodes_out[k] = nodes[numbers[k]]
    for k in range(len(numbers)):
        node = nodes_out[k]
        if node.left >= 0:
            node.left, node.right = new_id[node.left], new_id[node.right]


@njit(nogil=True, cache=True)
def _shift_children(by, nodes_out):  # type: ignore[no-untyped-def]
    for number in range(len(nodes_out)):
        node = nodes_out[number]
        if node.left >= 0:
            node.left, node.right = node.left + by, node.right + by


@njit(nogil=True, cache=True)
def _sum_up(nodes_out):  # type: ignore[no-untyped-def]
    """Add the sums of the leaves up the tree; in preorder every child comes after its parent."""
    # Floats, but in an order that the finished tree sets, so that no thread or piece can change them.
    for number in range(len(nodes_out) - 1, -1, -1):
        node = nodes_out[number]
        if node.left >= 0:
            left, right = nodes_out[node.left], nodes_out[node.right]
            node.sum_gradient = left.sum_gradient + right.sum_gradient
            node.sum_weight = left.sum_weight + right.sum_weight


def make_tree(nodes: NDArray[Any], splits: SplitTable, action_features: NDArray[np.float64], n_features: int) -> Tree:
    """Translate a table of nodes from histogram positions to raw contexts and actions."""
    position, n_actions = nodes["position"], len(action_features)
    on_context, on_action = position >= 0, position == ACTION_POSITION
    at = np.where(on_context, position, 0)
    feature = np.where(on_action, ACTION_SPLIT, LEAF_FEATURE).astype(np.int32)
    threshold = np.zeros(len(nodes), np.float32)
    is_equal = np.zeros(len(nodes), bool)
    if len(splits.feature):
        feature = np.where(on_context, splits.feature[at], feature).astype(np.int32)
        threshold = np.where(on_context, splits.threshold[at], 0).astype(np.float32)
        is_equal = on_context & splits.is_equal[at]
    right_actions = np.zeros((len(nodes), n_words(n_actions)), np.uint64)
    for number in np.flatnonzero(on_action):
        goes_right, threshold[number] = _right_actions(nodes[number], action_features)
        right_actions[number] = pack_actions(goes_right)
    by_identity = on_action & (nodes["action_feature"] < 0)
    return Tree(
        left=nodes["left"].copy(),
        right=nodes["right"].copy(),
        feature=feature,
        threshold=threshold,
        default_left=on_context & nodes["default_left"],
        is_equal=is_equal,
        action_feature=np.where(on_action, nodes["action_feature"], -1).astype(np.int32),
        action=np.where(by_identity, nodes["action"], -1).astype(np.int32),
        right_actions=right_actions,
        value=np.where(position == LEAF_POSITION, nodes["value"], 0.0),
        gain=nodes["gain"].copy(),
        sum_weight=nodes["sum_weight"].copy(),
        n_actions=n_actions,
        n_features=n_features,
        n_action_features=action_features.shape[1],
    )


def _right_actions(node: Any, action_features: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float]:
    """Return which of all actions an action split sends right, and its threshold on the action feature."""
    feature, action = int(node["action_feature"]), int(node["action"])
    if feature < 0:
        return np.arange(len(action_features)) == action, 0.0
    # Not the middle between two values: features were rounded to float32, and in float32 ``x < threshold`` must hold
    # for the left ones and fail for the right ones.
    value = action_features[:, feature]
    above = value > value[action]
    return above, float(np.float32(value[above].min()))


def keep_best_splits(nodes: NDArray[Any], max_leaves: int, leaf_rule: tuple[float, float, bool]) -> NDArray[Any]:
    """Return the table of nodes of the best-first tree of at most ``max_leaves`` leaves, in preorder.

    What a node's split is and gains does not depend on the order in which nodes are split, so choosing the open node of
    largest gain again and again on the full tree gives exactly the tree that a best-first growth would have stopped at.

    Parameters
    ----------
    nodes : ndarray of NODE
        The full tree's nodes in preorder.
    max_leaves : int
    leaf_rule : tuple
        ``reg_lambda``, ``min_child_weight`` and whether leaves are -1 or +1.
    """
    is_split, is_kept = np.zeros(len(nodes), bool), np.zeros(len(nodes), bool)
    is_kept[0] = True
    left, right, gain = nodes["left"], nodes["right"], nodes["gain"]
    # Of equal gains the node of lower number is split first: numbers are in preorder, which no thread can change.
    heap = [(-gain[0], 0)] if left[0] >= 0 else []
    n_leaves = 1
    while heap and n_leaves < max_leaves:
        _, node = heapq.heappop(heap)
        is_split[node] = True
        n_leaves += 1
        for child in (int(left[node]), int(right[node])):
            is_kept[child] = True
            if left[child] >= 0:
                heapq.heappush(heap, (-gain[child], child))
    return _compact(nodes, is_kept, is_split, leaf_rule)


def _compact(
    nodes: NDArray[Any], is_kept: NDArray[np.bool_], is_split: NDArray[np.bool_], leaf_rule: tuple[float, float, bool]
) -> NDArray[Any]:
    """Drop nodes and turn those that no longer split into leaves."""
    nodes = nodes.copy()
    for number in np.flatnonzero(is_kept & ~is_split & (nodes["left"] >= 0)):
        node = nodes[number]
        node["left"] = node["right"] = NO_CHILD
        node["position"], node["gain"] = LEAF_POSITION, 0.0
        node["value"] = leaf_value(node["sum_gradient"], node["sum_weight"], *leaf_rule)
    return take_nodes(nodes, np.flatnonzero(is_kept))
