"""Simulated problems: what a logging policy would have written about labelled data, together with the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bopl._settings import check_number
from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log import BanditLog
from bopl.policy.policy import Policy
from bopl.simulation.conversion import reward_matrix, supervised_to_bandit, true_value
from bopl.simulation.logging_policy import fit_logging_policy

LOGGING_SHARE = 0.1  # of the training part, to fit the logging policy
RIGHT_REWARD = 1.0  # of a right action with deterministic rewards; less is partial credit, and not right
N_MEASURED = 20_000  # contexts on which the logging policy's reward is measured while its penalty is solved for


@dataclass(frozen=True)
class Dataset:
    """Labelled data with the reward of every action.

    Attributes
    ----------
    name : str
    context : float32 ndarray of shape (n_samples, n_features)
    reward : ndarray of shape (n_samples, n_actions)
    actions : ndarray of shape (n_actions,)
        Class numbers.
    action_names : ndarray of str of shape (n_actions,)
    logging_reward : float
        Reward of the logging policy.
    """

    name: str
    context: FloatArray
    reward: FloatArray
    actions: AnyArray
    action_names: AnyArray
    logging_reward: float


@dataclass(frozen=True)
class Split:
    """Row numbers of the three parts."""

    train: IntArray
    validation: IntArray
    test: IntArray


@dataclass(frozen=True)
class SimulatedProblem:
    """Logs of one logging policy on disjoint contexts, and the truth that a real log hides.

    Attributes
    ----------
    train, validation, test : BanditLog
    validation_reward, test_reward : ndarray of shape (n_samples, n_actions)
        Reward of every action on the contexts of those logs.
    logging_policy : Policy
    """

    train: BanditLog
    validation: BanditLog
    test: BanditLog
    validation_reward: FloatArray
    test_reward: FloatArray
    logging_policy: Policy

    @property
    def logging_value(self) -> float:
        """Expected reward of the logging policy on the test contexts."""
        return float((self.logging_policy.predict_proba(self.test.context) * self.test_reward).sum(axis=1).mean())

    def true_value(self, policy: Policy, *, is_greedy: bool = True) -> float:
        """Return the true reward of a policy on the test contexts.

        By default it takes its most probable actions; ``is_greedy=False`` lets it sample, which is what `bopl.evaluate`
        estimates.
        """
        return true_value(policy, self.test.context, self.test_reward, is_greedy=is_greedy)

    def validation_value(self, policy: Policy) -> float:
        """Return the same on the validation contexts, by which the paper chooses hyperparameters."""
        return true_value(policy, self.validation.context, self.validation_reward)


def simulate(dataset: Dataset, split: Split, *, trial: int = 0, epsilon: float = 0.0) -> SimulatedProblem:
    """Simulate one trial: a tenth of the training part fits the logging policy, which logs the rest.

    Parameters
    ----------
    dataset : Dataset
        Labelled data.
    split : Split
        Rows for training, validation and test.
    trial : int
        Determines the tenth, and seeds the drawn actions.
    epsilon : float in [0, 1], default=0
        Share of uniform exploration in the logging policy: no propensity is below ``epsilon / n_actions``.
    """
    context, reward = dataset.context, dataset.reward
    order = np.random.default_rng([trial, 1]).permutation(split.train)
    n_logging = round(LOGGING_SHARE * len(order))
    logging, target = order[:n_logging], order[n_logging:]
    measured = target[:N_MEASURED]
    policy = fit_logging_policy(
        context[logging],
        reward[logging],
        actions=dataset.actions,
        target_reward=dataset.logging_reward,
        epsilon=epsilon,
        evaluation=(context[measured], reward[measured]),
    )

    def logged(rows: IntArray, part: int) -> BanditLog:
        return supervised_to_bandit(context[rows], reward[rows], policy, random_state=1000 * trial + part)

    return SimulatedProblem(
        train=logged(target, 0),
        validation=logged(split.validation, 1),
        test=logged(split.test, 2),
        validation_reward=reward[split.validation],
        test_reward=reward[split.test],
        logging_policy=policy,
    )


def digits_dataset() -> Dataset:
    """Return scikit-learn's digits: 1797 of them, 64 features, 10 actions."""
    from sklearn.datasets import load_digits

    context, label = load_digits(return_X_y=True)
    actions = np.arange(10)
    return Dataset(
        "digits", context.astype(np.float32), reward_matrix(label, actions), actions, actions.astype(str), 0.5
    )


def simulate_digits(*, random_state: int = 0) -> SimulatedProblem:
    """Simulate a log of scikit-learn's digits: 64 features, 10 actions, a logging reward of about 0.5."""
    dataset = digits_dataset()
    order = np.random.default_rng(random_state).permutation(len(dataset.context))
    test, validation, train = np.split(order, [round(0.2 * len(order)), round(0.25 * len(order))])
    return simulate(dataset, Split(train=train, validation=validation, test=test), trial=random_state)


def with_noisy_rewards(
    problem: SimulatedProblem, *, right: float = 0.6, wrong: float = 0.2, random_state: int = 0
) -> SimulatedProblem:
    """Return the problem with random rewards: 1 with one probability for right actions and another for wrong ones.

    Contexts, logged actions and propensities stay. An action is right if its deterministic reward is 1; with
    several labels, each true one is right. The rewards of all actions, ``validation_reward`` and
    ``test_reward``, become 1 for right actions and 0 for others: values of policies are shares of right actions, and
    as rewards they would be ``wrong + (right - wrong) · share``.

    Parameters
    ----------
    problem : SimulatedProblem
        A problem with deterministic rewards.
    right, wrong : float in [0, 1]
        Probability of a reward of 1.
    random_state : int
        Seed of the drawn rewards.
    """
    check_number("right", right, low=0.0, high=1.0)
    check_number("wrong", wrong, low=0.0, high=1.0)
    streams = np.random.default_rng([random_state, 4]).spawn(3)

    def drawn(log: BanditLog, rng: np.random.Generator) -> BanditLog:
        chance = np.where(log.reward == RIGHT_REWARD, right, wrong)
        return log.with_reward(rng.random(log.n_samples) < chance)

    return replace(
        problem,
        train=drawn(problem.train, streams[0]),
        validation=drawn(problem.validation, streams[1]),
        test=drawn(problem.test, streams[2]),
        validation_reward=(problem.validation_reward == RIGHT_REWARD).astype(np.float64),
        test_reward=(problem.test_reward == RIGHT_REWARD).astype(np.float64),
    )
