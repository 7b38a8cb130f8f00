"""Worlds with a known truth: finitely many contexts, so that the value of every policy is an exact sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._typing import FloatArray, IntArray
from bopl.log import BanditLog
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

N_CONTEXTS, N_FEATURES = 200, 4


@dataclass(frozen=True)
class WorldSample:
    """A log of a world, with the truth about its rows.

    Attributes
    ----------
    log : BanditLog
    policy_prob, logging_prob, reward_hat : ndarray of shape (n_samples, n_actions)
        Probabilities of the evaluated and of the logging policy, and predictions of a reward model fitted elsewhere.
    """

    log: BanditLog
    policy_prob: FloatArray
    logging_prob: FloatArray
    reward_hat: FloatArray


@dataclass(frozen=True)
class World:
    """Contexts that are equally likely, two policies, and the mean reward of every action.

    A reward is ``low`` or ``high``, the latter with the probability that gives the mean reward: so its range is known.

    Attributes
    ----------
    name : str
    context : ndarray of shape (n_contexts, n_features)
    policy_prob, logging_prob : ndarray of shape (n_contexts, n_actions)
    reward_mean, reward_hat : ndarray of shape (n_contexts, n_actions)
        The truth, and a reward model that is off by a fixed amount.
    reward_range : (float, float)
    n_samples : int
        Length of a log.
    """

    name: str
    context: FloatArray
    policy_prob: FloatArray
    logging_prob: FloatArray
    reward_mean: FloatArray
    reward_hat: FloatArray
    reward_range: tuple[float, float]
    n_samples: int

    @property
    def value(self) -> float:
        """What the policy earns."""
        return float((self.policy_prob * self.reward_mean).sum(axis=1).mean())

    @property
    def logging_value(self) -> float:
        """What the logging policy earns."""
        return float((self.logging_prob * self.reward_mean).sum(axis=1).mean())

    @property
    def min_propensity(self) -> float:
        """Smallest probability with which the logging policy takes an action."""
        return float(self.logging_prob.min())

    def sample(self, random_state: int, *, n_samples: int | None = None) -> WorldSample:
        """Draw a log."""
        rng = np.random.default_rng([random_state, len(self.name)])
        at = rng.integers(len(self.context), size=self.n_samples if n_samples is None else n_samples)
        logging_prob = self.logging_prob[at]
        action = draw_actions(logging_prob, rng)
        log = BanditLog(
            self.context[at],
            action,
            self._draw_reward(at, action, rng),
            logged_entries(logging_prob, action),
            actions=list(range(self.logging_prob.shape[1])),
        )
        return WorldSample(log, self.policy_prob[at], logging_prob, self.reward_hat[at])

    def _draw_reward(self, at: IntArray, action: IntArray, rng: np.random.Generator) -> FloatArray:
        low, high = self.reward_range
        chance = (self.reward_mean[at, action] - low) / (high - low)
        return np.where(rng.random(len(at)) < chance, high, low)


def make_world(
    name: str,
    *,
    n_actions: int = 5,
    sharpness: float = 1.0,
    exploration: float = 0.2,
    distance: float = 1.0,
    reward_range: tuple[float, float] = (0.0, 1.0),
    rate: float = 0.4,
    n_samples: int = 2000,
    seed: int = 0,
) -> World:
    """Return a world.

    Parameters
    ----------
    name : str
        Name of the world.
    n_actions : int
        Number of actions.
    sharpness : float
        Sharpness of the logging policy's softmax: how far it is from uniform.
    exploration : float in (0, 1]
        Share of uniform exploration of the logging policy: its smallest propensity is at least this over n_actions.
    distance : float
        0: the policy follows the logging policy's score, without its exploration; 1: it follows another score; more:
        it does so more sharply.
    reward_range : (float, float)
        Minimum and maximum reward.
    rate : float in (0, 1)
        Mean reward of a typical action, as a share of the range.
    n_samples : int
        Size of the logs that are drawn.
    seed : int
        Seed of the world.
    """
    rng = np.random.default_rng([seed, 7])
    context = rng.normal(size=(N_CONTEXTS, N_FEATURES))
    score, other = (context @ rng.normal(size=(N_FEATURES, n_actions)) for _ in range(2))
    logging_prob = (1.0 - exploration) * softmax(score, inverse_temperature=sharpness) + exploration / n_actions
    mixed = min(distance, 1.0) * other + (1.0 - min(distance, 1.0)) * score
    policy_prob = softmax(mixed, inverse_temperature=sharpness * max(distance, 1.0))
    chance = np.clip(rate * np.exp(0.4 * rng.normal(size=score.shape) + 0.2 * other), 0.0, 1.0)
    low, high = reward_range
    reward_mean = low + (high - low) * chance
    reward_hat = np.clip(reward_mean + 0.2 * rate * (high - low) * rng.normal(size=score.shape), low, high)
    return World(name, context, policy_prob, logging_prob, reward_mean, reward_hat, reward_range, n_samples)


def coverage_worlds() -> dict[str, World]:
    """Return the worlds on which the coverage of intervals is tested, by name."""
    worlds = (
        make_world("plain"),
        make_world("rare rewards", rate=0.01, n_samples=20_000),
        make_world("negative rewards", reward_range=(-1.0, 0.5)),
        make_world("small propensities", sharpness=2.0, exploration=0.01, n_samples=20_000),
        make_world("many actions", n_actions=100, exploration=0.5, n_samples=4000),
        make_world("close policy", distance=0.1),
        make_world("far policy", distance=3.0, n_samples=4000),
    )
    return {world.name: world for world in worlds}


def hopeless_world() -> World:
    """Return a world whose policy prefers what the logging policy hardly ever does: no log of it can answer."""
    return make_world("hopeless", n_actions=20, sharpness=4.0, exploration=1e-5, distance=2.0, n_samples=1000)
