"""Estimators of a policy's value: each is a smooth function of means of per-sample moments.

From the moments follows everything else: the value ``g(m)``, the influence ``g'(m) · (moment_i - m)`` of a sample, the
normal interval, merging over shards and the bootstrap, which evaluates g on re-weighted means. ``uplift`` is a second
function of the same moments: the value less that of the logging policy, whose weights are all 1, under the same
estimator. It is exactly zero, with zero influence, if the policy is the logging policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from bopl._settings import check_number
from bopl._typing import BoolArray, FloatArray
from bopl.evaluation.sample_terms import Pilot, Terms


class Need(Enum):
    """What an estimator needs besides the log's rewards."""

    PROPENSITY = "propensities of the logged actions"
    REWARD_MODEL = "a reward model, and the policy's probabilities of all actions"
    LOGGING_DISTRIBUTION = "the logging policy's probabilities of all actions"


@dataclass(frozen=True)
class BoundedTerm:
    """A mean of terms in a known range: ``origin + mean(direction · moments)`` is not above what is estimated."""

    direction: FloatArray  # (n_moments,)
    width: float  # width of the range of the terms
    origin: float = 0.0


TermPair = tuple[BoundedTerm, BoundedTerm]


class Estimator(ABC):
    """One estimator of a policy's value.

    Attributes
    ----------
    name : str
    needs : frozenset of Need
        What it cannot do without.
    sharpened_by : frozenset of Need
        What sharpens the uplift if it is known.
    is_unbiased : bool
        Whether its expectation is the policy's value if the propensities are right.
    needs_pilot : bool
        Whether `tuned` looks at the samples.
    is_monotone_in_weight : bool
        Whether the estimate is monotone in the weight of each sample.
    is_tuned_for_rounding : bool
        Whether what `tuned` chooses changes the estimate by rounding only, and need not be reported.
    clips_weights : bool
        Whether large weights are clipped. The excess is lost, or left to the reward model if there is one.
    has_bounded_terms : bool
        Whether `bounded_terms` gives the range of the terms, from which bounds on their mean follow.
    is_weighted_mean : bool
        Whether the estimate is ``mean(w r)`` itself, for bounds that look at weights and rewards one by one.
    shifts_with_rewards : bool
        Whether a constant added to all rewards is added to the value, on every log: actions that the log never took
        then count as much as the policy's other choices.
    carries_verdict : bool
        Whether a verdict may rest on it; that of a reward model alone may not.
    priority : int
        The estimator with the smallest priority is the primary one: it decides about a policy. That is settled
        beforehand, because choosing the estimator by its answer would be choosing the answer.
    is_default : bool
        Whether it is used when the caller names none.
    title, about : str
        What reports call it, and what it does in a sentence or two.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[Need]] = frozenset({Need.PROPENSITY})
    sharpened_by: ClassVar[frozenset[Need]] = frozenset()
    is_unbiased: ClassVar[bool] = True
    needs_pilot: ClassVar[bool] = False
    is_monotone_in_weight: ClassVar[bool] = False
    is_tuned_for_rounding: ClassVar[bool] = False
    clips_weights: ClassVar[bool] = False
    has_bounded_terms: ClassVar[bool] = False
    is_weighted_mean: ClassVar[bool] = False
    shifts_with_rewards: ClassVar[bool] = False
    carries_verdict: ClassVar[bool] = True
    priority: ClassVar[int] = 50
    is_default: ClassVar[bool] = False
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        # What is said of other moments is not inherited: bounds would be those of another estimate.
        super().__init_subclass__(**options)
        if "moments" in vars(cls):
            for trait in {"has_bounded_terms", "is_weighted_mean", "is_monotone_in_weight"} - vars(cls).keys():
                setattr(cls, trait, False)

    @property
    def needs_model(self) -> bool:
        """Whether it needs a reward model."""
        return Need.REWARD_MODEL in self.needs

    @property
    def can_decide(self) -> bool:
        """Whether a verdict may rest on it: without propensities nothing checks a model against logged rewards."""
        return self.carries_verdict and Need.PROPENSITY in self.needs

    def tuned(self, pilot: Pilot) -> Estimator:
        """Return the estimator with every setting that is left to the data chosen, once and for all."""
        return self

    @abstractmethod
    def moments(self, terms: Terms) -> FloatArray:
        """Return the moments of every sample, of shape (n_rows, n_moments)."""

    @abstractmethod
    def value(self, mean: FloatArray) -> FloatArray:
        """Return the value at means of the moments, of shape (…, n_moments)."""

    @abstractmethod
    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return the value less the logging policy's, at means of the moments."""

    @abstractmethod
    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives of the value in the means, of shape (n_moments,)."""

    @abstractmethod
    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives of the uplift in the means."""

    def modified(self, importance_weight: FloatArray) -> FloatArray:
        """Return ``v(w)``, the weights as the estimator uses them."""
        return importance_weight

    def is_clipped(self, importance_weight: FloatArray) -> BoolArray:
        """Return which weights the estimator clips or sets aside."""
        return np.zeros(len(importance_weight), dtype=np.bool_)

    def bounded_terms(self, which: int, limits: tuple[float, float], max_weight: float) -> TermPair:
        """Return what bounds the value (``which=0``) or the uplift (1) from below and from above.

        Parameters
        ----------
        which : {0, 1}
            0 for the value, 1 for the uplift.
        limits : (float, float)
            Range of the rewards.
        max_weight : float
            No weight is larger.
        """
        raise NotImplementedError(f"{self.name!r} has no bounded terms.")

    def value_influence(self, moments: FloatArray, mean: FloatArray) -> FloatArray:
        """Return ``g'(m) · (moment_i - m)`` of every sample: by how much it moves the value, times n."""
        return (moments - mean) @ self.value_gradient(mean)

    def uplift_influence(self, moments: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the influence of every sample on the uplift."""
        return (moments - mean) @ self.uplift_gradient(mean)


class MeanEstimator(Estimator):
    """A plain mean: the first moment is a sample's term of the value, the second its term of the uplift.

    There may be more, for intervals; they do not enter the estimate.
    """

    def value(self, mean: FloatArray) -> FloatArray:
        """Return the first mean."""
        return mean[..., 0]

    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return the second mean."""
        return mean[..., 1]

    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return one for the first mean, else zero."""
        return np.eye(len(mean))[0]

    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return one for the second mean, else zero."""
        return np.eye(len(mean))[1]


@dataclass(frozen=True)
class IPS(MeanEstimator):
    """Inverse propensity scoring, ``mean(w · r)`` (Horvitz and Thompson, 1952); uplift ``mean((w - 1) · r)``."""

    name: ClassVar[str] = "ips"
    is_monotone_in_weight: ClassVar[bool] = True
    has_bounded_terms: ClassVar[bool] = True
    is_weighted_mean: ClassVar[bool] = True
    priority: ClassVar[int] = 25
    is_default: ClassVar[bool] = True
    title: ClassVar[str] = "Inverse propensity scoring"
    about: ClassVar[str] = (
        "Weighs every logged reward by how much more often the new policy would have taken the action. Unbiased and "
        "noisy: the reference for all others."
    )

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``(w r, (w - 1) r)``."""
        weight = terms.importance_weight
        return np.column_stack([weight * terms.reward, (weight - 1.0) * terms.reward])

    def bounded_terms(self, which: int, limits: tuple[float, float], max_weight: float) -> TermPair:
        """Return the term itself, and the same with the other sign."""
        term, width = np.eye(2)[which], self.term_ranges(max_weight, *limits)[which]
        return BoundedTerm(term, width), BoundedTerm(-term, width)

    def term_ranges(self, max_weight: float, low: float, high: float) -> tuple[float, float]:
        """Return the widths of the ranges of ``w r`` and ``(w - 1) r``, w in [0, max_weight], r in [low, high]."""
        value = [weight * reward for weight in (0.0, max_weight) for reward in (low, high)]
        uplift = [(weight - 1.0) * reward for weight in (0.0, max_weight) for reward in (low, high)]
        return max(value) - min(value), max(uplift) - min(uplift)


@dataclass(frozen=True)
class ClippedIPS(IPS):
    """IPS with weights clipped at ``max_importance_weight``: less variance, biased towards zero (Ionides, 2008).

    Parameters
    ----------
    max_importance_weight : float of at least 1, optional
        By default ``sqrt(n_samples)``, Ionides' rate: variance and squared bias then vanish together.
    """

    max_importance_weight: float | None = None

    name: ClassVar[str] = "clipped_ips"
    is_unbiased: ClassVar[bool] = False
    clips_weights: ClassVar[bool] = True
    is_monotone_in_weight: ClassVar[bool] = True
    has_bounded_terms: ClassVar[bool] = True
    priority: ClassVar[int] = 30
    is_default: ClassVar[bool] = False
    title: ClassVar[str] = "Clipped IPS"
    about: ClassVar[str] = "Like IPS, with the largest weights clipped: less noise, some bias."

    def __post_init__(self) -> None:
        if self.max_importance_weight is not None:
            check_number("max_importance_weight", self.max_importance_weight, low=1.0)

    def tuned(self, pilot: Pilot) -> ClippedIPS:
        """Choose the largest weight."""
        if self.max_importance_weight is not None:
            return self
        return replace(self, max_importance_weight=max(float(np.sqrt(pilot.n_samples)), 1.0))

    def moments(self, terms: Terms) -> FloatArray:
        """Return the moments of `IPS` with clipped weights, and the clipped weights themselves, for bounds."""
        weight = self.modified(terms.importance_weight)
        return np.column_stack([super().moments(replace(terms, importance_weight=weight)), weight])

    def modified(self, importance_weight: FloatArray) -> FloatArray:
        """Return the clipped weights."""
        assert self.max_importance_weight is not None
        return np.minimum(importance_weight, self.max_importance_weight)

    def is_clipped(self, importance_weight: FloatArray) -> BoolArray:
        """Return which weights are clipped."""
        assert self.max_importance_weight is not None
        return importance_weight > self.max_importance_weight

    def bounded_terms(self, which: int, limits: tuple[float, float], max_weight: float) -> TermPair:
        """Return terms that bound the policy's value, not the clipped estimate.

        Clipped weights ``v <= w`` bound the value all the same, because ``V - low = E[w (r - low)] >= E[v (r - low)]``
        and ``high - V >= E[v (high - r)]``; likewise the uplift, with ``v - 1`` in the place of v.
        """
        (low, high), clipped = limits, np.array([0.0, 0.0, 1.0])
        term, width = np.eye(3)[which], self.largest(max_weight) * (high - low)
        return BoundedTerm(term - low * clipped, width, low), BoundedTerm(high * clipped - term, width, -high)

    def largest(self, max_weight: float) -> float:
        """Return the largest clipped weight if no weight is larger than ``max_weight``."""
        return float(self.modified(np.asarray(max_weight)))


@dataclass(frozen=True)
class CentredEstimator(Estimator):
    """An estimator that moves by as much as all rewards do, and so may look at ``ρ = r - origin``, one of the rewards.

    The estimate does not depend on the origin, but the sums of squares and higher powers that intervals are made of
    keep their digits where rewards are far from zero, and a constant reward is estimated without rounding, with an
    interval of zero width.
    """

    origin: float | None = None

    is_unbiased: ClassVar[bool] = False
    is_tuned_for_rounding: ClassVar[bool] = True
    shifts_with_rewards: ClassVar[bool] = True

    def tuned(self, pilot: Pilot) -> CentredEstimator:
        """Take the first reward for the origin."""
        return self if self.origin is not None else replace(self, origin=float(pilot.terms.reward[0]))

    def centred(self, reward: FloatArray) -> FloatArray:
        """Return the rewards less the origin."""
        return reward - (self.origin or 0.0)


@dataclass(frozen=True)
class SNIPS(CentredEstimator):
    """Self-normalised IPS, ``sum(w · r) / sum(w)`` (Swaminathan and Joachims, 2015); uplift: less ``mean(r)``.

    Moments are ``((w - 1) ρ, w, ρ)``.
    """

    name: ClassVar[str] = "snips"
    is_monotone_in_weight: ClassVar[bool] = True
    priority: ClassVar[int] = 15
    is_default: ClassVar[bool] = True
    title: ClassVar[str] = "Self-normalised IPS"
    about: ClassVar[str] = (
        "Like IPS, divided by the sum of the weights. Usually narrower, and blind to a constant added to all rewards."
    )

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``((w - 1) ρ, w, ρ)``."""
        centred = self.centred(terms.reward)
        return np.column_stack([(terms.importance_weight - 1.0) * centred, terms.importance_weight, centred])

    def value(self, mean: FloatArray) -> FloatArray:
        """Return ``origin + mean(w ρ) / mean(w)``."""
        return (self.origin or 0.0) + ratio(mean[..., 0] + mean[..., 2], mean[..., 1])

    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return ``mean(w ρ) / mean(w) - mean(ρ)``, written so that weights of 1 give zero exactly."""
        return ratio(mean[..., 0] - (mean[..., 1] - 1.0) * mean[..., 2], mean[..., 1])

    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives: together they give the influence ``w (r - value) / mean(w)``."""
        inverse = 1.0 / mean[1] if mean[1] > 0.0 else np.nan
        return np.array([inverse, -(mean[0] + mean[2]) * inverse**2, inverse])

    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives: the influence ``w (r - value) / mean(w) - (r - mean(r))``."""
        inverse = 1.0 / mean[1] if mean[1] > 0.0 else np.nan
        uplift = (mean[0] - (mean[1] - 1.0) * mean[2]) * inverse
        return np.array([inverse, -(mean[2] + uplift) * inverse, -(mean[1] - 1.0) * inverse])


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the quotient, NaN without a warning where the denominator is not positive."""
    positive = np.asarray(denominator) > 0.0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), np.nan)
