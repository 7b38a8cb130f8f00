"""Mixture worlds and noisy rewards."""

from dataclasses import replace

import numpy as np
import pytest

from bopl.simulation import make_mixture, simulate_digits, simulate_mixture, with_noisy_rewards


def test_a_mixture_is_fixed_by_its_seed_and_its_samples_by_the_trial():
    one, two = make_mixture(6, seed=1), make_mixture(6, seed=1)
    np.testing.assert_array_equal(one.cluster, two.cluster)
    assert one.cluster.shape == (6, 2, 12)
    assert not np.array_equal(one.cluster, make_mixture(6, seed=2).cluster)
    logs = [simulate_mixture(one, trial=trial, n_samples=300).train.fingerprint() for trial in (0, 0, 1)]
    assert logs[0] == logs[1] != logs[2]


def test_density_of_a_mixture_is_that_of_a_plain_loop():
    mixture = make_mixture(4, n_features=3)
    context, _ = mixture.sample(20, np.random.default_rng(0))
    plain = [
        [sum(np.exp(-0.5 * ((row - centre) ** 2).sum()) for centre in clusters) for clusters in mixture.cluster]
        for row in context.astype(float)
    ]
    found = mixture.density(context)
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), plain / np.sum(plain, axis=1, keepdims=True))


@pytest.mark.parametrize(("n_actions", "best", "logging"), [(50, 0.87, 0.67), (200, 0.77, 0.45)])
def test_worlds_are_as_hard_as_their_documentation_says(n_actions, best, logging):
    mixture = make_mixture(n_actions)
    context, right = mixture.sample(5_000, np.random.default_rng(0))
    assert (mixture.density(context).argmax(axis=1) == right).mean() == pytest.approx(best, abs=0.015)
    problem = simulate_mixture(mixture)
    assert (problem.train.n_samples, problem.test.n_samples) == (20_000, 10_000)
    assert problem.logging_value == pytest.approx(0.3, abs=0.02)
    assert problem.true_value(problem.logging_policy) == pytest.approx(logging, abs=0.015)
    assert problem.train.propensity.min() >= 0.02 / n_actions


@pytest.mark.parametrize(
    "settings", [{"n_actions": 1}, {"n_actions": 3, "n_features": 0}, {"n_actions": 3, "n_clusters": 0}]
)
def test_a_mixture_needs_actions_columns_and_clusters(settings):
    with pytest.raises(ValueError, match=rf"{list(settings)[-1]} must be at least"):
        make_mixture(**settings)


def test_noisy_rewards_come_with_the_frequencies_asked_for_and_change_nothing_else():
    certain = simulate_mixture(make_mixture(5), n_samples=20_000, logging_reward=0.5)
    noisy = with_noisy_rewards(certain, right=0.6, wrong=0.2, random_state=3)
    is_right = certain.train.reward == 1.0
    for rows, chance in ((is_right, 0.6), (~is_right, 0.2)):
        error = np.sqrt(chance * (1 - chance) / rows.sum())
        assert abs(noisy.train.reward[rows].mean() - chance) < 4 * error
    for part in ("train", "validation", "test"):
        before, after = getattr(certain, part), getattr(noisy, part)
        np.testing.assert_array_equal(before.context, after.context)
        np.testing.assert_array_equal(before.action_idx, after.action_idx)
        np.testing.assert_array_equal(before.propensity, after.propensity)
    assert noisy.logging_value == certain.logging_value
    again = with_noisy_rewards(certain, random_state=3)
    np.testing.assert_array_equal(again.train.reward, noisy.train.reward)
    assert not np.array_equal(with_noisy_rewards(certain, random_state=4).train.reward, noisy.train.reward)


def test_partial_credit_is_not_right():
    problem = simulate_digits(random_state=0)
    log = problem.train.with_reward(np.where(problem.train.reward == 1.0, 1.0, 0.25))
    noisy = with_noisy_rewards(replace(problem, train=log, test_reward=0.5 * problem.test_reward), right=1.0, wrong=0.0)
    np.testing.assert_array_equal(noisy.train.reward, problem.train.reward)
    assert not noisy.test_reward.any()


def test_noise_is_a_probability():
    with pytest.raises(ValueError, match="right must"):
        with_noisy_rewards(simulate_digits(random_state=0), right=1.5)
