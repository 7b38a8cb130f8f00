"""Logarithmic smoothing: bounds on the mean of importance-weighted rewards without a bound on the weights.

Sakhi, Aouali, Alquier and Chopin (2024), "Logarithmic Smoothing for Pessimistic Off-Policy Evaluation, Selection and
Learning". For independent terms ``Z_i >= 0`` with mean mu and any ``lambda > 0`` fixed in advance,
``E[prod_i (1 + lambda Z_i)] = (1 + lambda mu)^n``, so by Markov's inequality, with probability ``1 - delta``::

    mu >= (exp(mean(log(1 + lambda Z_i)) - log(1/delta) / n) - 1) / lambda

Large terms enter by their logarithm, so one heavy weight cannot raise the bound by much.
"""

from __future__ import annotations

import numpy as np

from bopl._typing import FloatArray

# The best lambda is about sqrt(2 log(1/delta) / (n E[Z²])) and is not known; a mixture over scales of 1/sqrt(n) costs
# little and is never far from the best of them.
SCALES = 2.0 ** np.arange(-2, 8)


def smoothed_lower_bound(terms: FloatArray, delta: float, *, unit: float = 1.0, floor: float = 0.0) -> float:
    """Return a lower bound on the mean of independent terms that holds with probability ``1 - delta``.

    The bound of the paper for one lambda is ``prod_i (1 + lambda Z_i) / (1 + lambda mu)^n <= 1/delta``. Here the left
    side is averaged over the lambdas ``SCALES / (unit · sqrt(n))``; the average has expectation 1 as well, and the
    bound is the mu at which it equals ``1/delta``.

    ``unit``, the size of a typical reward, sets the scale of the lambdas before looking at the data. Terms, of shape
    (n_samples,), are at least ``-floor``, and lambdas stay below ``1 / (2 floor)``, so that ``1 + lambda Z`` is
    positive.
    """
    n_samples = len(terms)
    scale = SCALES / (unit * np.sqrt(n_samples))
    scale = scale if floor == 0.0 else np.unique(np.minimum(scale, 0.5 / floor))
    log_growth = np.array([np.log1p(one * terms).sum() for one in scale])
    target = np.log(1.0 / delta)

    def log_evidence(mu: float) -> float:
        """Logarithm of the averaged left side; falls as mu rises."""
        exponent = log_growth - n_samples * np.log1p(scale * mu)
        return float(np.logaddexp.reduce(exponent) - np.log(len(scale)))

    low, high = -floor, max(float(terms.mean()), -floor)  # at the mean, Jensen puts the evidence at 1 or below
    if log_evidence(low) <= target:
        return low
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_evidence(middle) > target else (low, middle)
    return low
