"""Estimated propensities: near the truth, within the mask, and passed by the audit."""

import numpy as np
import pytest

import bopl
from bopl.evaluation.action_model import Calibration, choose_calibration, fit_shares
from bopl.evaluation.propensity import cross_fit_actions
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

CHECKS = ("mean_weight_uniform", "mean_weight_logging", "sum_inverse_propensity")


def drawn(prob, context, seed=0, **further):
    rng = np.random.default_rng([seed, 9])
    action = draw_actions(prob, rng)
    n_samples, n_actions = prob.shape
    log = bopl.BanditLog(context, action, rng.random(n_samples), None, actions=np.arange(n_actions), **further)
    return log, prob[np.arange(n_samples), action]


def problems(log):
    return [finding.check for finding in log.audit().problems if finding.check in CHECKS]


def test_a_softmax_log_is_estimated_within_a_tenth_and_passes_the_audit():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(4000, 6))
    log, truth = drawn(softmax(context @ rng.normal(size=(6, 5)) * 0.5), context)
    estimated = bopl.estimate_propensity(log)
    assert np.median(np.abs(estimated.propensity / truth - 1.0)) < 0.1
    assert problems(estimated) == []


def test_rules_by_segment_are_found_by_trees_where_a_linear_model_cannot():
    rng = np.random.default_rng(1)
    context = rng.normal(size=(4000, 3))
    segment = (context[:, 0] > 0) ^ (context[:, 1] > 0)
    prob = np.where(segment[:, None], [0.7, 0.2, 0.1], [0.1, 0.2, 0.7])
    log, truth = drawn(prob, context)
    estimated = bopl.estimate_propensity(log)
    assert np.median(np.abs(estimated.propensity / truth - 1.0)) < 0.15
    assert problems(estimated) == []


def test_probabilities_keep_to_the_mask_and_sum_to_one():
    rng = np.random.default_rng(2)
    mask = rng.random((600, 8)) < 0.5
    mask[:, 0] = True
    context = rng.normal(size=(600, 2))
    log, _ = drawn(softmax(context @ rng.normal(size=(2, 8)), action_mask=mask), context, action_mask=mask)
    prob = cross_fit_actions(log, model=None, n_folds=3, random_state=0).prob(slice(0, 600))
    assert (prob[~mask] == 0.0).all()
    assert (prob[mask] > 0.0).all()
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)


def test_a_sample_is_never_predicted_by_models_of_its_own_group():
    rng = np.random.default_rng(3)
    context = rng.normal(size=(300, 2))
    log, _ = drawn(np.full((300, 3), 1 / 3), context, group=np.arange(300) // 6)
    fold = cross_fit_actions(log, model=None, n_folds=4, random_state=0).fold
    assert all(len(set(fold[log.group == group])) == 1 for group in range(50))


def test_the_time_tells_loggers_apart():
    rng = np.random.default_rng(4)
    when = np.arange(3000)
    prob = np.where((when < 1500)[:, None], [0.8, 0.2], [0.2, 0.8])
    log, truth = drawn(prob, rng.normal(size=(3000, 1)), time=when)
    assert np.median(np.abs(bopl.estimate_propensity(log).propensity / truth - 1.0)) < 0.1


def test_small_logs_and_sparse_contexts_are_estimated_too():
    from scipy.sparse import csr_array

    rng = np.random.default_rng(5)
    context = rng.normal(size=(300, 3))
    log, truth = drawn(np.full((300, 4), 0.25), csr_array(context))
    assert np.median(np.abs(bopl.estimate_propensity(log).propensity / truth - 1.0)) < 0.25


def test_the_advice_on_wrong_estimates_can_be_followed():
    rng = np.random.default_rng(6)
    log, truth = drawn(np.tile([0.7, 0.2, 0.1], (2000, 1)), rng.normal(size=(2000, 1)))
    wrong = log.with_propensity(np.where(log.action_idx == 2, 0.05, truth), source="estimated")
    assert "Add the columns that it used" in wrong.audit()["sum_inverse_propensity"].sentence


def test_shares_go_to_the_model_that_makes_what_happened_likely():
    rng = np.random.default_rng(7)
    good, bad = rng.uniform(0.5, 0.9, size=500), rng.uniform(0.1, 0.3, size=500)
    np.testing.assert_allclose(fit_shares(np.column_stack([bad, good])), [0.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(fit_shares(np.column_stack([good, good])), [0.5, 0.5])


def test_calibrated_probabilities_stay_as_they_are_and_overconfident_ones_are_flattened():
    rng = np.random.default_rng(8)
    prob = softmax(rng.normal(size=(4000, 3)) * 1.5)
    action, fold = draw_actions(prob, rng), np.arange(4000) % 4
    right = choose_calibration(prob, action, fold, 4)
    sharp = choose_calibration(softmax(3.0 * np.log(prob)), action, fold, 4)
    assert np.abs(right[0](prob) - prob).max() < 0.1
    assert np.abs(sharp[0](softmax(3.0 * np.log(prob))) - prob).max() < 0.1
    assert Calibration()(prob) is prob


def test_zeros_stay_zero_under_a_calibration():
    prob = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    found = Calibration(np.array([0.5, 0.1]), np.array([0.2, 0.0, 5.0]))(prob)
    assert (found[prob == 0.0] == 0.0).all()
    assert found.sum(axis=1) == pytest.approx(1.0)
