"""The doubly robust objective: what it is without a model, with a perfect one, and in between."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.boosting import Problem, StepRule, fit_ensemble
from bopl.learner import bind_learner
from bopl.objective import DR, IPS, TrainingData
from bopl.objective.softmax import log_softmax
from helpers import WEIGHT_NAMES, informative_log, make_log, make_objective, masked, training_data


def some_log_prob(log, seed=0):
    score = np.random.default_rng(seed).normal(scale=2.0, size=(log.n_samples, log.n_actions))
    return log_softmax(score, log.action_mask)


def gamma_of(bound):
    gamma = bound.dense.copy()
    gamma[np.arange(len(gamma)), bound.data.action_idx] += bound.linear
    return gamma


@pytest.mark.parametrize("smoothness", ["sharp", "paper"])
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("weight", WEIGHT_NAMES)
def test_with_a_model_that_predicts_zero_it_is_ips(weight, has_mask, smoothness):
    log = make_log(1, n_samples=200)
    log = masked(log) if has_mask else log
    data = TrainingData(log, np.zeros((200, 4)), training_data(log, has_weight=True).sample_weight)
    dr, ips = (make_objective(name, weight, smoothness=smoothness).bind(data) for name in ("dr", "ips"))
    log_prob = some_log_prob(log)
    np.testing.assert_allclose(dr.gradient(log_prob), ips.gradient(log_prob), rtol=1e-12, atol=1e-15)
    assert dr.risk(log_prob) == pytest.approx(ips.risk(log_prob), rel=1e-12)
    assert dr.optimal_risk() == pytest.approx(ips.optimal_risk(), rel=1e-12)
    # range(Gamma) is |v|, or nothing where there is no choice: there the policy cannot change and no curvature is due.
    has_choice = np.ones(200, bool) if log.action_mask is None else log.action_mask.sum(axis=1) > 1
    np.testing.assert_allclose(dr.curvature, np.where(has_choice, ips.curvature, 0.0))
    np.testing.assert_allclose(dr.weight, np.where(has_choice, ips.weight, 0.0))


def test_with_the_true_model_and_certain_rewards_the_logged_action_does_not_matter():
    rng = np.random.default_rng(0)
    context, truth = rng.normal(size=(100, 2)), rng.normal(size=(100, 4))
    bounds = []
    for seed in range(3):
        action = np.random.default_rng(seed).integers(0, 4, size=100)
        log = bopl.BanditLog(
            context, action, truth[np.arange(100), action], rng.uniform(0.01, 1.0, 100), actions=range(4)
        )
        bounds.append(DR().bind(TrainingData(log, truth)))
    log_prob = some_log_prob(log)
    for bound in bounds[1:]:
        np.testing.assert_array_equal(gamma_of(bound), truth)
        np.testing.assert_array_equal(bound.gradient(log_prob), bounds[0].gradient(log_prob))
        np.testing.assert_array_equal(bound.curvature, bounds[0].curvature)
        assert bound.risk(log_prob) == bounds[0].risk(log_prob)


def test_gamma_is_the_true_reward_on_average_over_logged_actions_whatever_the_model():
    rng = np.random.default_rng(0)
    truth, wrong = rng.normal(size=(2, 50, 4))
    action_prob = rng.dirichlet(np.ones(4), size=50)
    mean = np.zeros((50, 4))
    for action in range(4):
        log = bopl.BanditLog(
            np.zeros((50, 1)), np.full(50, action), truth[:, action], action_prob[:, action], actions=range(4)
        )
        mean += action_prob[:, [action]] * gamma_of(DR().bind(TrainingData(log, wrong)))
    np.testing.assert_allclose(mean, truth, atol=1e-12)


def test_curvature_is_the_range_of_gamma_over_eligible_actions():
    log = masked(make_log(2, n_samples=80))
    bound = DR().bind(training_data(log))
    gamma = np.where(log.action_mask, gamma_of(bound), np.nan)
    expected = np.nanmax(gamma, axis=1) - np.nanmin(gamma, axis=1)
    np.testing.assert_allclose(bound.weight, expected)
    np.testing.assert_allclose(bound.curvature, expected * np.sqrt(3) / 9)


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("has_weight", [False, True])
def test_self_normalised_weights_of_every_action_sum_to_its_samples(has_mask, has_weight):
    log = make_log(3, n_samples=300)
    log = masked(log) if has_mask else log
    data = training_data(log, has_weight=has_weight)
    ones = TrainingData(log.with_reward(np.ones(300)), np.zeros((300, 4)), data.sample_weight)
    linear = DR(self_normalised=True).bind(ones).linear  # the weights themselves: r - q̂ is 1
    weight = np.ones(300) if data.sample_weight is None else data.sample_weight
    eligible = np.ones((300, 4)) if log.action_mask is None else log.action_mask
    np.testing.assert_allclose(np.bincount(log.action_idx, linear, minlength=4), weight @ eligible)


def test_reward_translation_changes_nothing():
    log = make_log(4, n_samples=200)
    scores = []
    for translation in (0.0, -0.7, 3.0):
        problem = Problem(training_data(log), DR(), translation)
        bound = bind_learner(DecisionTreeRegressor(max_depth=3, random_state=0), log, seed=0)
        scores.append(fit_ensemble(problem, bound, StepRule(), n_rounds=4).ensemble.score(log.context))
    for score in scores[1:]:
        np.testing.assert_allclose(score, scores[0], rtol=1e-7, atol=1e-9)


def test_policy_of_translated_rewards_is_the_same():
    log = informative_log()
    model = bopl.BoostedRewardModel(n_rounds=5)
    settings = {"learner": bopl.HistTree(3), "reward_model": model, "n_rounds": 4, "random_state": 0}
    plain, moved = (
        bopl.BoostedPolicy("dr", reward_translation=translation, **settings).fit(log).decision_function(log.context)
        for translation in (0.0, -0.5)
    )
    np.testing.assert_allclose(moved, plain, rtol=1e-7, atol=1e-9)


def test_estimates_are_asked_for():
    with pytest.raises(ValueError, match="the doubly robust objective needs estimates of the reward of every action"):
        DR().bind(TrainingData(make_log()))
    assert not IPS.needs_reward_model
    assert DR.needs_reward_model
