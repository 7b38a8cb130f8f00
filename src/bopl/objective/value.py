"""Value of a policy on a log: the few formulas that training itself monitors."""

from __future__ import annotations

import numpy as np

from bopl._typing import FloatArray
from bopl._weight import effective_sample_size as effective_sample_size


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
