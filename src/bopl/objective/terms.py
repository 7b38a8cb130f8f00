"""`RewardTerms`: one formula for every objective that is linear in the policy and its logarithm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl import theory
from bopl._exact import Limbs, value_of
from bopl._typing import FloatArray
from bopl.objective.training_data import TrainingData


@dataclass(frozen=True, eq=False)
class RewardTerms:
    """The estimated reward of a policy, sample by sample::

        linear · pi(a_i) + log · (ln pi(a_i) + 1) + sum_a pi(a) · dense(a)

    Its gradient in the scores is ``pull · (1{a = a_i} - pi(a)) + pi(a) · (dense(a) - sum pi·dense)`` with
    ``pull = linear · pi(a_i) + log``. An objective whose estimate has this form provides these numbers and is boosted
    by compiled code (`bopl.boosting.advance`); the methods here compute the same in numpy.

    Attributes
    ----------
    data : TrainingData
    linear, log : ndarray of shape (n_samples,)
        Coefficients of the probability and of the log-probability of the logged action; ``log`` is not negative.
    dense : ndarray of shape (n_samples, n_actions), optional
        Coefficients of all probabilities; column by column in memory.
    weight, curvature : ndarray of shape (n_samples,)
        Regression weight and smoothness of each sample.
    """

    data: TrainingData
    linear: FloatArray
    log: FloatArray
    dense: FloatArray | None
    weight: FloatArray
    curvature: FloatArray

    def gradient(self, log_prob: FloatArray) -> FloatArray:
        """Return the ascent direction of every sample's estimated reward; rows sum to zero."""
        action_prob = np.exp(log_prob)
        # Eq. "loss_gradient_wrt_ensemble" where the term is linear, Eq. "log_loss_gradient_wrt_ensemble" where it is a
        # logarithm: both are a number times (onehot(a_i) - pi), so that one ``pull`` serves both.
        pull = self.linear * self.data.logged(action_prob) + self.log
        gradient = -pull[:, None] * action_prob
        gradient[np.arange(len(pull)), self.data.action_idx] += pull
        if self.dense is not None:
            expected = (action_prob * self.dense).sum(axis=1, keepdims=True)
            gradient += action_prob * (self.dense - expected)
        return gradient

    def risk(self, log_prob: FloatArray) -> float:
        """Return the negative mean of the estimated rewards."""
        logged = self.data.logged(log_prob)
        with np.errstate(invalid="ignore"):  # 0 · -inf where a probability vanished and nothing depends on it
            value = self.linear * np.exp(logged) + np.where(self.log > 0.0, self.log * (logged + 1.0), 0.0)
        if self.dense is not None:
            value = value + (np.exp(log_prob) * self.dense).sum(axis=1)
        return float(-np.mean(value))

    def optimal_risk(self) -> float:
        """Return the infimum of the risk over all policies, or a lower bound of it; requires contexts."""
        return value_of(self.optimal_total(self.is_surrogate())) / self.data.n_samples

    def is_surrogate(self) -> bool:
        """Return whether there are logarithms, and no probabilities that are to grow."""
        return bool(self.log.any()) and not (self.linear > 0.0).any()

    def optimal_total(self, is_surrogate: bool) -> Limbs:
        """Return the optimal risk times the number of samples, as an exact sum.

        Parameters
        ----------
        is_surrogate : bool
            The value of `is_surrogate` on all samples, of which these may be a part.
        """
        value = self.linear + self.log  # v: one of the two is zero in each sample
        if self.dense is not None:
            gamma = self.dense.copy()
            gamma[np.arange(self.data.n_samples), self.data.action_idx] += value
            return theory.opt_total_of(gamma, self.data.log)
        if is_surrogate:
            return theory.opt_surrogate_total(self.data.log, value)
        return theory.opt_emp_total(self.data.log, value)  # where there are logarithms, a bound: ln pi + 1 <= pi
