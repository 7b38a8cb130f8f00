import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl import theory
from bopl.objective import IPSObjective
from bopl.objective.softmax import softmax
from helpers import make_log


def hessian_norm(function, point, step=1e-4):
    n = len(point)
    hessian = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            values = []
            for a, b in corners:
                moved = point.copy()
                moved[i] += a * step
                moved[j] += b * step
                values.append(function(moved))
            hessian[i, j] = (values[0] - values[1] - values[2] + values[3]) / (4 * step**2)
    return np.abs(np.linalg.eigvalsh((hessian + hessian.T) / 2)).max()


@given(seed=st.integers(0, 10_000), n_actions=st.integers(2, 5), beta=st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_no_hessian_exceeds_the_smoothness_coefficients(seed, n_actions, beta):
    point = np.random.default_rng(seed).normal(scale=2.0, size=n_actions)

    def prob(score):
        return softmax(score[None], inverse_temperature=beta)[0, 0]

    assert hessian_norm(prob, point) <= theory.softmax_smoothness(beta) + 1e-5
    log_bound = theory.log_softmax_smoothness(n_actions, beta)
    assert hessian_norm(lambda score: np.log(prob(score)), point) <= log_bound + 1e-4


def test_smoothness_of_the_losses_is_that_of_the_propositions():
    reward, propensity = np.array([2.0, -2.0, 0.0]), np.array([0.5, 0.5, 0.5])
    assert theory.loss_smoothness(reward, propensity).tolist() == [2.0, 2.0, 0.0]
    assert theory.surrogate_loss_smoothness(reward, propensity).tolist() == [4.0, 2.0, 0.0]


def test_edge_is_the_normalised_alignment_of_gradient_and_prediction():
    log = make_log(3)
    rng = np.random.default_rng(0)
    score, prediction = rng.normal(size=(2, log.n_samples, log.n_actions))
    action_prob = softmax(score)
    target = IPSObjective().step_target(log, score)
    total = (np.abs(log.reward) / log.propensity * np.exp(target.log_prob)).sum()
    expected = (target.gradient * prediction).sum() / total
    assert theory.weak_learning_edge(log, action_prob, prediction) == pytest.approx(expected)


def test_error_rate_of_a_classifier_gives_the_sign_of_its_ensemble_weight():
    log = make_log(4)
    rng = np.random.default_rng(1)
    gradient = IPSObjective().step_target(log, rng.normal(size=(log.n_samples, log.n_actions))).gradient
    prediction = rng.choice([-1.0, 1.0], size=gradient.shape)
    error = theory.error_rate(gradient, prediction)
    assert 1 - 2 * error == pytest.approx((gradient * prediction).sum() / np.abs(gradient).sum())
    assert theory.error_rate(gradient, -prediction) == pytest.approx(1 - error)
    assert theory.error_rate(gradient, np.sign(gradient)) == 0.0


def test_theorem_1_bound_is_the_formula_and_falls_with_every_round():
    bounds = [theory.theorem_1_bound(0.8, np.full(n, 0.5), scale=1.5) for n in range(4)]
    assert bounds[0] == pytest.approx(0.8)
    assert bounds[3] == pytest.approx(0.8 * np.exp(-1.5 / (4 * 0.8) * 3 * 0.25))
    assert (np.diff(bounds) < 0).all()
    assert theory.excess_risk_after(0.0, 1.0) == 0.0


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
