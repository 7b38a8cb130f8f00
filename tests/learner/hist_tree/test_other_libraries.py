"""The same trees as XGBoost and scikit-learn under matched settings."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb
from sklearn.tree import DecisionTreeClassifier

from bopl.learner.hist_tree import HistTree, HistTreeClassifier
from hist_tree_naive import fit_tree, random_target


def expanded(context, n_actions):
    n = len(context)
    return np.hstack([np.repeat(context, n_actions, axis=0), np.tile(np.eye(n_actions, dtype=np.float32), (n, 1))])


def xgboost_step(context, gradient, weight, method, *, max_depth, min_child_weight, reg_lambda):
    n, n_actions = gradient.shape
    matrix = xgb.DMatrix(expanded(context, n_actions), np.zeros(n * n_actions))
    params = {
        "tree_method": method, "max_depth": max_depth, "min_child_weight": min_child_weight, "reg_lambda": reg_lambda,
        "eta": 1.0, "base_score": 0.0, "max_bin": 256, "nthread": 1,
    }  # fmt: skip
    booster = xgb.Booster(params, [matrix])
    booster.boost(matrix, 0, grad=-gradient.ravel(), hess=np.repeat(weight, n_actions))
    return booster.predict(matrix, output_margin=True).reshape(n, n_actions)


@pytest.mark.parametrize("method", ["hist", "exact"])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("max_depth", "min_child_weight", "reg_lambda"), [(6, 3.0, 0.0), (10, 20.0, 1.0)])
def test_regression_tree_equals_xgboost(method, missing, max_depth, min_child_weight, reg_lambda):
    rng = np.random.default_rng(7)
    n, n_actions = 1500, 4
    context = rng.integers(0, 200, (n, 5)).astype(np.float32)
    context[rng.random(context.shape) < missing] = np.nan
    gradient, weight = random_target(rng, n, n_actions)
    gradient += 0.5 * np.outer(np.nan_to_num(context[:, 0]) > 60, [1.0, -1.0, 0.0, 0.0])
    learner = HistTree(max_depth, min_child_weight=min_child_weight, reg_lambda=reg_lambda, n_jobs=1)
    step = fit_tree(learner, context, gradient, weight).prediction
    settings = {"max_depth": max_depth, "min_child_weight": min_child_weight, "reg_lambda": reg_lambda}
    theirs = xgboost_step(context, gradient, weight, method, **settings)
    # Continuous gradients have no exact ties, but candidates that move a single light row can gain the same to float32.
    assert np.mean(np.abs(step - theirs) > 1e-5 * (1 + np.abs(theirs))) < 0.01


def test_classifier_equals_scikit_learns_gini_tree():
    rng = np.random.default_rng(11)
    n, n_actions = 1200, 3
    context = rng.integers(0, 100, (n, 4)).astype(np.float32)
    gradient, weight = random_target(rng, n, n_actions)
    gradient += 0.4 * np.outer(context[:, 1] > 50, [1.0, -1.0, 0.0])
    step = fit_tree(HistTreeClassifier(5, min_child_weight=0.0, n_jobs=1), context, gradient, weight).prediction
    theirs = DecisionTreeClassifier(max_depth=5, random_state=0)
    pairs, label = expanded(context, n_actions), np.sign(gradient.ravel())
    theirs.fit(pairs, label, sample_weight=np.abs(gradient.ravel()))
    assert np.mean(step.ravel() != theirs.predict(pairs)) < 0.005
