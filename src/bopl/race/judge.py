"""The judge of a race: paired, doubly robust estimates on samples that no candidate was trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._typing import FloatArray
from bopl._weight import mean_std_err
from bopl.log import BanditLog


@dataclass(frozen=True, eq=False)
class Judge:
    """Validation samples with reward estimates that have not seen them."""

    log: BanditLog
    reward_estimate: FloatArray  # (n_samples, n_actions)
    sample_weight: FloatArray | None = None  # (n_samples,)

    def estimates(self, action_prob: FloatArray) -> FloatArray:
        """Return the self-normalised doubly robust terms of a policy, whose mean estimates its value.

        ``Σ_a pi(a) q̂(a) + ρ + w/w̄ · (r - q̂(a_i) - ρ)`` with ``ρ = Σ w (r - q̂) / Σ w``: the linearised estimate, so
        that the standard error of a mean of these terms, or of their difference between two policies, is that of the
        estimates.

        Parameters
        ----------
        action_prob : ndarray of shape (n_samples, n_actions)
        """
        direct, weight, left = self._parts(action_prob)
        mean_weight = float(np.average(weight, weights=self.sample_weight))
        if mean_weight <= 0.0:
            return direct
        shift = float(np.average(weight * left, weights=self.sample_weight)) / mean_weight
        return direct + shift + weight / mean_weight * (left - shift)

    def cautious(self, action_prob: FloatArray) -> FloatArray:
        """Return terms that rank policies: the average of two lower estimates of the value.

        Inverse-propensity and doubly robust terms ``v`` whose gains are smoothed, ``ln(1 + λ·v)/λ`` for ``v > 0``: a
        few samples with large weights cannot win a race, but losses count in full. Rewards are
        measured from the lower end of the logged range, because their zero is arbitrary.

        ``1/λ = √n · √(sd(r) · rms(v))``. By the spread of the rewards alone, small propensities and noisy rewards would
        bias the terms by many standard errors, so that only policies near the logging policy could win; by the
        noise of the terms alone, one lucky sample would set its own scale. So we take the geometric mean of both.
        """
        direct, weight, left = self._parts(action_prob)
        reward = self.log.reward
        low, spread = float(np.quantile(reward, LOW_QUANTILE)), float(reward.std())
        return 0.5 * (low + _smoothed(weight * (reward - low), spread) + direct + _smoothed(weight * left, spread))

    def _parts(self, action_prob: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the reward model's estimate, the importance weight, and the residual of the reward."""
        log = self.log
        direct = np.einsum("ia,ia->i", action_prob, self.reward_estimate)
        weight = logged_entries(action_prob, log.action_idx) / log.propensity
        return direct, weight, log.reward - logged_entries(self.reward_estimate, log.action_idx)


LOW_QUANTILE = 0.01
ROUNDING = 1e-12  # of the rewards: terms that differ by less are equal, or sums in another order would win a race


def _smoothed(value: FloatArray, spread: float) -> FloatArray:
    """Return ``ln(1 + λ·v) / λ`` where v > 0, otherwise v itself; see `Judge.cautious`."""
    noise = float(np.sqrt(np.mean(np.square(value))))
    if noise == 0.0:
        return value
    limit = np.sqrt(len(value) * (spread or noise) * noise)  # 1/λ
    return np.where(value > 0.0, np.log1p(np.maximum(value, 0.0) / limit) * limit, value)


@dataclass(frozen=True)
class Standing:
    """How one policy compares with another on the same samples."""

    value: float  # estimated reward
    uplift: float  # uplift over the reference
    std_err: float  # standard error of the uplift

    def lower(self, n_std_err: float) -> float:
        """Return the uplift minus this many standard errors."""
        return self.uplift - n_std_err * self.std_err


def compare(
    terms: FloatArray, reference: FloatArray, log: BanditLog, sample_weight: FloatArray | None = None
) -> Standing:
    """Return how a policy compares with a reference, from the terms of both on the same samples."""
    value, gap = float(np.average(terms, weights=sample_weight)), terms - reference
    if float(np.abs(gap).max()) <= ROUNDING * float(np.abs(reference).max()):
        return Standing(value, 0.0, 0.0)
    uplift = float(np.average(gap, weights=sample_weight))
    if sample_weight is not None:
        gap = uplift + sample_weight / sample_weight.mean() * (gap - uplift)  # the weighted mean, linearised
    std_err = mean_std_err(gap, log.group) if float(np.ptp(gap)) > 0.0 else 0.0
    return Standing(value, uplift, float(std_err))
