"""Trees over the expanded columns, as other libraries grow them, become trees of the engine.

What they ask of the action is settled once, for all actions: such a split becomes a set of actions that go right. So
whatever works on the engine's trees works on theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._archive import Packed
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.learner.hist_tree.predictor import HistTreePredictor, SparseTreePredictor
from bopl.learner.hist_tree.tree import (
    ACTION_SPLIT,
    LEAF_FEATURE,
    Tree,
    check_children,
    check_finite,
    check_node_arrays,
    n_words,
    pack_actions,
    preorder,
    without_overflow,
)

LEAF_COLUMN = -1  # ``ExpandedTree.column`` of a leaf
NO_NODE = -1


@dataclass(frozen=True, eq=False)
class ExpandedTree:
    """A tree over ``[x; onehot(a); features of a]``; node 0 is the root, and nodes that it does not reach are left out.

    All arrays are of shape (n_nodes,).
    """

    column: IntArray  # what the node looks at, ``LEAF_COLUMN`` for a leaf
    threshold: FloatArray  # float32: ``value < threshold`` goes left; see `just_above` for trees that say ``<=``
    left: IntArray
    right: IntArray
    default_left: BoolArray  # whether missing values go left
    value: FloatArray  # output of the leaves
    gain: FloatArray  # what each split gained
    weight: FloatArray  # of the leaves; that of other nodes is added up


def just_above(threshold: FloatArray) -> FloatArray:
    """Return the least float32 above each threshold: for a float32, ``x <= threshold`` is ``x < just_above``."""
    with np.errstate(over="ignore"):  # a threshold beyond all float32 is infinite
        # Contexts are float32, thresholds of scikit-learn float64: rounding one up or down could move a value across
        # it.
        nearest = threshold.astype(np.float32)
        above: FloatArray = np.where(nearest > threshold, nearest, np.nextafter(nearest, np.float32(np.inf)))
    return above


def predictor_from(
    tree: ExpandedTree, n_features: int, by_action: FloatArray, *, zero_is_missing: bool = False
) -> HistTreePredictor:
    """Return a tree of another library as a predictor of the engine.

    ``by_action``, of shape (n_actions, n_action_columns), has the columns of the actions, from `action_columns`;
    ``n_features`` is the number of context columns. Zeros count as missing in trees that XGBoost grew on a sparse
    matrix, where absent means missing.
    """
    converted = _engine_tree(tree, n_features, by_action, zero_is_missing=zero_is_missing)
    return SparseTreePredictor(converted) if zero_is_missing else HistTreePredictor(converted)


def _engine_tree(tree: ExpandedTree, n_features: int, by_action: FloatArray, *, zero_is_missing: bool) -> Tree:
    n_nodes, n_actions = len(tree.column), len(by_action)
    left, right = tree.left.astype(np.int32), tree.right.astype(np.int32)
    right_actions = np.zeros((n_nodes, n_words(n_actions)), np.uint64)
    action, action_feature = np.full(n_nodes, -1, np.int32), np.full(n_nodes, -1, np.int32)
    stands_for = np.arange(n_nodes, dtype=np.int32)  # the node that is left of one whose actions all go the same way
    on_action = tree.column >= n_features
    # Each split on a column of the action is decided once for every action; one that sends all of them the same way is
    # no split, and its child takes its place.
    for node in np.flatnonzero(on_action):
        column = int(tree.column[node]) - n_features
        goes_right = _goes_right(by_action[:, column], tree, int(node), zero_is_missing=zero_is_missing)
        if goes_right.all() or not goes_right.any():
            stands_for[node] = right[node] if goes_right.any() else left[node]
            continue
        if column >= n_actions:
            action_feature[node] = column - n_actions
        else:
            action[node] = column
            if not goes_right[column]:  # the engine sends the one action right and the rest left
                goes_right, left[node], right[node] = ~goes_right, right[node], left[node]
        right_actions[node] = pack_actions(goes_right)
    stands_for = _skipping(stands_for)
    left, right = (np.where(child >= 0, stands_for[child], NO_NODE).astype(np.int32) for child in (left, right))
    order = preorder(int(stands_for[0]), left, right)
    is_leaf = tree.column[order] == LEAF_COLUMN
    new_id = np.full(n_nodes, NO_NODE, np.int32)
    new_id[order] = np.arange(len(order), dtype=np.int32)
    left, right = (np.where(is_leaf, NO_NODE, new_id[child[order]]).astype(np.int32) for child in (left, right))
    feature = np.where(is_leaf, LEAF_FEATURE, np.where(on_action[order], ACTION_SPLIT, tree.column[order]))
    by_identity = on_action[order] & (action_feature[order] < 0)
    return Tree(
        left=left,
        right=right,
        feature=feature.astype(np.int32),
        threshold=np.where(is_leaf | by_identity, 0.0, tree.threshold[order]).astype(np.float32),
        default_left=tree.default_left[order] & (feature >= 0),
        is_equal=np.zeros(len(order), bool),
        action_feature=action_feature[order],
        action=action[order],
        right_actions=right_actions[order],
        value=np.where(is_leaf, tree.value[order], 0.0),
        gain=np.where(is_leaf, 0.0, tree.gain[order]),
        sum_weight=_summed_up(np.where(is_leaf, tree.weight[order], 0.0).astype(np.float64), left, right),
        n_actions=n_actions,
        n_features=n_features,
        n_action_features=by_action.shape[1] - n_actions,
    )


def _goes_right(values: FloatArray, tree: ExpandedTree, node: int, *, zero_is_missing: bool) -> BoolArray:
    """Return which actions a split sends right, given their values in its column."""
    is_missing = np.isnan(values) | (values == 0.0) if zero_is_missing else np.isnan(values)
    return ~np.where(is_missing, tree.default_left[node], values < tree.threshold[node])


def _skipping(stands_for: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the first node that is not passed over from each node on; they stand for one another in chains."""
    while (stands_for[stands_for] != stands_for).any():
        stands_for = stands_for[stands_for]
    return stands_for


def _summed_up(weight: NDArray[np.float64], left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the weights of all nodes from those of the leaves; in preorder every child comes after its parent."""
    for node in np.flatnonzero(left >= 0)[::-1]:
        weight[node] = weight[left[node]] + weight[right[node]]
    return weight


# -- Files of version 0.1, which kept such trees as they were ----------------------------------------------------------

FILE_KIND = "tree"
NODE_DTYPES = {
    "column": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "value": np.float64,
    "gain": np.float64,
}


def pack_nothing(predictors: Sequence[Any]) -> Packed:
    """Return what a file stores of no predictors at all; none of this kind is made any more."""
    assert not predictors
    arrays: dict[str, AnyArray] = {name: np.zeros(0, dtype) for name, dtype in NODE_DTYPES.items()}
    return {"zero_is_missing": False}, arrays | {"n_nodes": np.zeros(0, np.int64)}


def unpack_trees(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[HistTreePredictor]:
    """Return the trees of a file, after checking that no traversal can leave the arrays or run in circles.

    The files do not have the weights of nodes, so these are zero.
    """
    bounds = check_node_arrays(arrays, NODE_DTYPES)
    column, is_split = arrays["column"], arrays["column"] != LEAF_COLUMN
    if (column < LEAF_COLUMN).any() or (column >= n_features + by_action.shape[1]).any():
        raise ValueError("a tree looks at a column that does not exist")
    check_children(arrays["left"], arrays["right"], is_split, bounds)
    check_finite(arrays, "value")
    if np.isnan(arrays["threshold"]).any():
        raise ValueError("a tree splits at a threshold that is missing")
    gain, threshold = without_overflow(arrays, "gain"), just_above(arrays["threshold"])
    zero_is_missing = bool(facts["zero_is_missing"])
    return [
        predictor_from(
            ExpandedTree(
                column=column[start:end],
                threshold=threshold[start:end],
                left=arrays["left"][start:end],
                right=arrays["right"][start:end],
                default_left=arrays["missing_left"][start:end],
                value=arrays["value"][start:end],
                gain=gain[start:end],
                weight=np.zeros(end - start),
            ),
            n_features,
            by_action,
            zero_is_missing=zero_is_missing,
        )
        for start, end in pairwise(bounds.tolist())
    ]
