"""What every estimator is built from: weights, rewards and reward predictions of some samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray

MIN_LOGGING_PROB = 1e-12  # where the logging policy never takes an action, its weight is large and no more


@dataclass(frozen=True)
class Terms:
    """Per-sample quantities of one policy on some rows of a log.

    Attributes
    ----------
    importance_weight : ndarray of shape (n_rows,)
        ``w_i = pi(a_i | x_i) / p_i``.
    reward : ndarray of shape (n_rows,)
    reward_hat : ndarray of shape (n_rows,), optional
        ``q(x_i, a_i)``: the reward model's prediction for the logged action.
    policy_reward_hat : ndarray of shape (n_rows,), optional
        ``q_pi(x_i) = sum_a pi(a | x_i) q(x_i, a)``.
    logging_reward_hat : ndarray of shape (n_rows,), optional
        The same sum for the logging policy; only where its probabilities of all actions are known.
    error : ndarray of shape (n_rows,), optional
        By which share rounding can have moved each propensity, where they look rounded.
    """

    importance_weight: FloatArray
    reward: FloatArray
    reward_hat: FloatArray | None = None
    policy_reward_hat: FloatArray | None = None
    logging_reward_hat: FloatArray | None = None
    error: FloatArray | None = None

    def at(self, rows: IntArray | BoolArray) -> Terms:
        """Return the terms of some of the rows."""
        return Terms(*(None if part is None else part[rows] for part in vars(self).values()))  # type: ignore[arg-type]

    def scaled(self, factor: FloatArray) -> Terms:
        """Return the terms with weights multiplied by ``factor``."""
        return replace(self, importance_weight=self.importance_weight * factor)

    def with_reward(self, reward: FloatArray) -> Terms:
        """Return the same weights with another reward, which no model predicts."""
        return Terms(self.importance_weight, reward, error=self.error)

    @property
    def modelled(self) -> tuple[FloatArray, FloatArray]:
        """``q_pi(x_i)`` and the residual ``r_i - q(x_i, a_i)``."""
        assert self.policy_reward_hat is not None
        assert self.reward_hat is not None
        return self.policy_reward_hat, self.reward - self.reward_hat

    @property
    def modelled_uplift(self) -> FloatArray:
        """What the reward model says the policy earns above the logging policy, sample by sample.

        ``q_pi(x) - q_pi0(x)`` where the logging policy's probabilities of all actions are known. Otherwise
        ``(w - 1)(q(x, a) - q_pi(x))``, which has the same expectation: ``E[w - 1 | x] = 0``, and
        ``E[(w - 1) q(x, a) | x]`` is that very difference. Both are exactly zero if the policy is the logging policy.
        """
        assert self.policy_reward_hat is not None
        assert self.reward_hat is not None
        if self.logging_reward_hat is not None:
            return self.policy_reward_hat - self.logging_reward_hat
        return (self.importance_weight - 1.0) * (self.reward_hat - self.policy_reward_hat)


@dataclass(frozen=True)
class Pilot:
    """Samples from which the settings of an estimator are chosen."""

    terms: Terms
    n_samples: int  # length of the whole log
    # (n_rows, n_actions): probabilities of all actions under the policy and under the logging policy, where both are
    # known
    action_prob: FloatArray | None = None
    logging_prob: FloatArray | None = None

    @property
    def largest_weight(self) -> float:
        """Largest importance weight, at least 1."""
        return max(float(self.terms.importance_weight.max()), 1.0)

    @cached_property
    def every_weight(self) -> tuple[FloatArray, FloatArray]:
        """Weights of all actions that the policy can take, logged or not, and their shares of its probability."""
        assert self.action_prob is not None
        assert self.logging_prob is not None
        taken = self.action_prob > 0.0
        share = self.action_prob[taken] / len(self.action_prob)
        weight = self.action_prob[taken] / np.maximum(self.logging_prob[taken], MIN_LOGGING_PROB)
        return weight, share / share.sum()
