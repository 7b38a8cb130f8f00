"""`XGBTree`: one XGBoost regression tree per round, the paper's -regr base learner."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bopl._machine import import_extra
from bopl._settings import check_choice, check_jobs, check_number
from bopl._typing import BoolArray, FloatArray
from bopl.learner.base import FittedStep, Predictor, pair_weight
from bopl.learner.expanded import action_columns, expand
from bopl.learner.expanded_tree import LEAF_COLUMN, ExpandedTree, predictor_from
from bopl.log import BanditLog
from bopl.log.cleaning import MAX_FLOAT32
from bopl.log.context import is_sparse
from bopl.objective import StepTarget


class XGBTree(BaseEstimator):
    """One XGBoost tree per round on the expanded matrix, which is built once and kept.

    The tree minimises the weighted squared error of Algorithm 3: its leaves are ``ΣG / (Σw + reg_lambda)``.

    Parameters
    ----------
    tree_method : {"exact", "hist"}, default="hist"
        ``"exact"`` tries every split and is what the paper used; ``"hist"`` tries ``max_bins`` per column.
    max_depth : int, default=8
        Maximum depth of a tree.
    min_child_weight : float, default=1
        Minimum sum of weights ``|r|/p`` on each side of a split.
    reg_lambda : float, default=0
        Ridge penalty on leaf values.
    max_bins : int, default=256
        For ``"hist"``.
    n_jobs : int, optional
        Threads; by default all.

    Notes
    -----
    On a sparse context XGBoost takes absent entries for missing values; the fitted trees do the same, also when they
    later score a dense context.
    """

    def __init__(
        self,
        tree_method: str = "hist",
        max_depth: int = 8,
        min_child_weight: float = 1.0,
        reg_lambda: float = 0.0,
        max_bins: int = 256,
        n_jobs: int | None = None,
    ) -> None:
        self.tree_method = tree_method
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.max_bins = max_bins
        self.n_jobs = n_jobs

    def bind(self, log: BanditLog, *, seed: int) -> BoundXGBTree:
        """Build the data matrix of the expanded contexts; the seed is unused, the trees are not random."""
        params = self._booster_params()
        xgboost = import_extra("xgboost", "XGBTree needs XGBoost", "xgboost")
        by_action = action_columns(log.n_actions, log.action_features)
        expanded, threads = expand(log.context, by_action), params.get("nthread", -1)
        if self.tree_method == "hist":  # keeps bins instead of values
            labels = np.zeros(expanded.shape[0], dtype=np.float32)
            matrix: Any = xgboost.QuantileDMatrix(expanded, labels, nthread=threads, max_bin=int(self.max_bins))
        else:
            matrix = xgboost.DMatrix(expanded, nthread=threads)
        zero_is_missing = is_sparse(log.context)
        return BoundXGBTree(params, matrix, log.n_features, by_action, log.action_mask, zero_is_missing)

    def _booster_params(self) -> dict[str, Any]:
        check_choice("tree_method", self.tree_method, ("exact", "hist"))
        check_number("max_depth", self.max_depth, low=1, high=64, integer=True)
        check_number("min_child_weight", self.min_child_weight, low=0.0, high=MAX_FLOAT32)
        check_number("reg_lambda", self.reg_lambda, low=0.0, high=MAX_FLOAT32)
        check_number("max_bins", self.max_bins, low=2, high=65536, integer=True)
        params: dict[str, Any] = {
            "tree_method": self.tree_method,
            "max_depth": int(self.max_depth),
            "min_child_weight": float(self.min_child_weight),
            "reg_lambda": float(self.reg_lambda),
            "learning_rate": 1.0,
            "base_score": 0.0,
        }
        if self.tree_method == "hist":
            params["max_bin"] = int(self.max_bins)
        check_jobs(self.n_jobs)
        if self.n_jobs is not None:
            params["nthread"] = int(self.n_jobs)
        return params


@dataclass(eq=False)
class BoundXGBTree:
    """`XGBTree` with its data matrix.

    One booster grows all trees, because a new one would allocate its histograms again each round (gigabytes, for deep
    trees on many columns); a tree does not depend on those before it, since gradients are passed in.
    """

    row_order = None

    params: dict[str, Any]
    matrix: Any
    n_features: int
    by_action: FloatArray
    action_mask: BoolArray | None
    zero_is_missing: bool
    n_trees: int = 0

    def __post_init__(self) -> None:
        import xgboost

        self.booster = xgboost.Booster(self.params, [self.matrix])

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Fit one tree and make one of the engine's of it."""
        prediction = self.boost(target)
        newest = self.booster[self.n_trees - 1 : self.n_trees]
        tree = tree_from_booster(newest, self.n_features, self.by_action, zero_is_missing=self.zero_is_missing)
        return FittedStep(tree, prediction)

    def boost(self, target: StepTarget) -> FloatArray:
        """Grow one tree and return its prediction on the training contexts: XGBoost's own part of a fit.

        Gradients go in directly: labels ``G/w`` with weights w have gradient -G and hessian w at 0.
        """
        # (G/w - f)²·w has gradient -G + w·f: at f = 0, which base_score sets, -G. So no label is divided by a weight of
        # 0.
        hessian = pair_weight(target, self.action_mask).ravel()
        self.booster.boost(self.matrix, self.n_trees, grad=-target.gradient.ravel(), hess=hessian)
        newest = (self.n_trees, self.n_trees + 1)
        prediction = self.booster.predict(self.matrix, output_margin=True, iteration_range=newest)
        self.n_trees += 1
        return np.asarray(prediction, dtype=np.float64).reshape(-1, len(self.by_action))


def tree_from_booster(booster: Any, n_features: int, by_action: FloatArray, *, zero_is_missing: bool) -> Predictor:
    """Return the only tree of a booster as one of the engine's, pruned nodes left out."""
    model = json.loads(booster.save_raw("json"))
    nodes = model["learner"]["gradient_booster"]["model"]["trees"][0]
    left, condition = np.array(nodes["left_children"]), np.array(nodes["split_conditions"], np.float32)
    is_leaf = left == -1
    tree = ExpandedTree(
        column=np.where(is_leaf, LEAF_COLUMN, np.array(nodes["split_indices"])),
        threshold=condition,  # of a leaf: its value
        left=left,
        right=np.array(nodes["right_children"]),
        default_left=np.array(nodes["default_left"], np.bool_),
        value=condition.astype(np.float64),
        gain=np.array(nodes["loss_changes"], np.float64),
        weight=np.array(nodes["sum_hessian"], np.float64),
    )
    return predictor_from(tree, n_features, by_action, zero_is_missing=zero_is_missing)
