"""``max_leaves``: replay a best-first growth on the full tree.

What a node's split is and gains does not depend on the order in which nodes are split, so choosing the open node of
largest gain again and again on the full tree gives exactly the tree that a best-first growth would have stopped at.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.assembly import take_nodes
from bopl.learner.hist_tree.leaf import leaf_value
from bopl.learner.hist_tree.node import LEAF_POSITION, NO_CHILD


def keep_best_splits(nodes: NDArray[Any], max_leaves: int, leaf_rule: tuple[float, float, bool]) -> NDArray[Any]:
    """Return the table of nodes of the best-first tree of at most ``max_leaves`` leaves, in preorder.

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
