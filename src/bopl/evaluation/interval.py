"""Intervals of the value and of the uplift, from what was accumulated of one policy and estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from bopl._errors import UsageError
from bopl._trust import USUAL_DELTA
from bopl._typing import FloatArray
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import estimator_names
from bopl.evaluation.moments import SampleSums, Spread

Bounds = tuple[float, float]
# Share of the degrees of freedom that counts beyond `USUAL_DELTA`: without, 0.8% of means of 250 weighted costs missed,
# not 0.2%.
MIN_TOLD = 0.25
TIE = 1e-12  # of the largest replicate: what is no farther from the estimate is equal to it
MIN_TAIL_REPLICATES = 10.0  # bootstrap replicates beyond an end of an interval; with fewer its place is chance


@dataclass(frozen=True)
class Evidence:
    """What is known of one policy under one estimator when the interval is drawn."""

    estimator: Estimator
    sums: SampleSums
    # (n_replicates, n_moments): means of the moments in each bootstrap replicate
    replicate_means: FloatArray | None = None
    # (n_samples,): only for intervals that need every sample
    importance_weight: FloatArray | None = None
    reward: FloatArray | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    max_weight: float = float("inf")  # no weight can be larger
    is_logging_policy: bool = False  # whether all weights are 1: then the uplift is known to be zero

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.estimator.value(self.sums.mean))

    @property
    def uplift(self) -> float:
        """The estimate less that of the logging policy."""
        return float(self.estimator.uplift(self.sums.mean))

    def value_spread(self) -> Spread:
        """Return how the value scatters."""
        return self.sums.spread(self.estimator.value_gradient(self.sums.mean))

    def uplift_spread(self) -> Spread:
        """Return how the uplift scatters."""
        return self.sums.spread(self.estimator.uplift_gradient(self.sums.mean))

    def share_factor(self, share: float, base: FloatArray | None = None) -> float:
        """Return how much wider the interval of ``uplift - share · base`` is than that of the uplift; at least 1.

        What is earned now is estimated on the same samples, as ``value - uplift``. ``base`` has its derivatives in the
        means where it is something else. Its sign may not be certain, so that both count.
        """
        if share == 0.0:
            return 1.0
        uplift = self.estimator.uplift_gradient(self.sums.mean)
        base = self.estimator.value_gradient(self.sums.mean) - uplift if base is None else base
        own, *held = (self.sums.spread(uplift + one * base).std_err for one in (0.0, share, -share))
        return max(max(held) / own, 1.0) if own > 0.0 else 1.0


@dataclass(frozen=True)
class Interval(ABC):
    """A kind of interval: the base class of your own, which define ``value`` and ``uplift``.

    Parameters
    ----------
    confidence : float in (0, 1)
        Probability with which the interval covers the truth, two-sided.

    Attributes
    ----------
    name : str
    is_bound : bool
        Whether it holds for any number of samples, and needs them to be independent.
    needs_min_propensity, needs_replicates, needs_samples : bool
        Whether `Evidence` must hold the largest possible weight, bootstrap replicates, and every weight and reward.
    """

    confidence: float = 0.95

    name: ClassVar[str]
    is_bound: ClassVar[bool] = False
    needs_min_propensity: ClassVar[bool] = False
    needs_replicates: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = False

    @property
    def delta(self) -> float:
        """Probability of missing the truth on one side."""
        return (1.0 - self.confidence) / 2.0

    def std_err(self, evidence: Evidence) -> float:
        """Return the standard error of the value."""
        return evidence.value_spread().std_err

    def quantile(self, degrees_of_freedom: float) -> float:
        """Return Student's quantile; NaN where a single sample leaves no degree of freedom.

        Far out, where intervals of several answers have to hold together, down to a quarter of the degrees of freedom
        count: skewness that few samples do not show moves an end the more, the rarer a miss is to be.
        """
        if not degrees_of_freedom > 0.0:
            return float("nan")
        told = min(max(self.delta / USUAL_DELTA, MIN_TOLD), 1.0)
        return float(stdtrit(degrees_of_freedom * told, 1.0 - self.delta))

    @abstractmethod
    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""

    @abstractmethod
    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""

    def suits(self, estimator: Estimator | type[Estimator]) -> bool:
        """Return whether the interval can be drawn for an estimator."""
        return True

    def check(self, estimator: Estimator, *, has_group: bool, source: str) -> None:
        """Raise one sentence if the interval cannot be drawn for an estimator."""
        if not self.suits(estimator):
            raise UsageError(
                f"interval={self.name!r} bounds a mean of independent terms and works for "
                f"{' and '.join(map(repr, estimator_names(self)))} only; for {estimator.name!r} use 'normal' or "
                "'bootstrap'."
            )
        if self.is_bound and has_group:
            raise UsageError(
                f"interval={self.name!r} needs independent samples, but the log has groups; use 'normal' or "
                "'bootstrap'."
            )


class Normal(Interval):
    """The normal interval from the influence, with the skewness taken out and Student's quantile.

    ``T = (estimate - truth) / se`` of a skewed mean is normal to order 1/sqrt(n) only, but Hall's (1992) monotone
    transformation ``g(T) = T + A T²/3 + A² T³/27 + A/6`` is to order 1/n, A being the skewness of the estimate. The
    ends are ``estimate - se · g^-1(±t)`` with ::

        g^-1(x) = (3/A) ((1 + A (x - A/6))^(1/3) - 1)

    and t the quantile of Student's distribution with the degrees of freedom of the standard error at a given estimate
    (`Spread`), which are few if few samples carry the variance. Skewness moves an end outwards only: A is itself
    estimated, and with few samples an end drawn inwards by it misses the truth too often, so the other end stays at
    ``estimate ± t · se``. With many samples A is 0 and t is z, and the ends are the familiar ``estimate ± z · se``.
    Standard error, A and degrees of freedom follow from the influence (delta method), by group if the log has groups.
    """

    name: ClassVar[str] = "normal"

    def value(self, evidence: Evidence) -> Bounds:
        """Return the interval of the value."""
        return self.around(evidence.value, evidence.value_spread())

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        return self.around(evidence.uplift, evidence.uplift_spread())

    def around(self, centre: float, spread: Spread) -> Bounds:
        """Return the interval of an estimate that scatters so."""
        if spread.std_err == 0.0:
            return centre, centre
        quantile = self.quantile(spread.residual_degrees_of_freedom)
        lower = max(quantile, undo_skewness(quantile, spread.skewness))
        upper = min(-quantile, undo_skewness(-quantile, spread.skewness))
        return centre - spread.std_err * lower, centre - spread.std_err * upper


class Bootstrap(Interval):
    """The BCa interval from Poisson bootstrap replicates; ratios are re-normalised in every replicate.

    The ends are those quantiles of the replicates whose levels are ::

        Phi(z0 + (z0 ± t) / (1 - a (z0 ± t)))

    (Efron, 1987): ``z0 = Phi^-1(share of the replicates below the estimate)`` corrects for bias, the acceleration
    ``a = sum(psi³) / (6 sum(psi²)^1.5)``, from the influences psi, for skewness. In the place of the normal quantile
    stands Student's, as percentiles are too narrow where few samples carry the variance (Hesterberg, 2015). Where fewer
    than `MIN_TAIL_REPLICATES` lie beyond an end, its place is chance, and it is not inside that of the normal interval.
    """

    name: ClassVar[str] = "bootstrap"
    needs_replicates: ClassVar[bool] = True

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
        replicates = evidence.estimator.value(evidence.replicate_means)
        return self._percentiles(replicates, evidence.value, evidence.value_spread())

    def uplift(self, evidence: Evidence) -> Bounds:
        """Return the interval of the uplift."""
        assert evidence.replicate_means is not None
        replicates = evidence.estimator.uplift(evidence.replicate_means)
        return self._percentiles(replicates, evidence.uplift, evidence.uplift_spread())

    def _percentiles(self, replicates: FloatArray, estimate: float, spread: Spread) -> Bounds:
        finite = replicates[np.isfinite(replicates)]
        if len(finite) == 0 or not np.isfinite(estimate) or not np.isfinite(spread.std_err):
            return float("nan"), float("nan")
        quantile = self.quantile(spread.degrees_of_freedom)
        levels = [bca_level(end, finite, estimate, spread.skewness / 6.0) for end in (-quantile, quantile)]
        lower, upper = (float(end) for end in np.quantile(finite, levels))
        if len(finite) * self.delta < MIN_TAIL_REPLICATES:
            normal = Normal(self.confidence).around(estimate, spread)
            return min(lower, normal[0]), max(upper, normal[1])
        return lower, upper


def stretched(bounds: Bounds, centre: float, factor: float) -> Bounds:
    """Return an interval so many times as wide, seen from the estimate."""
    if factor == 1.0:
        return bounds
    return centre - factor * (centre - bounds[0]), centre + factor * (bounds[1] - centre)


def undo_skewness(x: float, skewness: float) -> float:
    """Return ``g^-1(x)`` of Hall's transformation (see `Normal`): x itself without skewness."""
    if abs(skewness) < 1e-12:
        return x
    inner = skewness * (x - skewness / 6.0)
    # Near zero the root less one would lose its digits.
    root = np.expm1(np.log1p(inner) / 3.0) if inner > -0.5 else np.cbrt(1.0 + inner) - 1.0
    return float(3.0 * root / skewness)


def bca_level(x: float, replicates: FloatArray, estimate: float, acceleration: float) -> float:
    """Return the level of the replicates at which a BCa interval of quantile x ends (see `Bootstrap`)."""
    # Means of the same samples differ in their last bits, depending on the parts that were summed up.
    distance = replicates - estimate
    is_equal = np.abs(distance) <= TIE * np.abs(replicates).max()
    below = float((~is_equal & (distance < 0.0)).mean() + 0.5 * is_equal.mean())
    least = 0.5 / len(replicates)  # if all replicates are on one side, the next one might not have been
    bias = float(ndtri(min(max(below, least), 1.0 - least)))
    shrink = 1.0 - acceleration * (bias + x)
    return float(ndtr(bias + (bias + x) / shrink)) if shrink > 0.0 else float(x > 0.0)


def at_confidence(interval: Interval, confidence: float) -> Interval:
    """Return the same kind of interval at another level."""
    return replace(interval, confidence=confidence)
