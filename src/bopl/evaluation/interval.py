"""Intervals of the value and of the uplift, from what was accumulated of one policy and estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bopl._settings import check_choice, check_number
from bopl._typing import FloatArray
from bopl.evaluation.betting import betting_lower_bound
from bopl.evaluation.estimator import Estimator, MeanEstimator
from bopl.evaluation.log_smoothing import smoothed_lower_bound
from bopl.evaluation.moments import GroupSum, MomentSum

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Evidence:
    """What is known of one policy under one estimator when the interval is drawn.

    Attributes
    ----------
    estimator : Estimator
    moments : MomentSum
    groups : GroupSum or None
        Sums by group, if samples are not independent.
    replicate_means : ndarray of shape (n_replicates, n_moments) or None
        Of the bootstrap.
    importance_weight, reward : ndarray of shape (n_samples,) or None
        Only for intervals that need every sample.
    reward_range : (float, float)
    max_weight : float
        No weight can be larger.
    """

    estimator: Estimator
    moments: MomentSum
    groups: GroupSum | None
    replicate_means: FloatArray | None
    importance_weight: FloatArray | None
    reward: FloatArray | None
    reward_range: tuple[float, float]
    max_weight: float

    def std_err(self, gradient: FloatArray) -> float:
        """Return the standard error of ``gradient · mean``."""
        if self.groups is not None:
            return float(np.sqrt(self.groups.variance_of_mean(gradient, self.moments.mean)))
        return float(np.sqrt(self.moments.variance_of_mean(gradient)))

    @property
    def is_logging_policy(self) -> bool:
        """Whether no sample moves the uplift: the policy is the logging policy, and the uplift known to be zero."""
        gradient = self.estimator.uplift_gradient(self.moments.mean)
        return float(self.estimator.uplift(self.moments.mean)) == 0.0 and self.std_err(gradient) == 0.0


@dataclass(frozen=True)
class Interval(ABC):
    """A kind of interval.

    Parameters
    ----------
    confidence : float in (0, 1)
        Probability with which the interval covers the truth, two-sided.
    """

    confidence: float = 0.95

    name: ClassVar[str]
    is_bound: ClassVar[bool] = False  # holds for any number of samples, not only for many
    needs_samples: ClassVar[bool] = False
    estimators: ClassVar[tuple[str, ...] | None] = None  # all of them
    default_estimators: ClassVar[tuple[str, ...]] = ("ips", "snips")

    @property
    def delta(self) -> float:
        """Probability of missing the truth on one side."""
        return (1.0 - self.confidence) / 2.0

    def std_err(self, evidence: Evidence) -> float:
        """Return the standard error of the value."""
        return evidence.std_err(evidence.estimator.value_gradient(evidence.moments.mean))

    @abstractmethod
    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""

    @abstractmethod
    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""

    def check(self, estimator: Estimator, *, has_group: bool) -> None:
        """Raise one sentence if the interval cannot be drawn for an estimator."""
        if self.estimators is not None and estimator.name not in self.estimators:
            raise ValueError(
                f"interval={self.name!r} bounds a mean of independent terms and works for "
                f"{' and '.join(map(repr, self.estimators))} only; for {estimator.name!r} use 'normal' or 'bootstrap'."
            )
        if self.is_bound and has_group:
            raise ValueError(
                f"interval={self.name!r} needs independent samples, but the log has groups; use 'normal' or "
                "'bootstrap'."
            )


class Normal(Interval):
    """``g(m) ± z · se``, the standard error from the influence (delta method; clustered if the log has groups)."""

    name: ClassVar[str] = "normal"

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        estimator, mean = evidence.estimator, evidence.moments.mean
        return self._around(float(estimator.value(mean)), evidence.std_err(estimator.value_gradient(mean)))

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        estimator, mean = evidence.estimator, evidence.moments.mean
        return self._around(float(estimator.uplift(mean)), evidence.std_err(estimator.uplift_gradient(mean)))

    def _around(self, centre: float, std_err: float) -> Bounds:
        from scipy.special import ndtri

        half = float(ndtri(1.0 - self.delta)) * std_err
        return centre - half, centre + half


class Bootstrap(Interval):
    """Percentiles of the estimate over Poisson bootstrap replicates; ratios are re-normalised in every replicate."""

    name: ClassVar[str] = "bootstrap"

    def std_err(self, evidence: Evidence) -> float:
        """Return the standard deviation over the replicates."""
        assert evidence.replicate_means is not None
        replicates = evidence.estimator.value(evidence.replicate_means)
        finite = replicates[np.isfinite(replicates)]
        if len(finite) < 2:
            return float("nan")
        return float(np.std(finite - finite[0], ddof=1))  # equal replicates have no spread, to the last bit

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        assert evidence.replicate_means is not None
        return self._percentiles(evidence.estimator.value(evidence.replicate_means))

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        assert evidence.replicate_means is not None
        return self._percentiles(evidence.estimator.uplift(evidence.replicate_means))

    def _percentiles(self, replicates: FloatArray) -> Bounds:
        finite = replicates[np.isfinite(replicates)]
        if len(finite) == 0:
            return float("nan"), float("nan")
        lower, upper = np.quantile(finite, [self.delta, 1.0 - self.delta])
        return float(lower), float(upper)


class EmpiricalBernstein(Interval):
    """Maurer and Pontil (2009), Theorem 4, on both sides.

    With probability ``1 - delta``, for independent terms in a range of width b,
    ``mean - mu <= sqrt(2 V log(2/delta) / n) + 7 b log(2/delta) / (3 (n - 1))``, V being the sample variance. The range
    follows from ``reward_range`` and the largest possible weight ``1 / min_propensity``.
    """

    name: ClassVar[str] = "empirical_bernstein"
    is_bound: ClassVar[bool] = True
    estimators: ClassVar[tuple[str, ...] | None] = ("ips", "clipped_ips")
    default_estimators: ClassVar[tuple[str, ...]] = ("ips",)

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        return self._around(evidence, 0)

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        return (0.0, 0.0) if evidence.is_logging_policy else self._around(evidence, 1)

    def _around(self, evidence: Evidence, which: int) -> Bounds:
        assert isinstance(evidence.estimator, MeanEstimator)
        ranges = evidence.estimator.term_ranges(evidence.max_weight, *evidence.reward_range)
        assert ranges is not None
        n_samples = evidence.moments.n_samples
        if n_samples < 2:
            return -np.inf, np.inf
        variance = evidence.moments.scatter[which, which] / (n_samples - 1)
        log_term = np.log(2.0 / self.delta)
        half = np.sqrt(2.0 * variance * log_term / n_samples) + 7.0 * ranges[which] * log_term / (3.0 * (n_samples - 1))
        centre = float(evidence.moments.mean[which])
        return float(centre - half), float(centre + half)


class SampleBound(Interval):
    """Intervals from a lower bound on the mean of non-negative terms, used from both ends of the reward's range.

    With rewards in [low, high]: ``E[w (r - low)] = V - low`` and ``E[w (high - r)] = high - V`` bound the value from
    below and from above. For the uplift, ``E[(w - 1)(r - low)]`` and ``E[(w - 1)(high - r)]`` are U and -U, with terms
    of at least ``-(high - low)``.
    """

    is_bound: ClassVar[bool] = True
    needs_samples: ClassVar[bool] = True
    estimators: ClassVar[tuple[str, ...] | None] = ("ips",)
    default_estimators: ClassVar[tuple[str, ...]] = ("ips",)

    @abstractmethod
    def lower(self, terms: FloatArray, *, width: float, floor: float) -> float:
        """Return a lower bound on the mean of terms of at least ``-floor``, for rewards in a range of a width."""

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        weight, reward, (low, high) = self._samples(evidence)
        lower = low + self.lower(weight * (reward - low), width=high - low, floor=0.0)
        upper = high - self.lower(weight * (high - reward), width=high - low, floor=0.0)
        return min(lower, high), max(upper, low)

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        if evidence.is_logging_policy:
            return 0.0, 0.0
        weight, reward, (low, high) = self._samples(evidence)
        excess, width = weight - 1.0, high - low
        lower = self.lower(excess * (reward - low), width=width, floor=width)
        upper = -self.lower(excess * (high - reward), width=width, floor=width)
        return lower, upper

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

    def lower(self, terms: FloatArray, *, width: float, floor: float) -> float:
        """Return the bound after bringing terms to a mean in [0, 1]."""
        span = (width + floor) or 1.0  # the mean lies between -floor and width
        return span * betting_lower_bound((terms + floor) / span, self.delta) - floor


INTERVALS: dict[str, type[Interval]] = {
    kind.name: kind for kind in (Normal, Bootstrap, EmpiricalBernstein, LogSmoothing, Betting)
}


def get_interval(name: object, confidence: float) -> Interval:
    """Return the interval of a name."""
    check_choice("interval", name, tuple(INTERVALS))
    check_number("confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True)
    return INTERVALS[str(name)](float(confidence))
