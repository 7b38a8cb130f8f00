"""Weak learning: Eq. "weak_learning_condition", and the appendix "Boosting via Binary Classification"."""

from __future__ import annotations

import numpy as np

from bopl._typing import FloatArray
from bopl.log import BanditLog


def weak_learning_edge(log: BanditLog, action_prob: FloatArray, prediction: FloatArray) -> float:
    """Return how much better a predictor does on the logged actions than on the current policy's own.

    ``sum_i omega_i sgn(r_i) (f(x_i, a_i) - E_{a ~ pi}[f(x_i, a)])`` with ``omega_i ∝ |r_i|/p_i · pi(a_i | x_i)``
    summing to one. Boosting goes on as long as it is not zero.

    Parameters
    ----------
    log : BanditLog
        Samples of the round.
    action_prob : ndarray of shape (n_samples, n_actions)
        The ensemble policy before the round.
    prediction : ndarray of shape (n_samples, n_actions)
        The round's predictor on the same contexts.
    """
    # (onehot(a_i) - pi)' f is the difference to the policy's mean: the edge is the slope of the risk along f,
    # normalised.
    rows = np.arange(log.n_samples)
    omega = np.abs(log.reward) / log.propensity * action_prob[rows, log.action_idx]
    advantage = prediction[rows, log.action_idx] - (action_prob * prediction).sum(axis=1)
    total = omega.sum()
    return float((omega * np.sign(log.reward) * advantage).sum() / total) if total > 0.0 else 0.0


def error_rate(gradient: FloatArray, prediction: FloatArray) -> float:
    """Return the weighted error of a {-1, +1} predictor (Eq. "weighted_error_rate"); 1/2 is guessing.

    Labels are ``sgn(G)`` and weights ``|G|``, so that ``1 - 2 · error_rate = sum(G·f) / sum(|G|)``.
    """
    weight = np.abs(gradient)
    total = weight.sum()
    return float((weight * (np.sign(gradient) != prediction)).sum() / total) if total > 0.0 else 0.5
