"""Mixture worlds: many actions, each right in its own clusters, and a linear logging policy that knows a little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._settings import check_number
from bopl._typing import FloatArray, IntArray
from bopl.simulation.conversion import reward_matrix
from bopl.simulation.simulated_problem import LOGGING_SHARE, Dataset, SimulatedProblem, Split, simulate

N_VALIDATION, N_TEST = 1_000, 10_000
LOGGING_REWARD = 0.3
EXPLORATION = 0.02


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal distributions with unit variance; every action is right in its own clusters.

    Attributes
    ----------
    cluster : ndarray of shape (n_actions, n_clusters, n_features)
        Cluster centres. All clusters are equally likely.
    """

    cluster: FloatArray

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.cluster.shape[0]

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Return contexts of shape (n_samples, n_features), and the position of the right action of each."""
        n_actions, n_clusters, n_features = self.cluster.shape
        right, part = rng.integers(n_actions, size=n_samples), rng.integers(n_clusters, size=n_samples)
        context = self.cluster[right, part] + rng.normal(size=(n_samples, n_features))
        return context.astype(np.float32), right

    def density(self, context: FloatArray) -> FloatArray:
        """Return the density of each context among those of each action, up to a factor per row.

        The action with the largest is right most often: no policy has a higher share of right actions.
        """
        n_actions, n_clusters, n_features = self.cluster.shape
        centre = self.cluster.reshape(-1, n_features)
        score = context @ centre.T - 0.5 * (centre**2).sum(axis=1)  # the context's own square is the same for all
        score -= score.max(axis=1, keepdims=True)
        return np.asarray(np.exp(score).reshape(-1, n_actions, n_clusters).sum(axis=2))


def make_mixture(n_actions: int, *, n_features: int = 12, n_clusters: int = 2, seed: int = 0) -> Mixture:
    """Return a world: centres of actions are normal around the origin, their clusters normal around those, all unit.

    With 50 actions the best policy is right in about 0.87 of the contexts, with 200 in about 0.77.

    Parameters
    ----------
    n_actions : int
        Number of actions.
    n_features : int, default=12
        Number of context columns.
    n_clusters : int, default=2
        Clusters of every action: with more than one, a linear policy is not enough.
    seed : int, default=0
        Seed of the world.

    Examples
    --------
    >>> mixture = make_mixture(50)
    >>> context, right = mixture.sample(1000, np.random.default_rng(0))
    >>> bool((mixture.density(context).argmax(axis=1) == right).mean() > 0.8)
    True
    """
    check_number("n_actions", n_actions, low=2, integer=True)
    check_number("n_features", n_features, low=1, integer=True)
    check_number("n_clusters", n_clusters, low=1, integer=True)
    rng = np.random.default_rng([seed, n_actions])
    centre = rng.normal(size=(n_actions, 1, n_features))
    return Mixture(centre + rng.normal(size=(n_actions, n_clusters, n_features)))


def simulate_mixture(
    mixture: Mixture,
    *,
    trial: int = 0,
    n_samples: int = 20_000,
    logging_reward: float = LOGGING_REWARD,
    epsilon: float = EXPLORATION,
) -> SimulatedProblem:
    """Simulate a log of a mixture world; a right action earns 1, the others 0.

    The logging policy is linear, as in the paper's experiments: fitted on a ninth as many labelled samples as are
    logged, its penalty solved for so that it earns ``logging_reward``, and mixed with uniform exploration. By default
    its most probable action is right in about 0.67 of the contexts with 50 actions, and in 0.45 of those with 200.

    Parameters
    ----------
    mixture : Mixture
        The world, from `make_mixture`.
    trial : int
        Seed of all draws: contexts, labelled samples, logged actions.
    n_samples : int, default=20000
        Size of the training log.
    logging_reward : float, default=0.3
        Share of right actions of the logging policy as it samples.
    epsilon : float in [0, 1], default=0.02
        Share of uniform exploration.
    """
    n_train = round(n_samples / (1.0 - LOGGING_SHARE))
    context, right = mixture.sample(n_train + N_VALIDATION + N_TEST, np.random.default_rng([trial, 2]))
    actions = np.arange(mixture.n_actions)
    dataset = Dataset("mixture", context, reward_matrix(right, actions), actions, actions.astype(str), logging_reward)
    train, validation, test = np.split(np.arange(len(context)), [n_train, n_train + N_VALIDATION])
    return simulate(dataset, Split(train, validation, test), trial=trial, epsilon=epsilon)
