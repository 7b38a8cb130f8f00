"""The number a search on a real log goes by: an off-policy estimate, or what it is at least."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from bopl._settings import check_choice, check_number
from bopl._typing import FloatArray
from bopl.objective.value import ips_value, snips_value

ESTIMATORS = ("snips", "ips")


def off_policy_value(
    importance_weight: FloatArray, reward: FloatArray, *, estimator: str = "snips", confidence: float | None = None
) -> float:
    """Return the estimated reward of a policy, or its one-sided normal lower bound.

    ``ips`` is ``mean(w r)`` with standard error ``std(w r)/sqrt(n)``; ``snips`` is ``v = sum(w r)/sum(w)`` with the
    delta method's ``sqrt(sum(w² (r - v)²))/sum(w)``. A policy that never agrees with the log is given the worst reward
    seen: nothing speaks for it.

    Parameters
    ----------
    importance_weight, reward : ndarrays of shape (n_samples,)
    estimator : {"snips", "ips"}, default="snips"
    confidence : float in (0.5, 1), optional
        With it the lower bound that holds with about this probability; without it the estimate.
    """
    check_choice("estimator", estimator, ESTIMATORS)
    if not importance_weight.any():
        return float(reward.min())
    value, error = _ips(importance_weight, reward) if estimator == "ips" else _snips(importance_weight, reward)
    if confidence is None:
        return value
    check_number("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    return value - NormalDist().inv_cdf(confidence) * error


def _ips(importance_weight: FloatArray, reward: FloatArray) -> tuple[float, float]:
    product = importance_weight * reward
    return ips_value(importance_weight, reward), float(product.std(ddof=1) / np.sqrt(len(product)))


def _snips(importance_weight: FloatArray, reward: FloatArray) -> tuple[float, float]:
    value = snips_value(importance_weight, reward)
    share = importance_weight / importance_weight.sum()
    return value, float(np.sqrt(((share * (reward - value)) ** 2).sum()))
