"""Value of a policy on a log: the few formulas that training itself needs to watch."""

from __future__ import annotations

import numpy as np

from bopl._typing import FloatArray


def ips_value(importance_weight: FloatArray, reward: FloatArray) -> float:
    """Return the inverse-propensity estimate ``mean(w · r)`` of the policy's reward."""
    return float(np.mean(importance_weight * reward))


def snips_value(importance_weight: FloatArray, reward: FloatArray) -> float:
    """Return the self-normalised estimate ``sum(w · r) / sum(w)``; NaN if the policy never agrees with the log.

    Translating the reward translates this estimate by the same amount, and a constant reward is returned exactly.
    """
    total = float(importance_weight.sum())
    if total <= 0.0:
        return float("nan")
    # Weights are normalised by their maximum first: 1/p may be large enough for the products to overflow.
    scaled = importance_weight / importance_weight.max()
    return float((scaled * reward).sum() / scaled.sum())


def effective_sample_size(importance_weight: FloatArray) -> float:
    """Return ``sum(w)² / sum(w²)``: how many unweighted samples the log is worth to the policy; 0 if all w are 0."""
    largest = float(importance_weight.max(initial=0.0))
    if largest <= 0.0:
        return 0.0
    scaled = importance_weight / largest
    return float(scaled.sum() ** 2 / (scaled**2).sum())
