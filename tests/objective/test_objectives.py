import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import bopl
from bopl import theory
from bopl._weight import effective_sample_size, snips_value
from bopl.objective import IPS, Surrogate, TrainingData, get_objective
from bopl.objective.softmax import log_softmax, softmax
from helpers import OBJECTIVE_NAMES, WEIGHT_NAMES, logs, make_log, make_objective, masked, training_data

by_name = pytest.mark.parametrize("name", OBJECTIVE_NAMES)
by_weight = pytest.mark.parametrize("weight", WEIGHT_NAMES)


def risk_at(objective, log, score):
    return objective.bind(TrainingData(log)).risk(log_softmax(score, log.action_mask))


def magnitude_of(bound):
    """What the terms of a risk add up to without their signs: rounding is measured against it."""
    dense = 0.0 if bound.dense is None else np.abs(bound.dense).max(axis=1)
    return float((np.abs(bound.linear) + bound.log + dense).sum())


def settings_of(name):
    return [{}, {"self_normalised": True}] if name == "dr" else [{}]


@by_name
@by_weight
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("has_weight", [False, True])
def test_gradient_equals_finite_differences_of_the_risk(name, weight, has_mask, has_weight):
    log = make_log(3, n_samples=6)
    log = masked(log) if has_mask else log
    score = np.random.default_rng(3).normal(size=(log.n_samples, log.n_actions))
    step = 1e-6
    for extra in settings_of(name):
        bound = make_objective(name, weight, **extra).bind(training_data(log, has_weight=has_weight))
        gradient = bound.gradient(log_softmax(score, log.action_mask))
        for cell in np.ndindex(score.shape):
            up, down = score.copy(), score.copy()
            up[cell] += step
            down[cell] -= step
            slope = bound.risk(log_softmax(up, log.action_mask)) - bound.risk(log_softmax(down, log.action_mask))
            assert gradient[cell] == pytest.approx(-slope / (2 * step) * log.n_samples, rel=1e-5, abs=1e-6)


@by_name
@given(log=logs(), seed=st.integers(0, 1000), weight=st.sampled_from(WEIGHT_NAMES), has_mask=st.booleans())
@settings(max_examples=60, deadline=None)
def test_bound_objective_keeps_its_promises(name, log, seed, weight, has_mask):
    log = masked(log, seed) if has_mask else log
    score = np.random.default_rng(seed).normal(scale=3.0, size=(log.n_samples, log.n_actions))
    bound = make_objective(name, weight).bind(training_data(log, seed))
    gradient = bound.gradient(log_softmax(score, log.action_mask))
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-9 * np.abs(gradient).max() + 1e-300)
    assert (bound.weight >= 0).all()
    assert (bound.curvature >= 0).all()
    assert (bound.log >= 0).all()


@by_name
@given(
    log=logs(),
    seed=st.integers(0, 1000),
    weight=st.sampled_from(WEIGHT_NAMES),
    smoothness=st.sampled_from(["sharp", "paper"]),
    has_mask=st.booleans(),
    has_weight=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_risk_is_as_smooth_as_the_curvature_says(name, log, seed, weight, smoothness, has_mask, has_weight):
    """Lemma "smooth_upper_bound": risk(F + D) <= risk(F) - <G, D> + curvature/2 ||D||², on average over samples."""
    rng = np.random.default_rng(seed)
    log = masked(log, seed) if has_mask else log
    score = rng.normal(scale=2.0, size=(log.n_samples, log.n_actions))
    move = rng.normal(scale=rng.choice([0.01, 1.0, 10.0]), size=score.shape)
    move = move if log.action_mask is None else np.where(log.action_mask, move, 0.0)
    bound = make_objective(name, weight, smoothness=smoothness).bind(training_data(log, seed, has_weight=has_weight))
    log_prob = log_softmax(score, log.action_mask)
    limit = -np.sum(bound.gradient(log_prob) * move) + 0.5 * np.sum(bound.curvature * (move**2).sum(axis=1))
    change = log.n_samples * (bound.risk(log_softmax(score + move, log.action_mask)) - bound.risk(log_prob))
    assert change <= limit + 1e-9 * magnitude_of(bound)


@pytest.mark.parametrize("has_mask", [False, True])
@by_weight
def test_sharp_curvature_of_ips_is_reached(weight, has_mask):
    """No smaller constant will do: at the worst probability a short move changes the gradient by just the curvature."""
    value = 1.0 / np.sqrt(3.0)
    probability = (1.0 + value) / 2.0  # where p(1-p)(1-2p) is greatest in size
    log = bopl.BanditLog([[0.0]], [0], [1.0], [0.5], actions=[0, 1], action_mask=[[1, 1]] if has_mask else None)
    bound = make_objective("ips", weight).bind(TrainingData(log))
    score = np.log([[probability, 1.0 - probability]])
    move = 1e-5 * np.array([[1.0, -1.0]]) / np.sqrt(2.0)
    bend = (bound.gradient(log_softmax(score - move)) - bound.gradient(log_softmax(score + move))) @ move.T
    assert bend[0, 0] / (2 * (move**2).sum()) == pytest.approx(bound.curvature[0], rel=1e-5)


@given(log=logs(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_surrogate_risk_bounds_the_empirical_risk(log, seed):
    score = np.random.default_rng(seed).normal(scale=3.0, size=(log.n_samples, log.n_actions))
    surrogate, risk = risk_at(Surrogate(), log, score), risk_at(IPS(), log, score)
    assert surrogate >= risk - 1e-9 * np.abs(log.reward / log.propensity).mean()


def context_policy_score(log, table):
    """Scores of a policy that depends on the context alone: one row of ``table`` per distinct context."""
    _, group = np.unique(log.context, axis=0, return_inverse=True)
    return table[group.reshape(-1)]


@by_name
@given(log=logs(), seed=st.integers(0, 1000), weight=st.sampled_from(WEIGHT_NAMES), has_weight=st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_policy_beats_the_optimal_risk(name, log, seed, weight, has_weight):
    table = np.random.default_rng(seed).normal(scale=10.0, size=(log.n_samples, log.n_actions))
    bound = make_objective(name, weight).bind(training_data(log, seed, has_weight=has_weight))
    risk = bound.risk(log_softmax(context_policy_score(log, table)))
    assert risk >= bound.optimal_risk() - 1e-9 * magnitude_of(bound) / log.n_samples


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
        lambda flat: risk_at(Surrogate(), log, context_policy_score(log, flat.reshape(2, 3))),
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


def test_snips_translates_with_the_reward():
    rng = np.random.default_rng(0)
    weight, reward = rng.random(50), rng.random(50)
    assert snips_value(weight, reward - 0.4) == pytest.approx(snips_value(weight, reward) - 0.4)


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
    with pytest.raises(ValueError, match="one of 'ips', 'surrogate', 'dr'; got 'drs'"):
        get_objective("drs")
    with pytest.raises(TypeError, match="an object with a name and bind"):
        get_objective(3)
