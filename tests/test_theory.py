import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bopl
from bopl import theory
from bopl.objective.softmax import softmax
from helpers import make_log


def ips_gradient(log, score):
    """Return ``r/p · pi(a_i) · (1{a = a_i} - pi(a))``."""
    action_prob, logged = softmax(score), np.eye(log.n_actions)[log.action_idx]
    pull = log.reward / log.propensity * (action_prob * logged).sum(axis=1)
    return pull[:, None] * (logged - action_prob)


def masked_log(seed, **settings):
    log = make_log(seed, **settings)
    mask = np.random.default_rng(seed).random((log.n_samples, log.n_actions)) < 0.6
    mask[np.arange(log.n_samples), log.action_idx] = True
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=mask)


def best_risk_by_search(log, reward_estimate):
    """Try every action in every group of samples that share context and mask."""
    eligible = np.ones(reward_estimate.shape, dtype=bool) if log.action_mask is None else log.action_mask
    rows_of = {}
    for row in range(log.n_samples):
        rows_of.setdefault((*log.context[row].tolist(), *eligible[row].tolist()), []).append(row)
    best = 0.0
    for rows in rows_of.values():
        choices = np.flatnonzero(eligible[rows[0]])
        best += max(sum(reward_estimate[row, action_idx] for row in rows) for action_idx in choices)
    return -best / log.n_samples


def test_edge_is_the_normalised_alignment_of_gradient_and_prediction():
    log = make_log(3)
    rng = np.random.default_rng(0)
    score, prediction = rng.normal(size=(2, log.n_samples, log.n_actions))
    action_prob = softmax(score)
    logged_prob = action_prob[np.arange(log.n_samples), log.action_idx]
    total = (np.abs(log.reward) / log.propensity * logged_prob).sum()
    expected = (ips_gradient(log, score) * prediction).sum() / total
    assert theory.weak_learning_edge(log, action_prob, prediction) == pytest.approx(expected)


def test_error_rate_of_a_classifier_gives_the_sign_of_its_ensemble_weight():
    log = make_log(4)
    rng = np.random.default_rng(1)
    gradient = ips_gradient(log, rng.normal(size=(log.n_samples, log.n_actions)))
    prediction = rng.choice([-1.0, 1.0], size=gradient.shape)
    error = theory.error_rate(gradient, prediction)
    assert 1 - 2 * error == pytest.approx((gradient * prediction).sum() / np.abs(gradient).sum())
    assert theory.error_rate(gradient, -prediction) == pytest.approx(1 - error)
    assert theory.error_rate(gradient, np.sign(gradient)) == 0.0


@pytest.mark.parametrize("distinct", [None, 1, 2])
@pytest.mark.parametrize("make", [make_log, masked_log])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_optimal_risk_of_an_estimate_is_that_of_a_search(make, distinct, seed):
    log = make(seed, n_samples=20, n_features=2, n_actions=3, distinct=distinct)
    reward_estimate = np.random.default_rng(seed).normal(size=(log.n_samples, log.n_actions))
    assert theory.opt_risk_of(reward_estimate, log) == pytest.approx(best_risk_by_search(log, reward_estimate))


@pytest.mark.parametrize("distinct", [None, 1, 2])
@pytest.mark.parametrize("make", [make_log, masked_log])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_optimal_empirical_risk_is_that_of_the_one_hot_estimate(make, distinct, seed):
    log = make(seed, n_samples=20, n_features=1, n_actions=3, distinct=distinct)
    logged = np.eye(log.n_actions)[log.action_idx]
    plain, clipped = log.reward / log.propensity, log.reward / np.maximum(log.propensity, 0.3)
    assert theory.opt_emp_risk(log) == pytest.approx(theory.opt_risk_of(plain[:, None] * logged, log))
    assert theory.opt_emp_risk(log, clipped) == pytest.approx(theory.opt_risk_of(clipped[:, None] * logged, log))


@pytest.mark.parametrize("optimal_risk", [theory.opt_emp_risk, theory.opt_surrogate_risk])
@pytest.mark.parametrize("distinct", [None, 2])
def test_optimal_risk_takes_the_weighted_reward_instead_of_the_logs_own(optimal_risk, distinct):
    log = masked_log(5, n_samples=30, n_features=1, n_actions=3, distinct=distinct)
    assert optimal_risk(log, log.reward / log.propensity) == optimal_risk(log)
    clipped = log.reward / np.maximum(log.propensity, 0.3)
    assert optimal_risk(log, clipped) == pytest.approx(
        optimal_risk(log.with_propensity(np.maximum(log.propensity, 0.3)))
    )
    assert optimal_risk(log, 2.0 * clipped) == pytest.approx(2.0 * optimal_risk(log, clipped))


@pytest.mark.parametrize("optimal_risk", [theory.opt_emp_risk, theory.opt_surrogate_risk])
def test_optimal_risk_of_a_sample_weighted_twice_is_that_of_the_sample_repeated(optimal_risk):
    log = make_log(6, n_samples=30, n_features=1, n_actions=3, distinct=3)
    times = np.random.default_rng(6).integers(0, 3, size=30)
    repeated = log.subset(np.repeat(np.arange(30), times))
    weighted = optimal_risk(log, times * log.reward / log.propensity)
    assert weighted * 30 == pytest.approx(optimal_risk(repeated) * times.sum())


def test_optimal_risk_of_few_contexts_and_many_actions_needs_no_table_of_both():
    log = make_log(7, n_samples=4000, n_features=1, n_actions=2000, distinct=1500)
    for optimal_risk in (theory.opt_emp_risk, theory.opt_surrogate_risk):
        tracemalloc.start()
        optimal_risk(log)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1000 * log.n_samples  # bytes; a float64 per context and action would be 24 MB


def test_theorem_1_bound_is_the_formula_and_falls_with_every_round():
    bounds = [theory.theorem_1_bound(0.8, np.full(n, 0.5), scale=1.5) for n in range(4)]
    assert bounds[0] == pytest.approx(0.8)
    assert bounds[3] == pytest.approx(0.8 * np.exp(-1.5 * np.sqrt(3) / 9 / (2 * 0.8) * 3 * 0.25))
    assert (np.diff(bounds) < 0).all()
    paper = theory.theorem_1_bound(0.8, np.full(3, 0.5), scale=1.5, smoothness="paper")
    assert paper == pytest.approx(0.8 * np.exp(-1.5 / (4 * 0.8) * 3 * 0.25))
    assert theory.excess_risk_after(0.0, 1.0) == 0.0


def steps_of(log, smoothness, predictions):
    """Return risks and alphas of boosting the predictions in turn, each rescaled to C = 1."""
    value, rows = log.reward / log.propensity, np.arange(log.n_samples)
    score = np.zeros((log.n_samples, log.n_actions))
    risks, alphas = [], []
    for prediction in predictions:
        step = prediction / np.sqrt(np.mean(np.abs(value) * (prediction**2).sum(axis=1)))
        curvature = theory.loss_smoothness(value, smoothness=smoothness)
        gradient = ips_gradient(log, score)
        alphas.append((gradient * step).sum() / (curvature * (step**2).sum(axis=1)).sum())
        score = score + alphas[-1] * step
        risks.append(-np.mean(value * softmax(score)[rows, log.action_idx]))
    return np.array(risks), np.array(alphas)


@pytest.mark.parametrize("smoothness", ["sharp", "paper"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_theorem_1_holds_for_the_steps_of_either_smoothness(smoothness, seed):
    log = make_log(seed, n_samples=20)
    rng = np.random.default_rng(seed)
    gradient = ips_gradient(log, np.zeros((20, 4)))
    predictions = [gradient * (rng.random((20, 1)) < 0.8) + 0.1 * rng.normal(size=(20, 4)) for _ in range(10)]
    risks, alphas = steps_of(log, smoothness, predictions)
    for n_rounds in range(1, 11):
        excess = theory.theorem_1_bound(theory.excess_emp_risk_0(log), alphas[:n_rounds], 1.0, smoothness=smoothness)
        assert risks[n_rounds - 1] <= theory.opt_emp_risk(log) + excess + 1e-9


def test_sharp_steps_need_the_sharp_form_of_theorem_1():
    """A predictor right for 11 samples of 20: the risk falls by less than C/4 · alpha² would promise."""
    log = bopl.BanditLog(np.arange(20)[:, None], np.zeros(20), np.ones(20), np.full(20, 0.5), actions=[0, 1])
    prediction = np.where(np.arange(20) < 11, 1.0, -1.0)[:, None] * np.array([1.0, -1.0])
    risks, alphas = steps_of(log, "sharp", [prediction])
    optimal, excess = theory.opt_emp_risk(log), theory.excess_emp_risk_0(log)
    assert risks[0] <= optimal + theory.theorem_1_bound(excess, alphas, 1.0)
    assert risks[0] > optimal + theory.theorem_1_bound(excess, alphas, 1.0, smoothness="paper")


def test_excess_risk_bound_is_the_papers_formula():
    bound = theory.excess_risk_bound(
        n_samples=1000,
        min_propensity=0.1,
        rademacher_complexity=0.01,
        ensemble_weights=[2.0, -1.0],
        excess_empirical_risk=0.2,
        delta=0.1,
    )
    assert bound.excess_empirical_risk == 0.2
    expected = np.sqrt(32) / 0.1 * 3 * 0.01 + np.sqrt(2 / 1000 * np.log(8 / 0.1 * 3)) / 0.1
    assert bound.generalization_error == pytest.approx(expected)
    assert bound.estimation_error == pytest.approx(np.sqrt(2 / 1000 * np.log(20)) / 0.1)
    assert bound.total == pytest.approx(0.2 + bound.generalization_error + bound.estimation_error)


def test_excess_risk_bound_shrinks_with_data_and_grows_with_weights_and_certainty():
    def total(**changes):
        settings = {
            "n_samples": 1000,
            "min_propensity": 0.1,
            "rademacher_complexity": 0.01,
            "ensemble_weights": [1.0, 1.0],
            "excess_empirical_risk": 0.2,
            "delta": 0.05,
        }
        return theory.excess_risk_bound(**(settings | changes)).total

    assert total(n_samples=4000) < total()
    assert total(min_propensity=0.05) > total()
    assert total(ensemble_weights=[5.0, 5.0]) > total()
    assert total(delta=0.01) > total()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"min_propensity": 0.0}, r"min_propensity must lie in \(0, 1\]"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"rademacher_complexity": -1.0}, "must not be negative"),
    ],
)
def test_excess_risk_bound_refuses_what_it_does_not_hold_for(change, message):
    settings = {
        "n_samples": 10,
        "min_propensity": 0.1,
        "rademacher_complexity": 0.0,
        "ensemble_weights": [1.0],
        "excess_empirical_risk": 0.0,
    }
    with pytest.raises(ValueError, match=message):
        theory.excess_risk_bound(**(settings | change))
