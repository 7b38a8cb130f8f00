"""Whole trees against the plain-loop twin."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from bopl.learner.hist_tree import HistTree, HistTreeClassifier, locality
from hist_tree_naive import HEAVY_ROUNDING, check_tree, expand, fit_tree, random_mask, random_target


def make_context(rng, n, d, n_values, missing):
    context = rng.integers(0, n_values, (n, d)).astype(np.float32)
    context[rng.random((n, d)) < missing] = np.nan
    return context


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    d=st.integers(1, 4),
    n_actions=st.integers(1, 5),
    n_values=st.integers(1, 12),
    missing=st.sampled_from([0.0, 0.2]),
    has_mask=st.booleans(),
    n_action_features=st.integers(0, 2),
    min_child_weight=st.sampled_from([0.0, 1.0, 4.0]),
    reg_lambda=st.sampled_from([0.0, 1.0]),
    is_classifier=st.booleans(),
    max_depth=st.integers(1, 6),
    least_ordered=st.sampled_from([1, locality.MIN_CONTEXTS]),
)
def test_every_split_is_a_best_one(
    seed,
    n,
    d,
    n_actions,
    n_values,
    missing,
    has_mask,
    n_action_features,
    min_child_weight,
    reg_lambda,
    is_classifier,
    max_depth,
    least_ordered,
):
    rng = np.random.default_rng(seed)
    context = make_context(rng, n, d, n_values, missing)
    gradient, weight = random_target(rng, n, n_actions)
    mask = random_mask(rng, n, n_actions) if has_mask else None
    gradient = gradient if mask is None else gradient * mask
    features = rng.integers(0, 3, (n_actions, n_action_features)).astype(np.float32) if n_action_features else None
    learner_type = HistTreeClassifier if is_classifier else HistTree
    learner = learner_type(max_depth, min_child_weight=min_child_weight, reg_lambda=reg_lambda, n_jobs=1)
    with mock.patch.object(locality, "MIN_CONTEXTS", least_ordered):
        fitted = fit_tree(learner, context, gradient, weight, mask, features)
    pairs = expand(context, gradient, weight, mask, features, is_classifier=is_classifier)
    check_tree(fitted.predictor.tree, pairs, learner)
    np.testing.assert_array_equal(fitted.predictor.predict(context), fitted.prediction)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_values=st.integers(2, 6), min_child_weight=st.sampled_from([0.0, 3.0]))
def test_categorical_and_indicator_columns_split_one_against_the_rest(seed, n_values, min_child_weight):
    rng = np.random.default_rng(seed)
    category = rng.integers(0, n_values, 80)
    code = category.astype(np.float32)
    code[rng.random(80) < 0.1] = np.nan
    indicators = np.eye(n_values, dtype=np.float32)[rng.integers(0, n_values, 80)]
    context = np.column_stack([code, indicators, rng.integers(0, 9, 80)]).astype(np.float32)
    gradient, weight = random_target(rng, 80, 3)
    learner = HistTree(5, min_child_weight=min_child_weight, categorical=[0], n_jobs=1)
    fitted = fit_tree(learner, context, gradient, weight)
    check_tree(fitted.predictor.tree, expand(context, gradient, weight, categorical=[0]), learner)
    np.testing.assert_array_equal(fitted.predictor.predict(context), fitted.prediction)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), density=st.sampled_from([0.05, 0.3, 0.9]), n_values=st.sampled_from([1, 5]))
def test_sparse_contexts_give_the_tree_of_the_same_dense_ones(seed, density, n_values):
    rng = np.random.default_rng(seed)
    context = (rng.integers(1, n_values + 1, (120, 12)) * (rng.random((120, 12)) < density)).astype(np.float32)
    gradient, weight = random_target(rng, 120, 4)
    learner = HistTree(6, min_child_weight=2.0, n_jobs=1)
    dense = fit_tree(learner, context, gradient, weight)
    from_csr = fit_tree(learner, sparse.csr_matrix(context), gradient, weight)
    check_tree(from_csr.predictor.tree, expand(context, gradient, weight), learner)
    np.testing.assert_allclose(from_csr.prediction, dense.prediction, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(from_csr.predictor.predict(sparse.csr_matrix(context)), from_csr.prediction)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.sampled_from([20, 150, 400]), min_child_weight=st.sampled_from([0.0, 1e-5, 1.0])
)
def test_weights_over_twelve_orders_of_magnitude_keep_every_split_a_best_one(seed, n, min_child_weight):
    rng = np.random.default_rng(seed)
    context = make_context(rng, n, 3, 40, 0.0)
    gradient, weight = random_target(rng, n, 3, "heavy")
    learner = HistTree(8, min_child_weight=min_child_weight, n_jobs=1)
    fitted = fit_tree(learner, context, gradient, weight)
    check_tree(fitted.predictor.tree, expand(context, gradient, weight), learner, rounding=HEAVY_ROUNDING)


def test_a_few_enormous_weights_leave_every_split_a_best_one():
    rng = np.random.default_rng(0)
    context = make_context(rng, 1000, 4, 200, 0.0)
    gradient, weight = random_target(rng, 1000, 2)
    gradient[:5] *= 2.0**40
    weight[:5] *= 2.0**40
    learner = HistTree(9, min_child_weight=10.0, n_jobs=1)
    fitted = fit_tree(learner, context, gradient, weight)
    check_tree(fitted.predictor.tree, expand(context, gradient, weight), learner)
    assert len(np.unique(fitted.prediction[5:])) > 30


def test_a_few_enormous_weights_leave_the_subtree_of_the_others_as_it_is_without_them():
    rng = np.random.default_rng(0)
    context = make_context(rng, 2000, 4, 200, 0.0)
    gradient, weight = random_target(rng, 2000, 2)
    light = fit_tree(HistTree(7, min_child_weight=10.0, n_jobs=1), context, gradient, weight).prediction
    # One split more sends the enormous rows, all of one context, away.
    context = np.vstack([context, np.full((5, 4), 1000, np.float32)])
    gradient, weight = (np.concatenate([a, 2.0**40 * a[:5]]) for a in (gradient, weight))
    both = fit_tree(HistTree(8, min_child_weight=10.0, n_jobs=1), context, gradient, weight).prediction
    np.testing.assert_array_equal(both[:-5], light)
    assert len(np.unique(light)) > 50


@pytest.mark.parametrize("least_ordered", [1, locality.MIN_CONTEXTS])
@pytest.mark.parametrize("learner_type", [HistTree, HistTreeClassifier])
@pytest.mark.parametrize("settings", [{}, {"max_leaves": 9}, {"subsample": 0.6}, {"colsample": 0.4}])
def test_the_tree_is_the_same_bytes_for_any_number_of_threads(learner_type, settings, least_ordered, monkeypatch):
    monkeypatch.setattr(locality, "MIN_CONTEXTS", least_ordered)
    rng = np.random.default_rng(3)
    context = make_context(rng, 9000, 5, 300, 0.05)
    gradient, weight = random_target(rng, 9000, 4)
    fitted = [
        fit_tree(learner_type(9, min_child_weight=5.0, n_jobs=n_jobs, **settings), context, gradient, weight)
        for n_jobs in (1, 2, 4)
    ]
    first = fitted[0]
    for other in fitted[1:]:
        assert other.predictor.tree.to_bytes() == first.predictor.tree.to_bytes()
        assert other.prediction.tobytes() == first.prediction.tobytes()
    np.testing.assert_array_equal(first.predictor.predict(context), first.prediction)
