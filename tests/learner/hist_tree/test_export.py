"""The exported XGBoost model scores as the trees do."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost as xgb

from bopl.learner.hist_tree import HistTree, to_xgboost
from hist_tree_naive import fit_tree, random_target


def score_with_xgboost(path, context, n_actions, features=None):
    n = len(context)
    blocks = [np.repeat(context, n_actions, axis=0), np.tile(np.eye(n_actions, dtype=np.float32), (n, 1))]
    if features is not None:
        blocks.append(np.tile(features, (n, 1)))
    booster = xgb.Booster(model_file=str(path))
    return booster.predict(xgb.DMatrix(np.hstack(blocks)), output_margin=True).reshape(n, n_actions)


@pytest.mark.parametrize("missing", [0.0, 0.1])  # XGBoost predicts dense rows without missing values by other code
@pytest.mark.parametrize("has_features", [False, True])
def test_xgboost_scores_the_exported_model_as_the_trees_do(tmp_path, has_features, missing):
    rng = np.random.default_rng(5)
    n, n_actions = 600, 4
    indicators = np.eye(5, dtype=np.float32)[rng.integers(0, 5, n)]  # bundled by the engine
    numbers = rng.integers(0, 40, (n, 3)).astype(np.float32)
    numbers[rng.random(numbers.shape) < missing] = np.nan
    category = rng.integers(0, 6, n).astype(np.float32)
    category[rng.random(n) < missing] = np.nan
    context = np.column_stack([numbers, indicators, category])
    features = rng.integers(0, 3, (n_actions, 2)).astype(np.float32) if has_features else None
    trees, step = [], np.zeros((n, n_actions))
    for round_idx in range(3):
        gradient, weight = random_target(rng, n, n_actions)
        learner = HistTree(7, min_child_weight=3.0, categorical=[8], n_jobs=1)
        fitted = fit_tree(learner, context, gradient, weight, features=features)
        trees.append(fitted.predictor.tree)
        step += (round_idx + 0.5) * fitted.prediction
    assert any(tree.is_equal.any() for tree in trees)
    model = to_xgboost(trees, [0.5, 1.5, 2.5], n_action_features=2 if has_features else 0)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    theirs = score_with_xgboost(path, context, n_actions, features)
    np.testing.assert_allclose(theirs, step, rtol=1e-5, atol=1e-5)
