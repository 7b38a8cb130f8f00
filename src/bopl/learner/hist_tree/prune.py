"""``max_leaves``: replay a best-first growth on the full tree.

What a node's split is and gains does not depend on the order in which nodes are split, so choosing the open node of
largest gain again and again on the full tree gives exactly the tree that a best-first growth would have stopped at.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.grow import GAIN, LEAF, LEFT, POSITION, RIGHT, SUM_GRADIENT, SUM_WEIGHT, VALUE, leaf_value


def keep_best_splits(
    ints: NDArray[np.int64], floats: NDArray[np.float64], max_leaves: int, leaf_rule: tuple[float, float, bool]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the table of nodes of the best-first tree of at most ``max_leaves`` leaves, in preorder.

    Parameters
    ----------
    ints, floats : ndarray
        Table of the full tree's nodes in preorder.
    leaf_rule : tuple
        ``reg_lambda``, ``min_child_weight`` and whether leaves are -1 or +1.
    """
    is_split = np.zeros(len(ints), bool)
    is_kept = np.zeros(len(ints), bool)
    is_kept[0] = True
    heap = [(-floats[0, GAIN], 0)] if ints[0, LEFT] >= 0 else []
    n_leaves = 1
    while heap and n_leaves < max_leaves:
        _, node = heapq.heappop(heap)
        is_split[node] = True
        n_leaves += 1
        for child in (int(ints[node, LEFT]), int(ints[node, RIGHT])):
            is_kept[child] = True
            if ints[child, LEFT] >= 0:
                heapq.heappush(heap, (-floats[child, GAIN], child))
    return _compact(ints, floats, is_kept, is_split, leaf_rule)


def _compact(
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    is_kept: NDArray[np.bool_],
    is_split: NDArray[np.bool_],
    leaf_rule: tuple[float, float, bool],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Drop nodes and turn those that no longer split into leaves."""
    ints, floats = ints.copy(), floats.copy()
    for node in np.flatnonzero(is_kept & ~is_split & (ints[:, LEFT] >= 0)):
        ints[node, [LEFT, RIGHT, POSITION]] = LEAF
        floats[node, GAIN] = 0.0
        floats[node, VALUE] = leaf_value(floats[node, SUM_GRADIENT], floats[node, SUM_WEIGHT], *leaf_rule)
    new_id = np.cumsum(is_kept) - 1
    ints, floats = ints[is_kept], floats[is_kept]
    for child in (LEFT, RIGHT):
        ints[:, child] = np.where(ints[:, child] >= 0, new_id[ints[:, child]], LEAF)
    return ints, floats
