import os
import subprocess
import sys

import numpy as np
import pytest

import bopl
from bopl.simulation import (
    LinearLoggingPolicy,
    Split,
    fit_logging_policy,
    reward_matrix,
    simulate,
    simulate_digits,
    supervised_to_bandit,
    true_value,
)
from bopl.simulation.simulated_problem import digits_dataset


def test_reward_matrix_of_classes_pays_for_the_true_one_and_a_quarter_for_its_group():
    reward = reward_matrix(["a", "c"], np.array(["a", "b", "c"]), partial_credit=[("a", "b")])
    np.testing.assert_array_equal(reward, [[1.0, 0.25, 0.0], [0.0, 0.0, 1.0]])


def test_reward_matrix_of_several_labels_pays_for_each():
    np.testing.assert_array_equal(reward_matrix(np.array([[1, 0, 1]]), np.arange(3)), [[1.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("label", "settings", "message"),
    [
        (["a", "z"], {}, "label holds 'z', which is not among the actions 'a', 'b', 'c'"),
        (["a"], {"partial_credit": [("a", "y")]}, "partial_credit holds 'y', which is not among the actions"),
        ([[1, 0]], {}, "label must have one column per action: it has 2, and there are 3 actions"),
        ([[1, 0, 2]], {}, "label must hold 0 and 1 where it has several columns; got 2"),
        ([[1, 0, np.nan]], {}, "label must hold 0 and 1 where it has several columns; got nan"),
    ],
)
def test_labels_that_are_no_actions_are_refused(label, settings, message):
    with pytest.raises(ValueError, match=message):
        reward_matrix(label, np.array(["a", "b", "c"]), **settings)


def test_log_shows_the_reward_and_propensity_of_the_drawn_action_only():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(200, 3))
    policy = LinearLoggingPolicy(np.array(["a", "b"]), rng.normal(size=(3, 2)), np.zeros(2), epsilon=0.1)
    reward = rng.random((200, 2))
    log = supervised_to_bandit(context, reward, policy, random_state=1)
    rows = np.arange(200)
    np.testing.assert_array_equal(log.reward, reward[rows, log.action_idx])
    np.testing.assert_array_equal(log.propensity, policy.predict_proba(context)[rows, log.action_idx])
    assert log.propensity.min() >= 0.05
    assert supervised_to_bandit(context, reward, policy, random_state=1).fingerprint() == log.fingerprint()


def test_importance_weights_of_a_simulated_log_recover_the_truth_of_another_policy():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(40_000, 2))
    actions = np.arange(3)
    logging = LinearLoggingPolicy(actions, rng.normal(size=(2, 3)), np.zeros(3), epsilon=0.2)
    other = LinearLoggingPolicy(actions, rng.normal(size=(2, 3)), np.zeros(3))
    reward = rng.random((40_000, 3)) * actions
    log = supervised_to_bandit(context, reward, logging, random_state=2)
    weight = other.predict_proba(context)[np.arange(40_000), log.action_idx] / log.propensity
    truth = (other.predict_proba(context) * reward).sum(axis=1).mean()
    error = np.std(weight * log.reward) / np.sqrt(40_000)
    assert abs((weight * log.reward).mean() - truth) < 4 * error


def test_rewards_that_do_not_match_the_policy_are_refused():
    policy = LinearLoggingPolicy(np.arange(2), np.zeros((1, 2)), np.zeros(2))
    with pytest.raises(ValueError, match=r"one column per action: it has shape \(3, 5\)"):
        supervised_to_bandit(np.zeros((3, 1)), np.zeros((3, 5)), policy)


def test_logging_policy_meets_its_target_reward():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(500, 4))
    reward = reward_matrix(context[:, :3].argmax(axis=1), np.arange(3))
    for target in (0.4, 0.6, 0.8):
        policy = fit_logging_policy(context, reward, actions=np.arange(3), target_reward=target)
        assert (policy.predict_proba(context) * reward).sum(axis=1).mean() == pytest.approx(target, abs=1e-3)
    weakest = 1 / 3  # uniform
    with pytest.raises(ValueError, match=rf"reward 0\.05: the weakest earns {weakest:.4f}, the strongest (0\.9|1\.0)"):
        fit_logging_policy(context, reward, actions=np.arange(3), target_reward=0.05)
    with pytest.warns(UserWarning, match=rf"earns {weakest:.4f}, 0\.0100 off the requested"):
        fit_logging_policy(context, reward, actions=np.arange(3), target_reward=weakest - 0.01)


def test_a_logging_policy_needs_more_than_one_best_action():
    reward = np.tile([0.0, 1.0], (50, 1))
    with pytest.raises(ValueError, match="action b is the best of every row the logging policy is fitted on"):
        fit_logging_policy(np.ones((50, 1)), reward, actions=np.array(["a", "b"]), target_reward=0.6)


def test_digits_have_ten_actions_and_a_logging_reward_of_about_a_half():
    problem = simulate_digits(random_state=0)
    assert (problem.train.n_actions, problem.train.n_features) == (10, 64)
    assert problem.logging_value == pytest.approx(0.5, abs=0.05)
    assert problem.train.reward.mean() == pytest.approx(0.5, abs=0.05)


def test_a_simulated_log_does_not_depend_on_the_number_of_threads():
    code = "from bopl.simulation import simulate_digits; print(simulate_digits(random_state=2).train.fingerprint())"

    def fingerprint(threads):
        environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert fingerprint("1") == fingerprint("2") != ""


@pytest.mark.parametrize("name", ["bopl-regr", "bopl-s-regr"])
def test_policies_learned_from_the_digits_log_reach_ninety_percent(name):
    problem = simulate_digits(random_state=0)
    policy = bopl.paper_policy(
        name,
        n_rounds=150,
        max_depth=14,
        min_child_weight=20,
        reward_translation=-0.2,
        tree_method="hist",
        random_state=0,
    )
    policy.fit(problem.train)
    assert problem.true_value(policy) >= 0.90
    assert problem.true_value(policy) == true_value(policy, problem.test.context, problem.test_reward)


def test_exploration_bounds_the_propensities_of_a_simulated_log():
    train, validation, test = np.split(np.random.default_rng(0).permutation(1797), [1456, 1617])
    problem = simulate(digits_dataset(), Split(train, validation, test), trial=1, epsilon=0.2)
    assert problem.train.propensity.min() >= 0.02
    assert problem.logging_value == pytest.approx(0.5, abs=0.05)


def test_the_true_value_of_a_policy_that_samples_is_the_mean_of_its_actions_rewards():
    problem = bopl.simulation.simulate_digits(random_state=0)
    sampled = problem.true_value(problem.logging_policy, is_greedy=False)
    assert sampled == pytest.approx(problem.logging_value)
    assert problem.true_value(problem.logging_policy) > sampled
