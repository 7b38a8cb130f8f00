"""Smoothness: how much losses of a softmax policy bend (appendix "Smoothness"; docs/theory.md, "Sharp constants")."""

from __future__ import annotations

import math

import numpy as np

from bopl._settings import check_choice
from bopl._typing import BoolArray, FloatArray

# Bounds on the second derivative along any unit direction of the scores. "sharp" is attained, "paper" is not.
_SOFTMAX = {"sharp": math.sqrt(3.0) / 9.0, "paper": 0.5}
_LOG_SOFTMAX = {"sharp": 0.5, "paper": 1.0}


def softmax_smoothness(inverse_temperature: float = 1.0, *, smoothness: str = "sharp") -> float:
    """Return the smoothness coefficient of one softmax probability, or of the probability of a set of actions.

    Parameters
    ----------
    inverse_temperature : float, default=1
        beta: scores are multiplied by it before the softmax.
    smoothness : {"sharp", "paper"}, default="sharp"
        ``beta² √3/9``, the smallest possible coefficient, or the paper's ``beta² / 2`` (Lemma "softmax_smooth").

    Examples
    --------
    >>> round(softmax_smoothness(), 6)
    0.19245
    >>> softmax_smoothness(smoothness="paper")
    0.5
    """
    return inverse_temperature**2 * _constant(_SOFTMAX, smoothness)


def log_softmax_smoothness(
    n_actions: int | None = None, inverse_temperature: float = 1.0, *, smoothness: str = "sharp"
) -> float:
    """Return the smoothness coefficient of the logarithm of a softmax probability.

    Parameters
    ----------
    n_actions : int, optional
        Refines the paper's coefficient; the sharp one is the same for two actions and for a thousand.
    inverse_temperature : float, default=1
        beta: scores are multiplied by it before the softmax.
    smoothness : {"sharp", "paper"}, default="sharp"
        ``beta² / 2``, or the paper's ``beta² (1 - 1/|A|)`` (Lemma "log_softmax_smooth"), which is ``beta²`` without
        ``n_actions``.

    Examples
    --------
    >>> log_softmax_smoothness()
    0.5
    """
    coefficient = inverse_temperature**2 * _constant(_LOG_SOFTMAX, smoothness)
    if smoothness == "paper" and n_actions is not None:
        coefficient *= 1.0 - 1.0 / n_actions
    return coefficient


def loss_smoothness(weighted_reward: FloatArray, *, smoothness: str = "sharp") -> FloatArray:
    """Return the smoothness of the loss ``-v · pi(a_i)``: ``|v|`` times that of the softmax.

    Proposition "loss_function_smooth" has ``|v| / 2``.

    Parameters
    ----------
    weighted_reward : ndarray of shape (n_samples,)
        v: ``r / p`` or a regularised form of it.
    smoothness : {"sharp", "paper"}, default="sharp"
        Which coefficient: the smallest possible one, or the paper's.
    """
    return np.abs(weighted_reward) * softmax_smoothness(smoothness=smoothness)


def surrogate_loss_smoothness(weighted_reward: FloatArray, *, smoothness: str = "sharp") -> FloatArray:
    """Return the smoothness of the surrogate loss: ``v/2`` where v >= 0, ``|v| √3/9`` where v < 0.

    The paper has ``v`` (Proposition "log_loss_function_smooth") and ``|v| / 2``: samples with v < 0 keep the original
    loss.

    Parameters
    ----------
    weighted_reward : ndarray of shape (n_samples,)
        v: ``r / p`` or a regularised form of it.
    smoothness : {"sharp", "paper"}, default="sharp"
        Which coefficient: the smallest possible one, or the paper's.
    """
    negative, other = softmax_smoothness(smoothness=smoothness), log_softmax_smoothness(smoothness=smoothness)
    return np.abs(weighted_reward) * np.where(weighted_reward < 0.0, negative, other)


def expected_reward_smoothness(
    reward_estimate: FloatArray, *, smoothness: str = "sharp", action_mask: BoolArray | None = None
) -> FloatArray:
    """Return the smoothness of each row's ``sum_a pi(a) Gamma[i, a]``: the range of Gamma times that of the softmax.

    Parameters
    ----------
    reward_estimate : ndarray of shape (n_samples, n_actions)
        Gamma: any estimate of the reward of each action, for instance a doubly robust one.
    smoothness : {"sharp", "paper"}, default="sharp"
        Which coefficient: the smallest possible one, or the paper's.
    action_mask : boolean ndarray of shape (n_samples, n_actions), optional
        The range is taken over the eligible actions.

    Returns
    -------
    smoothness : ndarray of shape (n_samples,)
        Zero if there is nothing to choose.
    """
    # A constant added to all Gamma of a row changes nothing, as probabilities sum to one: only the range can bend.
    highest = highest_eligible(reward_estimate, action_mask)
    lowest = np.min(reward_estimate, axis=1, initial=np.inf, where=True if action_mask is None else action_mask)
    return np.asarray((highest - lowest) * softmax_smoothness(smoothness=smoothness), dtype=np.float64)


def _constant(constants: dict[str, float], smoothness: str) -> float:
    check_choice("smoothness", smoothness, tuple(constants))
    return constants[smoothness]


def highest_eligible(values: FloatArray, action_mask: BoolArray | None) -> FloatArray:
    """Return the maximum over the eligible actions of each row."""
    where = True if action_mask is None else action_mask
    return np.asarray(np.max(values, axis=1, initial=-np.inf, where=where), dtype=np.float64)
