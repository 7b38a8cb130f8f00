"""A bandit problem from the handwritten digits that ship with scikit-learn: no download, a known truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.policy.base import Policy
from bopl.simulation.conversion import reward_matrix, supervised_to_bandit
from bopl.simulation.logging_policy import fit_logging_policy

LOGGING_REWARD = 0.5


@dataclass(frozen=True)
class SimulatedProblem:
    """Two logs of one logging policy, and the truth that a real log hides.

    Attributes
    ----------
    train, test : BanditLog
        What the logging policy wrote on two disjoint sets of contexts.
    test_reward : ndarray of shape (n_test, n_actions)
        Reward of every action on the test contexts.
    logging_policy : Policy
    logging_value : float
        Expected reward of the logging policy on the test contexts.
    """

    train: BanditLog
    test: BanditLog
    test_reward: FloatArray
    logging_policy: Policy

    @property
    def logging_value(self) -> float:
        """Expected reward of the logging policy on the test contexts."""
        return float((self.logging_policy.predict_proba(self.test.context) * self.test_reward).sum(axis=1).mean())


def simulate_digits(*, random_state: int = 0, test_fraction: float = 0.2) -> SimulatedProblem:
    """Simulate a log of digit images (64 features, 10 actions) whose logging policy earns about 0.5.

    A tenth of the training images fits the logging policy; it then chooses a digit for each of the others and for the
    test images, and earns 1 where it is right.
    """
    from sklearn.datasets import load_digits

    context, label = load_digits(return_X_y=True)
    order = np.random.default_rng(random_state).permutation(len(label))
    actions = np.arange(10)
    reward = reward_matrix(label, actions)
    n_test = round(test_fraction * len(label))
    n_logging = (len(label) - n_test) // 10
    test, logging, train = np.split(order, [n_test, n_test + n_logging])
    policy = fit_logging_policy(
        context[logging],
        reward[logging],
        actions=actions,
        target_reward=LOGGING_REWARD,
        evaluation=(context[train], reward[train]),
    )
    return SimulatedProblem(
        train=supervised_to_bandit(context[train], reward[train], policy, random_state=random_state),
        test=supervised_to_bandit(context[test], reward[test], policy, random_state=random_state + 1),
        test_reward=reward[test],
        logging_policy=policy,
    )
