"""Fitted trees of the engine as predictors: one by one, stacked for scoring, and as arrays for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner.hist_tree.predict import FlatEnsemble, flatten
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree


@dataclass(frozen=True, eq=False)
class HistTreePredictor:
    """One tree of the engine as a predictor.

    Attributes
    ----------
    tree : Tree
    n_jobs : int
        Threads for scoring; the scores do not depend on it.
    """

    kind: ClassVar[str] = "hist_tree"

    tree: Tree
    n_jobs: int = 1

    @property
    def n_actions(self) -> int:
        """Number of actions scored."""
        return self.tree.n_actions

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.tree.n_leaves

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions)."""
        return flatten([self.tree], [1.0]).score(context, n_jobs=self.n_jobs)

    def gain_by_column(self) -> AnyArray:
        """Return the gain of all splits by column of ``[x; onehot(a); features of a]``."""
        tree = self.tree
        on_action = tree.feature == ACTION_SPLIT
        by_identity = on_action & (tree.action_feature < 0)
        column = np.where(by_identity, tree.n_features + tree.action, tree.feature)
        column = np.where(on_action & ~by_identity, tree.n_features + tree.n_actions + tree.action_feature, column)
        split = tree.feature != LEAF_FEATURE
        n_columns = tree.n_features + tree.n_actions + tree.n_action_features
        return np.bincount(column[split], weights=tree.gain[split], minlength=n_columns)


def stack_trees(predictors: Sequence[HistTreePredictor], coefficient: Sequence[float]) -> FlatEnsemble:
    """Put the trees of many rounds into one ensemble that scores in a single pass, in the order of the rounds."""
    return flatten([predictor.tree for predictor in predictors], coefficient)


# Nodes are in preorder, so a left child is the next node and need not be stored.
_STORED = {
    "right": np.int32,
    "feature": np.int32,
    "threshold": np.float32,
    "default_left": np.bool_,
    "is_equal": np.bool_,
    "action_feature": np.int32,
    "action": np.int32,
    "value": np.float64,
    "gain": np.float32,
    "sum_weight": np.float32,
}


def pack_hist_trees(predictors: Sequence[HistTreePredictor]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return what a file stores of the engine's trees: the node arrays of all trees end to end."""
    trees = [predictor.tree for predictor in predictors]
    arrays: dict[str, AnyArray] = {
        name: np.concatenate([getattr(tree, name) for tree in trees]).astype(dtype) for name, dtype in _STORED.items()
    }
    arrays["n_nodes"] = np.array([tree.n_nodes for tree in trees], dtype=np.int64)
    on_action = arrays["feature"] == ACTION_SPLIT
    arrays["right_actions"] = np.concatenate([tree.right_actions for tree in trees])[on_action]
    return {}, arrays


def unpack_hist_trees(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[HistTreePredictor]:
    """Return the trees of `pack_hist_trees`, after checking that no walk can leave the arrays or run in circles."""
    n_nodes, total = arrays["n_nodes"], len(arrays["feature"])
    if n_nodes.dtype != np.int64 or (n_nodes < 1).any() or n_nodes.sum() != total:
        raise ValueError("the trees' sizes do not match their nodes")
    for name, dtype in _STORED.items():
        if arrays[name].dtype != dtype or arrays[name].shape != (total,):
            raise ValueError(f"tree array {name!r} has the wrong type or length")
    n_actions = len(by_action)
    on_action = arrays["feature"] == ACTION_SPLIT
    right_actions = np.zeros((total, -(-n_actions // WORD_BITS)), dtype=np.uint64)
    if arrays["right_actions"].dtype != np.uint64 or arrays["right_actions"].shape != right_actions[on_action].shape:
        raise ValueError("the trees' action sets do not match their splits on the action")
    right_actions[on_action] = arrays["right_actions"]
    ends = np.cumsum(n_nodes)
    return [
        HistTreePredictor(
            _checked_tree(
                {name: arrays[name][end - size : end] for name in _STORED},
                right_actions[end - size : end],
                n_features,
                by_action,
            )
        )
        for end, size in zip(ends.tolist(), n_nodes.tolist(), strict=True)
    ]


def _checked_tree(nodes: dict[str, AnyArray], right_actions: AnyArray, n_features: int, by_action: FloatArray) -> Tree:
    n_actions, n_action_columns = by_action.shape
    feature, node = nodes["feature"], np.arange(len(nodes["feature"]))
    split = feature != LEAF_FEATURE
    on_action = feature == ACTION_SPLIT
    if (feature < ACTION_SPLIT).any() or (feature >= n_features).any():
        raise ValueError("a tree looks at a column that does not exist")
    if (nodes["action"][on_action] >= n_actions).any() or (
        nodes["action_feature"] >= n_action_columns - n_actions
    ).any():
        raise ValueError("a tree looks at an action that does not exist")
    left = np.where(split, node + 1, -1).astype(np.int32)
    for child in (left[split], nodes["right"][split]):
        if (child <= node[split]).any() or (child >= len(node)).any():
            raise ValueError("a tree's children do not follow their parents")
    return Tree(
        left=left,
        right=nodes["right"],
        feature=feature,
        threshold=nodes["threshold"],
        default_left=nodes["default_left"],
        is_equal=nodes["is_equal"],
        action_feature=nodes["action_feature"],
        action=nodes["action"],
        right_actions=right_actions,
        value=nodes["value"],
        gain=nodes["gain"].astype(np.float64),
        sum_weight=nodes["sum_weight"].astype(np.float64),
        n_actions=n_actions,
        n_features=n_features,
        n_action_features=n_action_columns - n_actions,
    )
