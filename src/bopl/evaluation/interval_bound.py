"""Bounds: intervals that hold for any number of independent samples, if the range of the rewards is known."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from bopl._errors import UsageError
from bopl._typing import FloatArray
from bopl.evaluation.betting import betting_lower_bound
from bopl.evaluation.estimator import BoundedTerm, Estimator
from bopl.evaluation.interval import Bounds, Evidence, Interval
from bopl.evaluation.log_smoothing import smoothed_lower_bound


class EmpiricalBernstein(Interval):
    """Maurer and Pontil (2009), Theorem 4, on both sides.

    With probability ``1 - delta``, for independent terms in a range of width b, V being their sample variance::

        mu >= mean - sqrt(2 V log(2/delta) / n) - 7 b log(2/delta) / (3 (n - 1))

    For IPS the terms are ``w r`` from below, ``-w r`` from above; their range follows from [low, high], the range of
    the rewards, and the largest possible weight, ``1 / min_propensity`` (`Estimator.bounded_terms`). A value lies in
    [low, high] in any case.
    """

    name: ClassVar[str] = "empirical_bernstein"
    needs_min_propensity: ClassVar[bool] = True
    is_bound: ClassVar[bool] = True

    def suits(self, estimator: Estimator | type[Estimator]) -> bool:
        """Return whether the range of the estimator's terms is known."""
        return estimator.has_bounded_terms

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        low, high = evidence.reward_range
        return _within(self._ends(evidence, 0), low, high)

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        low, high = evidence.reward_range
        return (0.0, 0.0) if evidence.is_logging_policy else _within(self._ends(evidence, 1), low - high, high - low)

    def _ends(self, evidence: Evidence, which: int) -> Bounds:
        """Return the bounds on the first or the second term of the estimator."""
        below, above = evidence.estimator.bounded_terms(which, evidence.reward_range, evidence.max_weight)
        return self._lower(evidence, below), -self._lower(evidence, above)

    def _lower(self, evidence: Evidence, term: BoundedTerm) -> float:
        """Return the lower bound on ``origin + mean(direction · moments)``."""
        moments = evidence.sums.moments
        if moments.n_samples < 2:
            return -np.inf
        log_term = float(np.log(2.0 / self.delta))
        from_variance = moments.spread(term.direction).std_err * np.sqrt(2.0 * log_term)
        from_range = 7.0 * term.width * log_term / (3.0 * (moments.n_samples - 1))
        return float(term.origin + term.direction @ moments.mean - from_variance - from_range)


def _within(ends: Bounds, low: float, high: float) -> Bounds:
    return min(max(ends[0], low), high), min(max(ends[1], low), high)


class SampleBound(Interval):
    """Intervals from a lower bound on the mean of non-negative terms, used from both ends of the reward's range.

    With rewards in [low, high]: ``E[w (r - low)] = V - low`` and ``E[w (high - r)] = high - V`` bound the value from
    below and from above. For the uplift, ``E[(w - 1)(r - low)]`` and ``E[(w - 1)(high - r)]`` are U and -U, with terms
    of at least ``-(high - low)``.
    """

    is_bound: ClassVar[bool] = True
    needs_samples: ClassVar[bool] = True

    def suits(self, estimator: Estimator | type[Estimator]) -> bool:
        """Return whether the estimate is the mean of weights times rewards."""
        return estimator.is_weighted_mean

    @abstractmethod
    def lower(self, terms: FloatArray, *, width: float, floor: float) -> float:
        """Return a lower bound on the mean of terms of at least ``-floor``, for rewards in a range of a width."""

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        weight, reward, (low, high) = self._samples(evidence)
        lower = low + self.lower(weight * (reward - low), width=high - low, floor=0.0)
        upper = high - self.lower(weight * (high - reward), width=high - low, floor=0.0)
        return _within((lower, upper), low, high)

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        if evidence.is_logging_policy:
            return 0.0, 0.0
        weight, reward, (low, high) = self._samples(evidence)
        excess, width = weight - 1.0, high - low
        lower = self.lower(excess * (reward - low), width=width, floor=width)
        upper = -self.lower(excess * (high - reward), width=width, floor=width)
        return _within((lower, upper), -width, width)

    @staticmethod
    def _samples(evidence: Evidence) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
        assert evidence.importance_weight is not None
        assert evidence.reward is not None
        return evidence.importance_weight, evidence.reward, evidence.reward_range


class LogSmoothing(SampleBound):
    """The logarithmic-smoothing bounds of Sakhi et al. (2024); see `bopl.evaluation.log_smoothing`."""

    name: ClassVar[str] = "log_smoothing"

    def lower(self, terms: FloatArray, *, width: float, floor: float) -> float:
        """Return the smoothed lower bound."""
        return smoothed_lower_bound(terms, self.delta, unit=width or 1.0, floor=floor)


class Betting(SampleBound):
    """The anytime-valid betting interval of Waudby-Smith et al. (2022); see `bopl.evaluation.betting`."""

    name: ClassVar[str] = "betting"

    def check(self, estimator: Estimator, *, has_group: bool, source: str) -> None:
        """Refuse balanced propensities too: given its logger, a sample's term does not have the value for a mean."""
        super().check(estimator, has_group=has_group, source=source)
        if source in ("balanced", "mismatched"):
            raise UsageError(
                "interval='betting' needs propensities that are right for each sample; those of the mixture of several "
                "loggers are right only on average: use 'log_smoothing' or 'empirical_bernstein'."
            )

    def lower(self, terms: FloatArray, *, width: float, floor: float) -> float:
        """Return the bound after bringing terms to a mean in [0, 1]."""
        span = (width + floor) or 1.0  # the mean lies between -floor and width
        return span * betting_lower_bound((terms + floor) / span, self.delta) - floor
