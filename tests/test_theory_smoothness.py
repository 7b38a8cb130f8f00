"""Smoothness constants: nothing found exceeds them, and the sharp ones are attained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bopl import theory
from bopl.objective.softmax import softmax

SHARP = np.sqrt(3.0) / 9.0
SLACK = 1.0 + 1e-12
N_ACTIONS = [2, 3, 4, 5, 7, 10, 20, 50]


def expected_reward_hessian(action_prob, reward):
    """Return the Hessian of ``sum_a pi(a) Gamma(a)`` in the scores; a one-hot Gamma gives that of a probability."""
    gradient = action_prob * (reward - action_prob @ reward)
    cross = np.outer(gradient, action_prob)
    return np.diag(gradient) - cross - cross.T


def log_prob_hessian(action_prob):
    """Return the Hessian of any ``ln pi(a)``: the same for all actions."""
    return np.outer(action_prob, action_prob) - np.diag(action_prob)


def largest(hessian):
    """Return the largest second derivative, of either sign, over all unit directions."""
    return np.abs(np.linalg.eigvalsh(hessian)).max()


def random_probs(n_actions, n_draws):
    """Policies from nearly uniform to nearly deterministic."""
    rng = np.random.default_rng(n_actions)
    for _ in range(n_draws):
        score = rng.normal(scale=10.0 ** rng.uniform(-1.0, 1.3), size=n_actions)
        yield softmax(score[None])[0]


def two_action_extremes(n_actions):
    """Two actions with p and 1 - p, the others with next to nothing: where the constants are attained."""
    for p in [*np.linspace(0.0, 1.0, 41), (3.0 - np.sqrt(3.0)) / 6.0, (3.0 + np.sqrt(3.0)) / 6.0]:
        for rest in (0.0, 1e-9, 1e-3):
            yield np.array([p, 1.0 - p, *np.full(n_actions - 2, rest)]) / (1.0 + rest * (n_actions - 2))


def finite_difference_hessian(function, point, step=1e-4):
    n = len(point)
    offset = step * np.eye(n)
    hessian = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            up = function(point + offset[i] + offset[j]) - function(point + offset[i] - offset[j])
            down = function(point - offset[i] + offset[j]) - function(point - offset[i] - offset[j])
            hessian[i, j] = (up - down) / (4.0 * step**2)
    return hessian


@given(seed=st.integers(0, 10_000), n_actions=st.integers(2, 5), beta=st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=40, deadline=None)
def test_hessians_are_those_of_finite_differences_and_within_the_coefficients(seed, n_actions, beta):
    rng = np.random.default_rng(seed)
    point, reward = rng.normal(scale=2.0, size=n_actions), rng.normal(size=n_actions)
    action_prob = softmax(point[None], inverse_temperature=beta)[0]

    def prob(score):
        return softmax(score[None], inverse_temperature=beta)[0]

    found = [
        finite_difference_hessian(lambda score: prob(score)[0], point),
        finite_difference_hessian(lambda score: np.log(prob(score)[0]), point),
        finite_difference_hessian(lambda score: prob(score) @ reward, point),
    ]
    first = np.eye(n_actions)[0]
    expected = [
        expected_reward_hessian(action_prob, first),
        log_prob_hessian(action_prob),
        expected_reward_hessian(action_prob, reward),
    ]
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, beta**2 * right, atol=1e-5)
    bounds = [
        theory.softmax_smoothness(beta),
        theory.log_softmax_smoothness(n_actions, beta),
        beta**2 * theory.expected_reward_smoothness(reward[None])[0],
    ]
    for hessian, bound in zip(expected, bounds, strict=True):
        assert largest(beta**2 * hessian) <= bound * SLACK


@given(seed=st.integers(0, 10_000), n_actions=st.integers(2, 50))
@settings(max_examples=100, deadline=None)
def test_second_derivative_of_a_set_is_the_formula_of_the_proof_and_within_its_bound(seed, n_actions):
    """``P(1-P) [(1-2P) D + V - V']``, at most ``P(1-P) max(1/2, 2(1-2P))``; one action is a set too."""
    rng = np.random.default_rng(seed)
    action_prob = softmax(rng.normal(scale=3.0, size=n_actions)[None])[0]
    inside = rng.permutation(n_actions) < rng.integers(1, n_actions)
    direction = rng.normal(size=n_actions)
    direction /= np.linalg.norm(direction)

    def moments(chosen):
        share = action_prob[chosen] / action_prob[chosen].sum()
        mean = share @ direction[chosen]
        return mean, share @ (direction[chosen] - mean) ** 2

    (mean, variance), (other_mean, other_variance) = moments(inside), moments(~inside)
    p = action_prob[inside].sum()
    second = p * (1 - p) * ((1 - 2 * p) * (mean - other_mean) ** 2 + variance - other_variance)
    hessian = expected_reward_hessian(action_prob, inside.astype(float))
    assert direction @ hessian @ direction == pytest.approx(second, abs=1e-13)
    assert variance + mean**2 / 2 <= (direction[inside] ** 2).sum() / 2 * SLACK
    upper = np.linalg.eigvalsh(hessian)[-1]
    assert upper <= p * (1 - p) * max(0.5, 2 * (1 - 2 * p)) + 1e-14


@pytest.mark.parametrize("n_actions", N_ACTIONS)
def test_no_policy_exceeds_the_sharp_constants_and_two_actions_attain_them(n_actions):
    first = np.eye(n_actions)[0]
    policies = [*random_probs(n_actions, 150), *two_action_extremes(n_actions)]
    prob_max = max(largest(expected_reward_hessian(action_prob, first)) for action_prob in policies)
    log_max = max(largest(log_prob_hessian(action_prob)) for action_prob in policies)
    assert prob_max <= SHARP * SLACK
    assert prob_max == pytest.approx(SHARP, abs=1e-6)
    assert log_max <= 0.5 * SLACK
    assert log_max == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("n_actions", range(2, 51))
def test_no_random_direction_exceeds_the_sharp_constants(n_actions):
    """Second derivatives from moments, ``pi_a ((u_a - E u)² - Var u)`` and ``-Var u``, without a Hessian."""
    rng = np.random.default_rng(n_actions)
    n_draws = 2000
    concentration = 10.0 ** rng.uniform(-2.0, 1.0, size=(n_draws, 1))
    draws = rng.gamma(np.broadcast_to(concentration, (n_draws, n_actions))) + 1e-300
    action_prob = draws / draws.sum(axis=1, keepdims=True)
    direction = rng.normal(size=(n_draws, n_actions)) * (rng.random((n_draws, n_actions)) < 2.0 / n_actions)
    direction[:, 0] += 1e-3  # sparse directions are the dangerous ones, but none may be zero
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    centred = direction - (action_prob * direction).sum(axis=1, keepdims=True)
    variance = (action_prob * centred**2).sum(axis=1, keepdims=True)
    assert np.abs(action_prob * (centred**2 - variance)).max() <= SHARP * SLACK
    assert variance.max() <= 0.5 * SLACK


@pytest.mark.parametrize("n_actions", [2, 3, 4, 6])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_search_from_random_starts_climbs_to_the_sharp_constant_and_stops(n_actions, sign):
    first = np.eye(n_actions)[0]

    def descent(score):
        return -np.linalg.eigvalsh(sign * expected_reward_hessian(softmax(score[None])[0], first))[-1]

    starts = np.random.default_rng(n_actions).normal(scale=2.0, size=(6, n_actions))
    found = -min(minimize(descent, start, method="BFGS", options={"gtol": 1e-9}).fun for start in starts)
    assert found <= SHARP * SLACK
    assert found == pytest.approx(SHARP, abs=1e-6)


@pytest.mark.parametrize("n_actions", N_ACTIONS)
def test_no_expected_reward_exceeds_its_range_times_the_sharp_constant(n_actions):
    rng = np.random.default_rng(n_actions)
    for action_prob in [*random_probs(n_actions, 100), *two_action_extremes(n_actions)]:
        mask = rng.random(n_actions) < rng.uniform(0.2, 1.0)
        mask[rng.integers(n_actions)] = True
        reward = rng.choice(
            [rng.normal(size=n_actions), rng.normal(size=n_actions) ** 5, rng.integers(0, 2, n_actions)]
        )
        masked_prob = np.where(mask, action_prob + 1e-12, 0.0)
        hessian = expected_reward_hessian(masked_prob / masked_prob.sum(), np.where(mask, reward, 0.0))
        bound = theory.expected_reward_smoothness(reward[None], action_mask=mask[None])[0]
        assert bound == pytest.approx(np.ptp(reward[mask]) * SHARP)
        assert largest(hessian) <= bound * SLACK + 1e-15 * np.abs(reward).max()


def test_smoothness_of_an_expected_reward_ignores_constants_and_ineligible_actions():
    reward = np.array([[1.0, 3.0, np.nan], [5.0, 5.0, 5.0], [7.0, -np.inf, 0.0]])
    mask = np.array([[True, True, False], [True, True, True], [True, False, False]])
    assert theory.expected_reward_smoothness(reward, action_mask=mask).tolist() == [2.0 * SHARP, 0.0, 0.0]
    assert theory.expected_reward_smoothness(reward, action_mask=mask, smoothness="paper").tolist() == [1.0, 0.0, 0.0]


def test_one_hot_estimate_is_as_smooth_as_the_loss_of_the_logged_action():
    value = np.array([2.0, -3.0, 0.0])
    reward = value[:, None] * np.eye(3)
    for smoothness in ("sharp", "paper"):
        expected = theory.loss_smoothness(value, smoothness=smoothness)
        found = theory.expected_reward_smoothness(reward, smoothness=smoothness)
        np.testing.assert_allclose(found, expected)


def test_paper_smoothness_is_that_of_the_lemmas_and_propositions():
    assert theory.softmax_smoothness(smoothness="paper") == 0.5
    assert theory.softmax_smoothness(3.0, smoothness="paper") == 4.5
    assert theory.log_softmax_smoothness(4, 2.0, smoothness="paper") == 3.0
    assert theory.log_softmax_smoothness(inverse_temperature=2.0, smoothness="paper") == 4.0
    value = np.array([2.0, -2.0, 0.0]) / 0.5
    assert theory.loss_smoothness(value, smoothness="paper").tolist() == [2.0, 2.0, 0.0]
    assert theory.surrogate_loss_smoothness(value, smoothness="paper").tolist() == [4.0, 2.0, 0.0]


def test_sharp_smoothness_is_the_default_and_scales_with_the_weighted_reward():
    assert theory.softmax_smoothness(3.0) == pytest.approx(9.0 * SHARP)
    assert theory.log_softmax_smoothness(4, 2.0) == theory.log_softmax_smoothness(inverse_temperature=2.0) == 2.0
    value = np.array([4.0, -4.0, 0.0])
    np.testing.assert_allclose(theory.loss_smoothness(value), [4.0 * SHARP, 4.0 * SHARP, 0.0])
    np.testing.assert_allclose(theory.surrogate_loss_smoothness(value), [2.0, 4.0 * SHARP, 0.0])


@pytest.mark.parametrize("n_actions", [2, 3, 50])
def test_sharp_constants_never_exceed_the_papers(n_actions):
    assert theory.softmax_smoothness() < theory.softmax_smoothness(smoothness="paper")
    assert theory.log_softmax_smoothness(n_actions) <= theory.log_softmax_smoothness(n_actions, smoothness="paper")


def test_unknown_smoothness_is_refused_by_every_function():
    functions = [
        theory.softmax_smoothness,
        theory.log_softmax_smoothness,
        lambda smoothness: theory.loss_smoothness(np.ones(1), smoothness=smoothness),
        lambda smoothness: theory.surrogate_loss_smoothness(np.ones(1), smoothness=smoothness),
        lambda smoothness: theory.expected_reward_smoothness(np.ones((1, 2)), smoothness=smoothness),
        lambda smoothness: theory.theorem_1_bound(1.0, [1.0], 1.0, smoothness=smoothness),
    ]
    for function in functions:
        with pytest.raises(ValueError, match="smoothness must be one of 'sharp', 'paper'; got 'loose'"):
            function(smoothness="loose")
