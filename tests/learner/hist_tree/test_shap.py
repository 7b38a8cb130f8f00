"""SHAP values add up to the score, and are those of the definition and of XGBoost."""

import json
from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl.learner.hist_tree import HistTree, HistTreeClassifier, flatten, to_xgboost
from bopl.learner.hist_tree.shap import explain_pairs, quadrature
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE
from hist_tree_naive import fit_tree, random_target


def make_trees(
    seed, *, n=300, n_actions=4, n_trees=3, depth=6, missing=0.1, features=None, learner=HistTree, mask=None
):
    rng = np.random.default_rng(seed)
    context = np.column_stack([rng.integers(0, 5, (n, 3)), rng.normal(size=n), rng.integers(0, 4, n)]).astype(
        np.float32
    )
    context[rng.random(context.shape) < missing] = np.nan
    trees = []
    for _ in range(n_trees):
        gradient, weight = random_target(rng, n, n_actions)
        tree_settings = learner(depth, min_child_weight=0.5, categorical=[4], n_jobs=1)
        trees.append(fit_tree(tree_settings, context, gradient, weight, mask=mask, features=features).predictor.tree)
    return context, trees


def column_of(tree, node):
    if tree.feature[node] != ACTION_SPLIT:
        return int(tree.feature[node])
    if tree.action_feature[node] < 0:
        return tree.n_features + int(tree.action[node])
    return tree.n_features + tree.n_actions + int(tree.action_feature[node])


def naive_output(tree, x, action, known, node=0):
    """Return the mean output of a tree if only some columns are known, by the definition."""
    if tree.feature[node] == LEAF_FEATURE:
        return tree.value[node]
    left, right = int(tree.left[node]), int(tree.right[node])
    if column_of(tree, node) not in known:
        share = tree.sum_weight[left] / tree.sum_weight[node]
        return share * naive_output(tree, x, action, known, left) + (1 - share) * naive_output(
            tree, x, action, known, right
        )
    if tree.feature[node] == ACTION_SPLIT:
        goes_right = bool(int(tree.right_actions[node, action // 64]) >> (action % 64) & 1)
    else:
        value, threshold = x[tree.feature[node]], tree.threshold[node]
        if tree.is_equal[node]:
            goes_right = value == threshold or (np.isnan(value) and np.isnan(threshold))
        else:
            goes_right = not tree.default_left[node] if np.isnan(value) else value >= threshold
    return naive_output(tree, x, action, known, right if goes_right else left)


def naive_shap(tree, x, action, n_columns):
    """Return Shapley values by running through all sets of columns that the tree looks at."""
    players = sorted({column_of(tree, node) for node in range(tree.n_nodes) if tree.feature[node] != LEAF_FEATURE})
    values = np.zeros(n_columns)
    for size in range(len(players)):
        weight = factorial(size) * factorial(len(players) - size - 1) / factorial(len(players))
        for player in players:
            for others in combinations([p for p in players if p != player], size):
                gain = naive_output(tree, x, action, {*others, player}) - naive_output(tree, x, action, set(others))
                values[player] += weight * gain
    return values


@settings(max_examples=15)
@given(st.integers(0, 2**20), st.booleans())
def test_shap_values_are_those_of_the_definition(seed, is_classifier):
    features = np.random.default_rng(seed).integers(0, 3, (4, 1)).astype(np.float32)
    learner = HistTreeClassifier if is_classifier else HistTree
    context, trees = make_trees(seed, n=60, n_trees=1, depth=5, features=features, learner=learner)
    action = np.random.default_rng(seed).permutation(4)[:2]
    contribution, expected = explain_pairs(trees, [1.0], context, np.arange(2), action)
    for k in range(2):
        np.testing.assert_allclose(contribution[k], naive_shap(trees[0], context[k], action[k], 10), atol=1e-12)
    assert expected == pytest.approx(naive_output(trees[0], context[0], 0, set()), abs=1e-12)


@pytest.mark.parametrize("n_actions", [2, 5, 70])
def test_contributions_and_expected_score_add_up_to_the_score(n_actions):
    context, trees = make_trees(1, n=400, n_actions=n_actions, depth=12)
    coefficient = [0.5, -1.5, 2.0]
    row, action = np.divmod(np.arange(100 * n_actions)[:: max(n_actions // 5, 1)], n_actions)
    contribution, expected = explain_pairs(trees, coefficient, context, row, action)
    score = flatten(trees, coefficient).score(context)[row, action]
    np.testing.assert_allclose(contribution.sum(axis=1) + expected, score, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("has_features", [False, True])
def test_shap_values_are_those_of_xgboost(tmp_path, has_features):
    features = np.random.default_rng(3).integers(0, 3, (4, 2)).astype(np.float32) if has_features else None
    context, trees = make_trees(2, features=features)
    coefficient = [1.0, 0.25, 2.0]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(to_xgboost(trees, coefficient, n_action_features=2 if has_features else 0)))
    row, action = np.divmod(np.arange(4 * len(context)), 4)
    blocks = [context[row], np.eye(4, dtype=np.float32)[action]] + ([features[action]] if has_features else [])
    theirs = xgb.Booster(model_file=str(path)).predict(xgb.DMatrix(np.hstack(blocks)), pred_contribs=True)
    contribution, expected = explain_pairs(trees, coefficient, context, row, action)
    scale = np.abs(contribution).max()
    np.testing.assert_allclose(contribution, theirs[:, :-1], atol=2e-5 * scale)
    np.testing.assert_allclose(expected, theirs[:, -1], atol=2e-5 * scale)


def test_threads_do_not_change_the_values():
    context, trees = make_trees(4)
    row, action = np.arange(200), np.arange(200) % 4
    alone, _ = explain_pairs(trees, [1.0, 1.0, 1.0], context, row, action)
    together, _ = explain_pairs(trees, [1.0, 1.0, 1.0], context, row, action, n_jobs=2)
    assert np.array_equal(alone, together)


def test_sides_without_any_weight_do_no_harm():
    context, trees = make_trees(5, n_trees=1)
    tree = trees[0]
    child = int(tree.left[tree.left[0]]) if tree.left[tree.left[0]] >= 0 else int(tree.left[0])
    inside = range(child, int(tree.right[0]))
    empty = tree.sum_weight.copy()
    empty[list(inside)] = 0.0
    starved = replace(tree, sum_weight=empty)
    row, action = np.divmod(np.arange(4 * len(context)), 4)
    contribution, expected = explain_pairs([starved], [1.0], context, row, action)
    score = flatten([starved], [1.0]).score(context)[row, action]
    assert np.isfinite(contribution).all()
    np.testing.assert_allclose(contribution.sum(axis=1) + expected, score, atol=1e-10)


@pytest.mark.parametrize("n_columns", [1, 2, 7, 30])
def test_quadrature_is_exact_below_the_degree_promised(n_columns):
    point, weight = quadrature(n_columns)
    for degree in range(n_columns):
        assert (weight * point**degree).sum() == pytest.approx(1.0 / (degree + 1), rel=1e-12)
