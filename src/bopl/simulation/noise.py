"""Noisy rewards: a right action often fails, a wrong one sometimes succeeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bopl._settings import check_number
from bopl.log import BanditLog
from bopl.simulation.simulated_problem import SimulatedProblem

RIGHT_REWARD = 1.0  # of a right action with deterministic rewards; less is partial credit, and not right


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
