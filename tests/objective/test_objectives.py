import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import bopl
from bopl import theory
from bopl.objective import IPSObjective, SurrogateObjective, get_objective
from bopl.objective.softmax import log_softmax, softmax
from bopl.objective.value import effective_sample_size, ips_value, snips_value
from helpers import logs, make_log

OBJECTIVES = [IPSObjective(), SurrogateObjective()]


def risk_at(objective, log, score):
    return objective.risk(log, log_softmax(score)[np.arange(log.n_samples), log.action_idx])


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
@pytest.mark.parametrize("seed", range(5))
def test_gradient_equals_finite_differences_of_the_risk(objective, seed):
    log = make_log(seed, n_samples=6)
    score = np.random.default_rng(seed).normal(size=(log.n_samples, log.n_actions))
    gradient = objective.step_target(log, score).gradient
    step = 1e-6
    for cell in np.ndindex(score.shape):
        up, down = score.copy(), score.copy()
        up[cell] += step
        down[cell] -= step
        slope = (risk_at(objective, log, up) - risk_at(objective, log, down)) / (2 * step)
        assert gradient[cell] == pytest.approx(-slope * log.n_samples, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
@given(log=logs(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_step_target_keeps_its_promises(objective, log, seed):
    score = np.random.default_rng(seed).normal(scale=3.0, size=(log.n_samples, log.n_actions))
    target = objective.step_target(log, score)
    np.testing.assert_allclose(target.gradient.sum(axis=1), 0.0, atol=1e-9 * np.abs(target.gradient).max() + 1e-300)
    assert (target.weight >= 0).all()
    assert (target.curvature >= 0).all()
    np.testing.assert_allclose(np.exp(target.log_prob), softmax(score)[np.arange(log.n_samples), log.action_idx])


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
@given(log=logs(), seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_risk_is_as_smooth_as_the_curvature_says(objective, log, seed):
    """Lemma "smooth_upper_bound": risk(F + D) <= risk(F) - <G, D> + curvature/2 ||D||², on average over samples."""
    rng = np.random.default_rng(seed)
    score = rng.normal(scale=2.0, size=(log.n_samples, log.n_actions))
    move = rng.normal(scale=rng.choice([0.01, 1.0, 10.0]), size=score.shape)
    target = objective.step_target(log, score)
    bound = -np.sum(target.gradient * move) + 0.5 * np.sum(target.curvature * (move**2).sum(axis=1))
    change = log.n_samples * (risk_at(objective, log, score + move) - risk_at(objective, log, score))
    magnitude = np.abs(log.reward / log.propensity).sum()
    assert change <= bound + 1e-9 * magnitude


@given(log=logs(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_surrogate_risk_bounds_the_empirical_risk(log, seed):
    score = np.random.default_rng(seed).normal(scale=3.0, size=(log.n_samples, log.n_actions))
    surrogate, risk = risk_at(SurrogateObjective(), log, score), risk_at(IPSObjective(), log, score)
    assert surrogate >= risk - 1e-9 * np.abs(log.reward / log.propensity).mean()


def context_policy_score(log, table):
    """Scores of a policy that depends on the context alone: one row of ``table`` per distinct context."""
    _, group = np.unique(log.context, axis=0, return_inverse=True)
    return table[group.reshape(-1)]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
@given(log=logs(), seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_no_policy_beats_the_optimal_risk(objective, log, seed):
    table = np.random.default_rng(seed).normal(scale=10.0, size=(log.n_samples, log.n_actions))
    risk = risk_at(objective, log, context_policy_score(log, table))
    assert risk >= objective.optimal_risk(log) - 1e-9 * np.abs(log.reward / log.propensity).mean()


def test_optimal_risk_of_distinct_contexts_takes_every_good_action_and_no_bad_one():
    log = make_log(1)
    expected = -np.mean(np.maximum(log.reward, 0.0) / log.propensity)
    assert theory.opt_emp_risk(log) == pytest.approx(expected)
    assert theory.opt_surrogate_risk(log) == pytest.approx(expected)


def test_optimal_risk_of_one_context_takes_the_action_with_the_greatest_sum():
    log = bopl.BanditLog(np.zeros((4, 1)), [0, 0, 1, 2], [1.0, -3.0, 1.0, 0.5], [0.5, 0.5, 0.5, 0.5])
    assert theory.opt_emp_risk(log) == pytest.approx(-2.0 / 4)  # action 0 has -4, action 1 has 2, action 2 has 1
    only_bad = bopl.BanditLog(np.zeros((2, 1)), [0, 1], [-1.0, -1.0], [0.5, 0.5], actions=[0, 1, 2])
    assert theory.opt_emp_risk(only_bad) == 0.0  # the action never logged costs nothing


@pytest.mark.parametrize("seed", range(6))
def test_optimal_surrogate_risk_is_reached_by_numerical_minimisation(seed):
    log = make_log(seed, n_samples=15, distinct=2, n_features=1, n_actions=3)
    result = minimize(
        lambda flat: risk_at(SurrogateObjective(), log, context_policy_score(log, flat.reshape(2, 3))),
        np.zeros(6),
        method="BFGS",
        options={"gtol": 1e-9, "maxiter": 2000},
    )
    optimal = theory.opt_surrogate_risk(log)
    assert result.fun >= optimal - 1e-9
    assert result.fun == pytest.approx(optimal, abs=2e-3)  # where the best probability is 0, BFGS only comes close


def test_snips_of_constant_reward_is_that_constant():
    weight = np.random.default_rng(0).random(50) * 1e6
    assert snips_value(weight, np.full(50, 0.3)) == pytest.approx(0.3, abs=1e-15)
    assert np.isnan(snips_value(np.zeros(3), np.ones(3)))


def test_snips_translates_with_the_reward_and_ips_is_the_plain_mean():
    rng = np.random.default_rng(0)
    weight, reward = rng.random(50), rng.random(50)
    assert snips_value(weight, reward - 0.4) == pytest.approx(snips_value(weight, reward) - 0.4)
    assert ips_value(weight, reward) == pytest.approx((weight * reward).sum() / 50)


def test_effective_sample_size_counts_equal_weights():
    assert effective_sample_size(np.array([2.0, 2.0, 0.0])) == pytest.approx(2.0)
    assert effective_sample_size(np.array([1e300, 1e300])) == pytest.approx(2.0)
    assert effective_sample_size(np.zeros(3)) == 0.0


@pytest.mark.parametrize("inverse_temperature", [0.0, 0.5, 1.0, 30.0, np.inf])
def test_softmax_rows_sum_to_one_even_for_enormous_scores(inverse_temperature):
    score = np.array([[1e4, 0.0, -1e4], [1.0, 1.0, 0.0]])
    action_prob = softmax(score, inverse_temperature=inverse_temperature)
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)
    assert (action_prob >= 0).all()
    if inverse_temperature == np.inf:
        np.testing.assert_array_equal(action_prob, [[1, 0, 0], [1, 0, 0]])
    if inverse_temperature == 0.0:
        np.testing.assert_allclose(action_prob, 1 / 3)


def test_unknown_objective_names_the_choices():
    with pytest.raises(ValueError, match="one of 'ips', 'surrogate'; got 'dr'"):
        get_objective("dr")
    with pytest.raises(TypeError, match="an object with step_target"):
        get_objective(3)
