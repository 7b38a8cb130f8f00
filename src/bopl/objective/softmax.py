"""The softmax policy of a score matrix (Eq. "softmax_ensemble_policy" of the paper)."""

from __future__ import annotations

import numpy as np

from bopl._typing import FloatArray


def log_softmax(score: FloatArray) -> FloatArray:
    """Return log-probabilities of the softmax policy, row by row.

    Parameters
    ----------
    score : ndarray of shape (n_samples, n_actions)

    Returns
    -------
    log_prob : ndarray of shape (n_samples, n_actions)
        ``score - log(sum(exp(score)))``; rows of ``exp(log_prob)`` sum to one.
    """
    # Subtract the row maximum first: scores grow with every round and exp overflows.
    shifted = score - score.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def softmax(score: FloatArray, *, inverse_temperature: float = 1.0) -> FloatArray:
    """Return action probabilities ``exp(beta F) / sum exp(beta F)``.

    Parameters
    ----------
    score : ndarray of shape (n_samples, n_actions)
    inverse_temperature : float in [0, inf], default=1
        beta: 0 is the uniform policy, infinity puts all probability on the highest score (the first, among ties).
    """
    if inverse_temperature == np.inf:
        action_prob = np.zeros(score.shape)
        action_prob[np.arange(len(score)), score.argmax(axis=1)] = 1.0
        return action_prob
    # Shift before scaling: 0 * inf cannot arise, and the largest exponent is exactly zero.
    action_prob = np.exp(inverse_temperature * (score - score.max(axis=1, keepdims=True)))
    action_prob /= action_prob.sum(axis=1, keepdims=True)
    return action_prob
