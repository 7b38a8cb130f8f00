"""`BetaIPS`: inverse propensity scoring less the part of its noise that the weights themselves explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation.estimator import CentredEstimator, ratio
from bopl.evaluation.sample_terms import Terms


@dataclass(frozen=True)
class BetaIPS(CentredEstimator):
    """IPS with the optimal baseline: ``mean(w r) - beta (mean(w) - 1)``, ``beta = Cov(w r, w) / Var(w)``.

    ``mean(w) - 1`` has expectation zero, so any beta leaves the estimate consistent; this one has the least variance
    (Gupta et al., 2024; Owen, 2013, ch. 8.9). Moments are ``(w ρ, u, w ρ u, u², u ρ)`` with ``u = w - 1``.
    """

    name: ClassVar[str] = "beta_ips"
    priority: ClassVar[int] = 20
    title: ClassVar[str] = "IPS with the best baseline"
    about: ClassVar[str] = "Like IPS, less the part of its noise that the weights themselves explain."

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``(w ρ, u, w ρ u, u², u ρ)``."""
        excess, centred = terms.importance_weight - 1.0, self.centred(terms.reward)
        weighted = terms.importance_weight * centred
        return np.column_stack([weighted, excess, weighted * excess, excess**2, excess * centred])

    def value(self, mean: FloatArray) -> FloatArray:
        """Return ``origin + mean(w ρ) - beta · mean(u)``."""
        return (self.origin or 0.0) + mean[..., 0] - self.beta(mean) * mean[..., 1]

    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return ``mean(u ρ) - beta · mean(u)``."""
        return mean[..., 4] - self.beta(mean) * mean[..., 1]

    def beta(self, mean: FloatArray) -> FloatArray:
        """Return ``Cov(w ρ, u) / Var(u)``; 0 if all weights are equal."""
        covariance, variance = self._second_moments(mean)
        return np.where(variance > 0.0, ratio(covariance, variance), 0.0)

    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives, beta's included."""
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0]) + self._baseline_gradient(mean)

    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives, beta's included."""
        return np.array([0.0, 0.0, 0.0, 0.0, 1.0]) + self._baseline_gradient(mean)

    @staticmethod
    def _second_moments(mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        variance = mean[..., 3] - mean[..., 1] ** 2
        rounding = 1e-13 * mean[..., 3]  # what is left of the variance of equal weights after subtraction
        return mean[..., 2] - mean[..., 0] * mean[..., 1], np.where(variance > rounding, variance, 0.0)

    def _baseline_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives of ``-beta · mean(u)``."""
        covariance, variance = (float(part) for part in self._second_moments(mean))
        if variance == 0.0:
            return np.zeros(5)
        beta, excess = covariance / variance, mean[1]
        of_beta = np.array([-excess, 2.0 * excess * beta - mean[0], 1.0, -beta, 0.0]) / variance
        return -excess * of_beta - np.array([0.0, beta, 0.0, 0.0, 0.0])
