"""The softmax policy of a score matrix (Eq. "softmax_ensemble_policy" of the paper)."""

from __future__ import annotations

import numpy as np

from bopl._typing import BoolArray, FloatArray


def log_softmax(score: FloatArray, action_mask: BoolArray | None = None) -> FloatArray:
    """Return log-probabilities of the softmax policy, row by row.

    Parameters
    ----------
    score : ndarray of shape (n_samples, n_actions)
        Scores before the softmax.
    action_mask : boolean ndarray of shape (n_samples, n_actions), optional
        Ineligible actions have probability zero, and log-probability -inf.

    Returns
    -------
    log_prob : ndarray of shape (n_samples, n_actions)
        ``score - log(sum(exp(score)))``; rows of ``exp(log_prob)`` sum to one.
    """
    # Subtract the row maximum first: scores grow with every round and exp overflows.
    eligible = score if action_mask is None else np.where(action_mask, score, -np.inf)
    shifted = eligible - eligible.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))  # the sum is at least 1, so its logarithm is finite
    return shifted


def softmax(score: FloatArray, *, inverse_temperature: float = 1.0, action_mask: BoolArray | None = None) -> FloatArray:
    """Return action probabilities ``exp(beta F) / sum exp(beta F)``.

    Parameters
    ----------
    score : ndarray of shape (n_samples, n_actions)
        Scores before the softmax.
    inverse_temperature : float in [0, inf], default=1
        beta: 0 is the uniform policy, infinity puts all probability on the highest score (the first, among ties).
    action_mask : boolean ndarray of shape (n_samples, n_actions), optional
        Ineligible actions have probability zero.
    """
    if action_mask is not None:
        score = np.where(action_mask, score, -np.inf)
    if inverse_temperature == np.inf:
        action_prob = np.zeros(score.shape)
        action_prob[np.arange(len(score)), score.argmax(axis=1)] = 1.0
        return action_prob
    # Shift before scaling: the largest exponent is exactly zero.
    shifted = score - score.max(axis=1, keepdims=True)
    if inverse_temperature == 0.0:
        shifted = np.where(np.isneginf(shifted), -np.inf, 0.0)  # 0 · -inf would be NaN
        inverse_temperature = 1.0
    action_prob = np.exp(inverse_temperature * shifted)
    action_prob /= action_prob.sum(axis=1, keepdims=True)
    return action_prob


def both_classes(coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a row for each of two classes, where scikit-learn stores one and the softmax needs both."""
    if len(coef) > 1:
        return coef, intercept
    return np.vstack([np.zeros_like(coef), coef]), np.concatenate([np.zeros_like(intercept), intercept])
