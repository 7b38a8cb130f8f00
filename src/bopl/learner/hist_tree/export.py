"""``to_xgboost``: the ensemble as a standard XGBoost JSON model over ``[x; onehot(a); action_features(a)]``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.storage import TOP_THRESHOLD
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, Tree, split_columns

XGBOOST_VERSION = [3, 0, 0]  # the format written; later versions read it
ROOT_PARENT = 2147483647
IDENTITY_THRESHOLD = 0.5  # between the 0 and 1 of the one-hot columns
CATEGORICAL, NUMERICAL = 1, 0


def to_xgboost(trees: list[Tree], coefficient: Any, *, n_action_features: int = 0) -> dict[str, Any]:
    """Return a model that scores row ``[x; onehot(a); action_features(a)]`` as the ensemble scores ``(x, a)``.

    Parameters
    ----------
    trees : list of Tree
    coefficient : array-like of shape (n_trees,)
        Multiplied into the leaf values.
    n_action_features : int
        Columns of the action features, which follow the one-hot columns.

    Returns
    -------
    dict
        Written with ``json.dump`` to a ``.json`` file, this is a model that ``xgboost.Booster(model_file=...)`` loads.
        Leaf values are float32 there, so scores agree to that precision. Absent entries of a sparse row must be stored
        as zeros: XGBoost reads absent as missing.
    """
    first = trees[0]
    n_columns = first.n_features + first.n_actions + n_action_features
    # Coefficients go into the leaves: XGBoost's learning rate is the same for all trees, and ours are not.
    entries = [
        _tree_json(tree, float(c), idx, n_columns) for idx, (tree, c) in enumerate(zip(trees, coefficient, strict=True))
    ]
    return {"learner": _learner_json(entries, n_columns), "version": XGBOOST_VERSION}


def _learner_json(entries: list[dict[str, Any]], n_columns: int) -> dict[str, Any]:
    n_trees = len(entries)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n_trees)},
        "iteration_indptr": list(range(n_trees + 1)),
        "tree_info": [0] * n_trees,
        "trees": entries,
    }
    return {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(n_columns),
            "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }


def _in_pairs(tree: Tree) -> Tree:
    """Return the tree renumbered breadth first: XGBoost finds a right child one after the left one."""
    # XGBoost's dense predictor reads the right child at left + 1, whatever right_children says.
    order = [0]
    for node in order:  # grows while it is read
        if tree.left[node] >= 0:
            order += [int(tree.left[node]), int(tree.right[node])]
    new_id = np.empty(tree.n_nodes, np.int32)
    new_id[order] = np.arange(tree.n_nodes)
    arrays = {
        f.name: getattr(tree, f.name)[order]
        for f in fields(tree)
        if f.name not in ("n_actions", "n_features", "n_action_features")
    }
    for child in ("left", "right"):
        arrays[child] = np.where(arrays[child] >= 0, new_id[arrays[child]], -1).astype(np.int32)
    return replace(tree, **arrays)


def _tree_json(tree: Tree, coefficient: float, idx: int, n_columns: int) -> dict[str, Any]:
    """Return one tree in XGBoost's arrays; a leaf's value stands in its split condition."""
    tree = _in_pairs(tree)
    is_leaf = tree.feature == LEAF_FEATURE
    column = split_columns(tree)
    by_identity = (tree.feature == ACTION_SPLIT) & (tree.action_feature < 0)
    threshold = np.where(by_identity, np.float32(IDENTITY_THRESHOLD), tree.threshold).astype(np.float32)
    parent = np.full(tree.n_nodes, ROOT_PARENT, np.int64)
    inner = np.flatnonzero(~is_leaf)
    parent[tree.left[inner]] = inner
    parent[tree.right[inner]] = inner
    value = (coefficient * tree.value).astype(np.float32)
    # "Missing against the rest" is a numerical split that every present value passes to the left.
    splits_missing = tree.is_equal & np.isnan(tree.threshold)
    is_category = tree.is_equal & ~splits_missing
    threshold = np.where(splits_missing, TOP_THRESHOLD, np.where(is_category, 0, threshold))
    return {
        "base_weights": [float(v) for v in np.where(is_leaf, value, 0)],
        **_categories(tree, np.flatnonzero(is_category)),
        "default_left": [int(v) for v in tree.default_left | is_category],
        "id": idx,
        "left_children": [int(v) for v in tree.left],
        "loss_changes": [float(np.float32(v)) for v in tree.gain],
        "parents": [int(v) for v in parent],
        "right_children": [int(v) for v in tree.right],
        "split_conditions": [float(v) for v in np.where(is_leaf, value, threshold)],
        "split_indices": [int(v) for v in np.where(is_leaf, 0, column)],
        "split_type": [CATEGORICAL if v else NUMERICAL for v in is_category],
        "sum_hessian": [float(np.float32(v)) for v in tree.sum_weight],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_columns),
            "num_nodes": str(tree.n_nodes),
            "size_leaf_vector": "1",
        },
    }


def _categories(tree: Tree, nodes: NDArray[np.intp]) -> dict[str, list[int]]:
    """Return XGBoost's lists of the categories that go right, one a split."""
    for node in nodes:
        threshold = float(tree.threshold[node])
        if threshold < 0 or threshold != int(threshold):
            raise ValueError(
                f"XGBoost's categories are the integers from 0; column {int(tree.feature[node])} is split at category "
                f"{threshold:g}. Encode the column with such integers before fitting."
            )
    return {
        "categories": [int(tree.threshold[node]) for node in nodes],
        "categories_nodes": [int(node) for node in nodes],
        "categories_segments": list(range(len(nodes))),
        "categories_sizes": [1] * len(nodes),
    }
