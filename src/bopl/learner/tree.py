"""One binary tree over the expanded columns as plain arrays, whichever library grew it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from bopl._kernel import njit
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.learner.expanded import dense_chunks
from bopl.learner.tree_check import check_children, check_finite, check_node_arrays, without_overflow

LEAF = -1


@dataclass(frozen=True, eq=False)
class TreePredictor:
    """A tree whose node k sends ``column <= threshold[k]`` to the left; node 0 is the root.

    Attributes
    ----------
    column : int32 array of shape (n_nodes,)
        Column of ``[x; onehot(a); features of a]`` the node looks at; ``LEAF`` for a leaf.
    threshold : float64 array of shape (n_nodes,)
    left, right : int32 arrays of shape (n_nodes,)
        Children; always greater than the node itself, so that every walk ends.
    missing_left : bool array of shape (n_nodes,)
        Whether missing values go to the left.
    value : float64 array of shape (n_nodes,)
        Output of the leaves.
    gain : float64 array of shape (n_nodes,)
        What the split gained; 0 for leaves.
    n_features : int
        Number of context columns.
    by_action : float32 array of shape (n_actions, n_action_columns)
        The columns of the actions, from `action_columns`.
    zero_is_missing : bool
        Whether zeros count as missing: true for trees XGBoost grew on a sparse matrix, where absent means missing.
    """

    kind: ClassVar[str] = "tree"

    column: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    missing_left: BoolArray
    value: FloatArray
    gain: FloatArray
    n_features: int
    by_action: FloatArray
    zero_is_missing: bool = False

    @property
    def n_actions(self) -> int:
        """Number of actions scored."""
        return len(self.by_action)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.column == LEAF).sum())

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions)."""
        prediction = np.empty((context.shape[0], self.n_actions))
        for rows, dense in dense_chunks(context):
            walk_tree(
                dense,
                self.by_action,
                self.column,
                self.threshold,
                self.left,
                self.right,
                self.missing_left,
                self.value,
                self.zero_is_missing,
                prediction[rows],
            )
        return prediction

    def gain_by_column(self) -> AnyArray:
        """Return the sum of gains by column, of shape (n_features + n_action_columns,)."""
        split = self.column != LEAF
        n_columns = self.n_features + self.by_action.shape[1]
        return np.bincount(self.column[split], weights=self.gain[split], minlength=n_columns)


@njit(cache=True, nogil=True)
def walk_tree(  # type: ignore[no-untyped-def]
    context, by_action, column, threshold, left, right, missing_left, value, zero_is_missing, prediction_out
):
    """Write the tree's output for every context and action into ``prediction_out``."""
    n_samples, n_features = context.shape
    for sample in range(n_samples):
        for action in range(prediction_out.shape[1]):
            node = 0
            while column[node] != LEAF:
                at = column[node]
                x = context[sample, at] if at < n_features else by_action[action, at - n_features]
                is_missing = np.isnan(x) or (zero_is_missing and x == 0.0)
                goes_left = missing_left[node] if is_missing else x <= threshold[node]
                node = left[node] if goes_left else right[node]
            prediction_out[sample, action] = value[node]


NODE_DTYPES = {
    "column": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "value": np.float64,
    "gain": np.float64,
}


def pack_trees(trees: Sequence[TreePredictor]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return what a file stores of trees: facts for its JSON, and the node arrays of all trees end to end."""
    arrays: dict[str, AnyArray] = {
        name: np.concatenate([np.zeros(0, dtype), *(getattr(tree, name) for tree in trees)]).astype(dtype)
        for name, dtype in NODE_DTYPES.items()
    }
    arrays["n_nodes"] = np.array([len(tree.column) for tree in trees], dtype=np.int64)
    return {"zero_is_missing": bool(trees and trees[0].zero_is_missing)}, arrays


def unpack_trees(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[TreePredictor]:
    """Return the trees of `pack_trees`, after checking that no walk can leave the arrays or run in circles."""
    bounds = check_node_arrays(arrays, NODE_DTYPES)
    column, is_split = arrays["column"], arrays["column"] != LEAF
    if (column < LEAF).any() or (column >= n_features + by_action.shape[1]).any():
        raise ValueError("a tree looks at a column that does not exist")
    check_children(arrays["left"], arrays["right"], is_split, bounds)
    check_finite(arrays, "value")
    if np.isnan(arrays["threshold"]).any():
        raise ValueError("a tree splits at a threshold that is missing")
    nodes = {name: arrays[name] for name in NODE_DTYPES} | {"gain": without_overflow(arrays, "gain")}
    zero_is_missing = bool(facts["zero_is_missing"])
    return [
        TreePredictor(
            **{name: array[start:end] for name, array in nodes.items()},
            n_features=n_features,
            by_action=by_action,
            zero_is_missing=zero_is_missing,
        )
        for start, end in pairwise(bounds.tolist())
    ]
