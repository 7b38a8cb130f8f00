"""Small logs for races: worlds whose best policy is known."""

from dataclasses import dataclass

import numpy as np

import bopl
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

N_NEW = 4000  # fresh contexts on which policies are compared with the truth


@dataclass(frozen=True)
class Truth:
    """Fresh contexts of a world, what every action earns there, and what the logging policy does."""

    context: np.ndarray
    reward_mean: np.ndarray
    logging_prob: np.ndarray

    def value(self, action):
        """Return what these actions earn."""
        return float(self.reward_mean[np.arange(len(action)), np.asarray(action, np.intp)].mean())

    @property
    def logging_value(self):
        """What the logging policy's most probable action earns."""
        return self.value(self.logging_prob.argmax(axis=1))


def simulate(context, reward_mean, logging_prob, rng):
    """Return a log of clicks: actions drawn by the logging policy, rewards 0 or 1."""
    action = draw_actions(logging_prob, rng)
    rows = np.arange(len(action))
    reward = (rng.random(len(action)) < reward_mean[rows, action]).astype(float)
    n_actions = reward_mean.shape[1]
    return bopl.BanditLog(context, action, reward, logging_prob[rows, action], actions=list(range(n_actions)))


def draw_world(reward_mean_of, logging_prob_of, *, n_samples, n_features, seed):
    """Return a log and the truth of a world given by two functions of the contexts."""
    rng = np.random.default_rng([seed, 11])
    context, new = rng.normal(size=(n_samples, n_features)), rng.normal(size=(N_NEW, n_features))
    log = simulate(context, reward_mean_of(context), logging_prob_of(context), rng)
    return log, Truth(new, reward_mean_of(new), logging_prob_of(new))


def uniform(n_actions):
    """Return the logging policy that knows nothing."""
    return lambda context: np.full((len(context), n_actions), 1.0 / n_actions)


def certain_world(seed=0, *, n_samples=1200):
    """Rewards are 1 for the action that the signs of two columns name and 0 for the other three; uniform logging."""

    def reward_mean(context):
        return np.eye(4)[(context[:, 0] > 0) + 2 * (context[:, 1] * context[:, 0] > 0)]

    return draw_world(reward_mean, uniform(4), n_samples=n_samples, n_features=3, seed=seed)


def knowing_world(seed=0, *, n_samples=1200):
    """The logging policy mostly takes the best of five actions already, and rewards are noisy: .6 against .2."""
    weight = np.random.default_rng(5).normal(size=(4, 5))

    def reward_mean(context):
        return 0.2 + 0.4 * np.eye(5)[(context @ weight).argmax(axis=1)]

    def logging_prob(context):
        return 0.9 * softmax(context @ weight, inverse_temperature=3.0) + 0.1 / 5

    return draw_world(reward_mean, logging_prob, n_samples=n_samples, n_features=4, seed=seed)


def noise_world(seed=0, *, n_samples=1200, n_actions=4, rate=0.3, strength=0.7):
    """Rewards do not depend on the action, whatever the logging policy believes."""
    weight = strength * np.random.default_rng([seed, 6]).normal(size=(4, n_actions))
    return draw_world(
        lambda context: np.full((len(context), n_actions), rate),
        lambda context: softmax(context @ weight),
        n_samples=n_samples,
        n_features=4,
        seed=seed,
    )
