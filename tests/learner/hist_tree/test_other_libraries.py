"""The same trees as XGBoost and scikit-learn under matched settings, split by split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from bopl.learner.hist_tree import HistTree, HistTreeClassifier
from bopl.learner.hist_tree.binning import fit_columns
from hist_tree_naive import HEAVY_ROUNDING, ROUNDING, expand, fit_tree, random_mask, random_target
from tree_identity import compare_trees, expanded_matrix, fit_xgboost, from_sklearn


def make_context(rng, n, d, n_values, missing=0.0):
    context = rng.integers(0, n_values, (n, d)).astype(np.float32)
    context[rng.random((n, d)) < missing] = np.nan
    return context


def compare_with_xgboost(
    learner, method, context, gradient, weight, mask=None, features=None, cuts=(), rounding=ROUNDING
):
    tree = fit_tree(learner, context, gradient, weight, mask, features).predictor.tree
    theirs = fit_xgboost(context, gradient, weight, learner, method=method, mask=mask, features=features)
    pairs = expand(context, gradient, weight, mask, features, cuts=cuts)
    return compare_trees(tree, theirs, pairs, learner, rounding=rounding)


def compare_with_sklearn(learner, context, gradient, weight, mask=None, features=None, rounding=ROUNDING):
    tree = fit_tree(learner, context, gradient, weight, mask, features).predictor.tree
    pairs = expand(context, gradient, weight, mask, features, is_classifier=True)
    weighted = pairs.weight > 0
    theirs = DecisionTreeClassifier(
        max_depth=learner.max_depth, min_samples_leaf=learner.min_samples_leaf, random_state=0
    )
    label, sample_weight = np.sign(pairs.gradient[weighted]), pairs.weight[weighted]
    theirs.fit(expanded_matrix(pairs)[weighted], label, sample_weight=sample_weight)
    return compare_trees(tree, from_sklearn(theirs), pairs, learner, rounding=rounding)


@pytest.mark.parametrize("method", ["hist", "exact"])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("max_depth", "min_child_weight", "reg_lambda"), [(6, 3.0, 0.0), (10, 20.0, 1.0)])
def test_regression_tree_is_xgboosts_where_there_are_no_ties(method, missing, max_depth, min_child_weight, reg_lambda):
    rng = np.random.default_rng(7)
    context = make_context(rng, 1500, 5, 200, missing)
    gradient, weight = random_target(rng, 1500, 4)
    gradient += 0.5 * np.outer(np.nan_to_num(context[:, 0]) > 60, [1.0, -1.0, 0.0, 0.0])
    learner = HistTree(max_depth, min_child_weight=min_child_weight, reg_lambda=reg_lambda, n_jobs=1)
    found = compare_with_xgboost(learner, method, context, gradient, weight)
    assert not found.ties
    assert found.n_same > 100


def test_regression_tree_is_xgboosts_on_columns_with_more_values_than_bins():
    rng = np.random.default_rng(3)
    context = rng.normal(size=(1500, 4)).astype(np.float32)
    gradient, weight = random_target(rng, 1500, 3)
    learner = HistTree(8, min_child_weight=4.0, n_jobs=1)
    cuts = [column.edges for column in fit_columns(context, 256, np.zeros(4, bool), n_actions=3)]
    found = compare_with_xgboost(learner, "hist", context, gradient, weight, cuts=cuts)
    assert not found.ties
    assert found.n_same > 100


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 80),
    d=st.integers(1, 4),
    n_actions=st.integers(2, 5),
    n_values=st.integers(1, 40),
    missing=st.sampled_from([0.0, 0.2]),
    has_mask=st.booleans(),
    n_action_features=st.integers(0, 2),
    kind=st.sampled_from(["continuous", "tied", "heavy"]),
    method=st.sampled_from(["hist", "exact"]),
    min_child_weight=st.sampled_from([0.0, 1.0, 4.0]),
    reg_lambda=st.sampled_from([0.0, 1.0]),
    max_depth=st.integers(1, 7),
)
def test_regression_tree_is_xgboosts_but_for_ties(
    seed, n, d, n_actions, n_values, missing, has_mask, n_action_features, kind, method, min_child_weight, reg_lambda,
    max_depth,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    context = make_context(rng, n, d, n_values, missing)
    gradient, weight = random_target(rng, n, n_actions, kind)
    mask = random_mask(rng, n, n_actions) if has_mask else None
    gradient = gradient if mask is None else gradient * mask
    features = rng.integers(0, 3, (n_actions, n_action_features)).astype(np.float32) if n_action_features else None
    learner = HistTree(max_depth, min_child_weight=min_child_weight, reg_lambda=reg_lambda, n_jobs=1)
    rounding = HEAVY_ROUNDING if kind == "heavy" else ROUNDING
    found = compare_with_xgboost(learner, method, context, gradient, weight, mask, features, rounding=rounding)
    assert found.n_same + len(found.ties) > 0  # nothing differs but for ties, and the trees were walked


def test_classifier_is_scikit_learns_gini_tree_where_there_are_no_ties():
    rng = np.random.default_rng(11)
    context = make_context(rng, 1200, 4, 100)
    gradient, weight = random_target(rng, 1200, 3)
    gradient += 0.5 * np.outer(context[:, 1] > 50, [1.0, -1.0, 0.0])
    learner = HistTreeClassifier(6, min_child_weight=0.0, n_jobs=1)
    found = compare_with_sklearn(learner, context, gradient, weight)
    assert not found.ties
    assert found.n_same > 60


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 80),
    d=st.integers(1, 4),
    n_actions=st.integers(2, 5),
    n_values=st.integers(1, 40),
    missing=st.sampled_from([0.0, 0.2]),
    has_mask=st.booleans(),
    n_action_features=st.integers(0, 2),
    kind=st.sampled_from(["continuous", "tied", "heavy"]),
    min_samples_leaf=st.sampled_from([1, 2, 9]),
    max_depth=st.integers(1, 7),
)
def test_classifier_is_scikit_learns_gini_tree_but_for_ties(
    seed, n, d, n_actions, n_values, missing, has_mask, n_action_features, kind, min_samples_leaf, max_depth
):
    rng = np.random.default_rng(seed)
    context = make_context(rng, n, d, n_values, missing)
    gradient, weight = random_target(rng, n, n_actions, kind)
    mask = random_mask(rng, n, n_actions) if has_mask else None
    gradient = gradient if mask is None else gradient * mask
    assume(gradient.any())
    features = rng.integers(0, 3, (n_actions, n_action_features)).astype(np.float32) if n_action_features else None
    if kind == "tied":
        min_samples_leaf = 1  # scikit-learn does not get the pairs without a gradient, so it cannot count them
    learner = HistTreeClassifier(max_depth, min_child_weight=0.0, min_samples_leaf=min_samples_leaf, n_jobs=1)
    rounding = HEAVY_ROUNDING if kind == "heavy" else ROUNDING
    found = compare_with_sklearn(learner, context, gradient, weight, mask, features, rounding=rounding)
    assert found.n_same + len(found.ties) > 0  # nothing differs but for ties, and the trees were walked


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_a_few_enormous_weights_leave_the_tree_xgboosts(method):
    rng = np.random.default_rng(5)
    context = make_context(rng, 1000, 4, 150)
    gradient, weight = random_target(rng, 1000, 3)
    context[:4] = 1000.0  # one split sends them away
    gradient[:4] *= 2.0**20
    weight[:4] *= 2.0**20
    learner = HistTree(9, min_child_weight=5.0, n_jobs=1)
    found = compare_with_xgboost(learner, method, context, gradient, weight)
    # XGBoost's float32 scores of a node that holds them cannot see what a split of the others gains.
    assert all((tie.rows // 3 < 4).any() for tie in found.ties), found.ties
    assert found.n_same > 200


def test_the_walk_refuses_a_tree_that_is_not_the_same():
    rng = np.random.default_rng(0)
    context = make_context(rng, 300, 3, 50)
    gradient, weight = random_target(rng, 300, 3)
    learner = HistTree(5, min_child_weight=1.0, n_jobs=1)
    tree = fit_tree(learner, context, gradient, weight).predictor.tree
    pairs = expand(context, gradient, weight)
    theirs = fit_xgboost(context, gradient, weight, learner, method="exact")
    assert compare_trees(tree, theirs, pairs, learner).n_same == tree.n_nodes
    another = fit_xgboost(context, gradient + 0.01 * rng.normal(size=gradient.shape), weight, learner, method="exact")
    with pytest.raises(AssertionError):
        compare_trees(tree, another, pairs, learner)
