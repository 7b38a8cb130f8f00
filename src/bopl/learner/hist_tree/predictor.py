"""Fitted trees of the engine as predictors: one by one, stacked for scoring, and as arrays for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from bopl._archive import Packed
from bopl._typing import AnyArray, ContextMatrix, FloatArray, IntArray
from bopl.learner.expanded import dense_chunks
from bopl.learner.hist_tree.predict import FlatEnsemble, flatten
from bopl.learner.hist_tree.tree import (
    ACTION_SPLIT,
    LEAF_FEATURE,
    WORD_BITS,
    Tree,
    check_children,
    check_depth,
    check_finite,
    check_node_arrays,
    n_words,
    split_columns,
    without_overflow,
)

ROUNDED = 1.0 + 1e-6  # weights are stored as float32
MAX_WORDS = 1 << 28  # of action sets: 2 GiB


@dataclass(frozen=True, eq=False)
class HistTreePredictor:
    """One tree of the engine as a predictor."""

    kind: ClassVar[str] = "hist_tree"
    has_exact_rows: ClassVar[bool] = True
    zero_is_missing: ClassVar[bool] = False

    tree: Tree
    n_jobs: int = 1  # threads for scoring; the scores do not depend on it

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
        ensemble = flatten([self.tree], [1.0])
        return score_of(ensemble, context, zero_is_missing=self.zero_is_missing, n_jobs=self.n_jobs)

    def gain_by_column(self) -> AnyArray:
        """Return the gain of all splits by column of ``[x; onehot(a); features of a]``."""
        tree = self.tree
        split = tree.feature != LEAF_FEATURE
        return np.bincount(split_columns(tree)[split], weights=tree.gain[split], minlength=tree.n_columns)


@dataclass(frozen=True, eq=False)
class SparseTreePredictor(HistTreePredictor):
    """One tree for which zeros are missing values, as XGBoost grows it on a sparse context.

    What it asks of the action has been settled; here it is the context's zeros alone.
    """

    kind: ClassVar[str] = "sparse_tree"
    zero_is_missing: ClassVar[bool] = True


def score_of(ensemble: FlatEnsemble, context: ContextMatrix, *, zero_is_missing: bool, n_jobs: int) -> FloatArray:
    """Return the scores of trees, of which all or none take zeros for missing."""
    if not zero_is_missing:
        return ensemble.score(context, n_jobs=n_jobs)
    score = np.empty((context.shape[0], ensemble.n_actions))
    for rows, dense in dense_chunks(context):
        score[rows] = ensemble.score(zeros_as_missing(dense), n_jobs=n_jobs)
    return score


def zeros_as_missing(context: FloatArray) -> FloatArray:
    """Return contexts whose zeros are missing."""
    known: FloatArray = np.where(context == 0.0, np.float32(np.nan), context)
    return known


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


def pack_hist_trees(predictors: Sequence[HistTreePredictor]) -> Packed:
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
    """Return the trees of `pack_hist_trees`, checked so that no traversal leaves the arrays or runs in circles."""
    bounds = check_node_arrays(arrays, _STORED)
    n_actions, n_action_columns = by_action.shape
    nodes = {name: arrays[name] for name in _STORED}
    _check_splits(nodes, n_features, n_actions, n_action_columns - n_actions)
    nodes["right_actions"] = _action_sets(nodes, arrays["right_actions"], n_actions)
    # The file may come from anybody. Kernels do not check indices: whatever a traversal follows is checked here.
    is_split = nodes["feature"] != LEAF_FEATURE
    size = np.diff(bounds)
    own = np.arange(len(is_split)) - np.repeat(bounds[:-1], size)  # number of each node in its tree
    nodes["left"] = np.where(is_split, own + 1, -1).astype(np.int32)
    children = check_children(nodes["left"], nodes["right"], is_split, bounds)
    check_depth(children, is_split, bounds)
    nodes["gain"], nodes["sum_weight"] = (without_overflow(arrays, name) for name in ("gain", "sum_weight"))
    _check_weights(nodes["sum_weight"], children, np.flatnonzero(is_split))
    return [
        HistTreePredictor(
            Tree(
                **{name: array[start:end] for name, array in nodes.items()},
                n_actions=n_actions,
                n_features=n_features,
                n_action_features=n_action_columns - n_actions,
            )
        )
        for start, end in pairwise(bounds.tolist())
    ]


def unpack_sparse_trees(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[SparseTreePredictor]:
    """Return the trees of `pack_hist_trees` for which zeros are missing values."""
    trees = unpack_hist_trees(facts, arrays, n_features=n_features, by_action=by_action)
    return [SparseTreePredictor(one.tree) for one in trees]


def _check_splits(nodes: dict[str, AnyArray], n_features: int, n_actions: int, n_action_features: int) -> None:
    """Raise unless every split looks at something that exists, and every leaf is one, with a finite value."""
    feature, action, action_feature = nodes["feature"], nodes["action"], nodes["action_feature"]
    by_identity = (feature == ACTION_SPLIT) & (action_feature < 0)
    if (feature < ACTION_SPLIT).any() or (feature >= n_features).any():
        raise ValueError("a tree looks at a column that does not exist")
    if (action < -1).any() or (action >= n_actions).any() or (action[by_identity] < 0).any():
        raise ValueError("a tree looks at an action that does not exist")
    if (action_feature < -1).any() or (action_feature >= n_action_features).any():
        raise ValueError("a tree looks at a feature of actions that does not exist")
    if (nodes["right"][feature == LEAF_FEATURE] != -1).any():
        raise ValueError("a leaf of a tree has a child")
    threshold, is_equal = nodes["threshold"], nodes["is_equal"]
    if (np.isnan(threshold) & ~is_equal).any() or np.isinf(threshold[is_equal]).any():
        raise ValueError("a tree splits at a threshold that is not a number")
    check_finite(nodes, "value")


def _action_sets(nodes: dict[str, AnyArray], stored: AnyArray, n_actions: int) -> AnyArray:
    """Return the sets of actions that go right, of shape (n_nodes, n_words); stored are those of action splits."""
    on_action, width = nodes["feature"] == ACTION_SPLIT, n_words(n_actions)
    n_splits = int(np.count_nonzero(on_action))
    if stored.dtype != np.uint64 or stored.shape != (n_splits, width):
        raise ValueError("the trees' action sets do not match their splits on the action")
    if len(on_action) * width > MAX_WORDS:
        raise ValueError(f"{len(on_action):,} nodes for {n_actions:,} actions are more than bopl can hold")
    action, is_single = nodes["action"][on_action], nodes["action_feature"][on_action] < 0
    row, word = np.flatnonzero(is_single), action[is_single] // WORD_BITS
    single = np.uint64(1) << (action[is_single] % WORD_BITS).astype(np.uint64)
    if (stored[row, word] != single).any() or (np.count_nonzero(stored[row], axis=1) != 1).any():
        raise ValueError("a split by one action sends others right as well")
    right_actions = np.zeros((len(on_action), width), dtype=np.uint64)
    right_actions[on_action] = stored
    return right_actions


def _check_weights(sum_weight: AnyArray, children: tuple[IntArray, IntArray], split: IntArray) -> None:
    """Raise unless nodes weigh no less than their children: explanations divide one by the other."""
    if (sum_weight < 0.0).any() or any((sum_weight[child] > ROUNDED * sum_weight[split]).any() for child in children):
        raise ValueError("a node of a tree weighs less than its children")
