"""Settings, refusals, draws and prediction of the learner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from bopl.learner.hist_tree import HistTree, HistTreeClassifier
from bopl.learner.hist_tree.predictor import stack_trees
from hist_tree_naive import check_tree, expand, fit_tree, make_log, random_mask, random_target


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    context = rng.integers(0, 50, (400, 4)).astype(np.float32)
    return (context, *random_target(rng, 400, 3))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_depth", 0, r"max_depth must lie in \[1, 1000\]; got 0"),
        ("max_bins", 257, r"max_bins must lie in \[2, 256\]; got 257"),
        ("max_leaves", 1, "max_leaves must be at least 2; got 1"),
        ("min_samples_leaf", 0, "min_samples_leaf must be at least 1; got 0"),
        ("min_child_weight", -1.0, "min_child_weight must be at least 0; got -1.0"),
        ("reg_lambda", float("nan"), "reg_lambda must be at least 0; got nan"),
        ("colsample", 0.0, r"colsample must lie in \(0, 1\]; got 0.0"),
        ("subsample", 1.5, r"subsample must lie in \(0, 1\]; got 1.5"),
        ("n_jobs", 0, "n_jobs must be at least 1; got 0"),
        ("categorical", [9], "categorical names column 9; the contexts have columns 0 to 3"),
    ],
)
def test_a_bad_setting_is_refused_by_name_value_and_range(data, name, value, message):
    with pytest.raises(ValueError, match=message):
        fit_tree(HistTree(**{name: value}), *data)


def test_a_setting_of_the_wrong_type_is_refused(data):
    with pytest.raises(TypeError, match="max_depth must be an integer; got '3'"):
        fit_tree(HistTree("3"), *data)


def test_a_context_with_other_columns_is_refused(data):
    predictor = fit_tree(HistTree(), *data).predictor
    with pytest.raises(ValueError, match="context has 5 columns; the trees were fitted on 4"):
        predictor.predict(np.zeros((2, 5), np.float32))


def test_settings_survive_clone():
    learner = HistTreeClassifier(5, min_child_weight=3.0, categorical=[1])
    assert clone(learner).get_params() == learner.get_params()


def test_max_leaves_keeps_the_splits_of_largest_gain_first(data):
    full = fit_tree(HistTree(6, n_jobs=1), *data).predictor.tree
    small = fit_tree(HistTree(6, max_leaves=5, n_jobs=1), *data)
    assert small.predictor.tree.n_leaves == 5
    assert full.n_leaves > 5
    inner = small.predictor.tree.gain[small.predictor.tree.left >= 0]
    assert inner.sum() <= full.gain.sum()
    np.testing.assert_array_equal(small.predictor.predict(data[0]), small.prediction)


@pytest.mark.parametrize("min_samples_leaf", [2, 25])
def test_every_leaf_holds_enough_pairs(data, min_samples_leaf):
    learner = HistTree(8, min_child_weight=0.0, min_samples_leaf=min_samples_leaf, n_jobs=1)
    tree = fit_tree(learner, *data).predictor.tree
    check_tree(tree, expand(*data), learner)


def test_draws_depend_on_seed_and_round_only(data):
    learner = HistTree(5, subsample=0.5, colsample=0.5, n_jobs=1)
    first = fit_tree(learner, *data, round_idx=1, seed=4)
    again = fit_tree(learner, *data, round_idx=1, seed=4)
    assert first.predictor.tree.to_bytes() == again.predictor.tree.to_bytes()
    other_round = fit_tree(learner, *data, round_idx=2, seed=4)
    other_seed = fit_tree(learner, *data, round_idx=1, seed=5)
    assert first.predictor.tree.to_bytes() != other_round.predictor.tree.to_bytes()
    assert first.predictor.tree.to_bytes() != other_seed.predictor.tree.to_bytes()


def test_an_ensemble_scores_as_the_sum_of_its_trees(data):
    context, gradient, weight = data
    rng = np.random.default_rng(8)
    coefficient = rng.normal(size=4)
    predictors = [
        fit_tree(HistTree(5, n_jobs=1), context, gradient + rng.normal(size=gradient.shape), weight).predictor
        for _ in coefficient
    ]
    expected = sum(c * p.predict(context) for c, p in zip(coefficient, predictors, strict=True))
    ensemble = stack_trees(predictors, coefficient)
    np.testing.assert_allclose(ensemble.score(context), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ensemble.score(context, n_jobs=3), ensemble.score(context))
    np.testing.assert_array_equal(ensemble.score(sparse.csr_matrix(context)), ensemble.score(context))


def test_more_than_64_actions_are_scored():
    rng = np.random.default_rng(9)
    context = rng.integers(0, 20, (300, 2)).astype(np.float32)
    gradient, weight = random_target(rng, 300, 130)
    fitted = fit_tree(HistTree(12, min_child_weight=5.0, n_jobs=2), context, gradient, weight)
    np.testing.assert_array_equal(fitted.predictor.predict(context), fitted.prediction)


def test_a_bound_learner_bins_once_and_fits_many_rounds(data):
    context, gradient, weight = data
    bound = HistTree(4, n_jobs=2).bind(make_log(context, 3), seed=0)
    from bopl.objective.protocol import StepTarget

    trees = [bound.fit(StepTarget(gradient, weight), r).predictor.tree.to_bytes() for r in range(3)]
    assert trees[0] == trees[1] == trees[2]


def make_action_problem(rng, n, effect):
    """Return contexts that say nothing, and gradients of a constant for each action beside a little noise."""
    gradient = np.asarray(effect) + 0.01 * rng.normal(size=(n, len(effect)))
    return rng.integers(0, 3, (n, 1)).astype(np.float32), gradient, np.ones(n)


def test_an_action_with_too_few_pairs_does_not_hide_the_next_best():
    context, gradient, weight = make_action_problem(np.random.default_rng(0), 40, [-30.0, 3.0, 0.0, 0.0])
    mask = np.ones((40, 4), bool)
    mask[4:, 0] = False  # the largest gain is that of an action with four pairs
    learner = HistTree(1, min_child_weight=0.0, min_samples_leaf=10, n_jobs=1)
    tree = fit_tree(learner, context, gradient * mask, weight, mask).predictor.tree
    assert tree.action[0] == 1


def test_actions_with_too_few_pairs_each_are_split_together_by_a_feature():
    context, gradient, weight = make_action_problem(np.random.default_rng(0), 8, [9.0, 0.0, -4.5, -4.5])
    features = np.array([[0.0], [0.0], [1.0], [1.0]], np.float32)
    learner = HistTree(1, min_child_weight=0.0, min_samples_leaf=12, n_jobs=1)
    tree = fit_tree(learner, context, gradient, weight, features=features).predictor.tree
    assert tree.action_feature[0] == 0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    n_actions=st.integers(2, 6),
    has_mask=st.booleans(),
    n_action_features=st.integers(0, 2),
    min_samples_leaf=st.integers(2, 30),
    learner_type=st.sampled_from([HistTree, HistTreeClassifier]),
)
def test_every_split_is_a_best_one_of_those_with_enough_pairs(
    seed, n, n_actions, has_mask, n_action_features, min_samples_leaf, learner_type
):
    rng = np.random.default_rng(seed)
    context = rng.integers(0, 8, (n, 2)).astype(np.float32)
    gradient, weight = random_target(rng, n, n_actions)
    mask = random_mask(rng, n, n_actions) if has_mask else None
    gradient = gradient if mask is None else gradient * mask
    features = rng.integers(0, 3, (n_actions, n_action_features)).astype(np.float32) if n_action_features else None
    learner = learner_type(6, min_child_weight=0.0, min_samples_leaf=min_samples_leaf, n_jobs=1)
    tree = fit_tree(learner, context, gradient, weight, mask, features).predictor.tree
    is_classifier = learner_type is HistTreeClassifier
    check_tree(tree, expand(context, gradient, weight, mask, features, is_classifier=is_classifier), learner)
