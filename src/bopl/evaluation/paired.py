"""Two policies head to head: the difference of their values, paired on the same samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bopl._trust import SAME_POLICY
from bopl._typing import FloatArray, IntArray
from bopl.evaluation.diagnosis import DecidingRewards
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.interval import Bounds, Evidence, Interval, stretched
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.rounding import RoundingTotals
from bopl.evaluation.row import Comparison
from bopl.evaluation.sample_terms import Terms
from bopl.evaluation.verdict import (
    INCONCLUSIVE,
    NOT_TRUSTWORTHY,
    SOURCE_NOTES,
    Allowance,
    Case,
    Goal,
    compare_bounds,
    few_rewarded_groups,
    few_rewards,
    find_complaint,
    lopsided_groups,
)


@dataclass(frozen=True)
class Difference(Estimator):
    """The value of one policy less that of another, under their estimators f and g.

    Moments are those of the first less those of the second, ``d``, and those of the second, ``m``; the difference is
    ``f(m + d) - g(m)``. What both policies share cancels sample by sample, and two policies that are the same differ
    by exactly zero, with an interval of zero width.
    """

    first: Estimator
    second: Estimator

    name: ClassVar[str] = "difference"

    def moments(self, terms: Terms) -> FloatArray:
        """Return nothing: a difference takes the terms of two policies, see `paired_moments`."""
        raise NotImplementedError("a difference takes the terms of two policies.")

    def paired_moments(self, first: Terms, second: Terms) -> FloatArray:
        """Return ``(d, m)`` of every sample."""
        mine, theirs = self.first.moments(first), self.second.moments(second)
        return np.hstack([mine - theirs, theirs])

    def value(self, mean: FloatArray) -> FloatArray:
        """Return ``f(m + d) - g(m)``."""
        gap, theirs = np.split(mean, 2, axis=-1)
        return self.first.value(theirs + gap) - self.second.value(theirs)

    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return ``f'(m + d)``, and ``f'(m + d) - g'(m)``."""
        gap, theirs = np.split(mean, 2)
        of_first = self.first.value_gradient(theirs + gap)
        return np.concatenate([of_first, of_first - self.second.value_gradient(theirs)])

    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return the difference: it is an uplift already."""
        return self.value(mean)

    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives of the difference."""
        return self.value_gradient(mean)


class PairTotals:
    """Sums over samples for one pair of policies; the first is compared with the second."""

    def __init__(self, first: int, second: int, estimator: Difference) -> None:
        self.first, self.second, self.estimator = first, second, estimator
        self.sums = SampleSums()
        self.gap = self.square_gap = 0.0
        self.deciding = DecidingRewards()
        self.rounding = RoundingTotals(1)

    def add(self, first: Terms, second: Terms, group: IntArray | None) -> None:
        """Add some rows."""
        self.sums.add(self.estimator.paired_moments(first, second), group)
        self.rounding.add(0, self.estimator, [first, second], self.estimator.paired_moments, self.sums.mean)
        difference = first.importance_weight - second.importance_weight
        self.deciding.add(difference, first, group)
        gap = np.abs(difference)
        self.gap += float(gap.sum())
        self.square_gap += float((gap**2).sum())

    def merge(self, other: PairTotals) -> None:
        """Add the sums of another shard."""
        self.sums.merge(other.sums)
        self.gap, self.square_gap = self.gap + other.gap, self.square_gap + other.square_gap
        self.deciding.merge(other.deciding)
        self.rounding.merge(other.rounding)

    @property
    def differing(self) -> float:
        """Effective samples that tell the two apart, ``sum(|w - w'|)² / sum((w - w')²)``."""
        return self.gap**2 / self.square_gap if self.square_gap > 0.0 else 0.0

    @property
    def is_same(self) -> bool:
        """Whether the two are one policy on this log, but for rounding."""
        return float(np.sqrt(self.square_gap / self.sums.n_samples)) <= SAME_POLICY

    def difference(self, interval: Interval, unit: float) -> tuple[float, Bounds]:
        """Return the difference and its interval, rounded propensities allowed for."""
        evidence = Evidence(self.estimator, self.sums)
        lower, upper = self.rounding.widened(0, 0, interval.value(evidence), self.sums.n_samples)
        return evidence.value * unit, (lower * unit, upper * unit)

    def share_factor(self, share: float) -> float:
        """Return how much wider its interval is if it is held against a share of what the second policy earns."""
        theirs = self.estimator.second.value_gradient(np.split(self.sums.mean, 2)[1])
        base = np.concatenate([np.zeros_like(theirs), theirs])
        return Evidence(self.estimator, self.sums).share_factor(share, base)

    def judged(self, cases: tuple[Case, Case], found: tuple[float, Bounds], share: float) -> Bounds:
        """Return the interval that the verdict on a difference rests on, with what it allows for (`Case.judged`)."""
        difference, bounds = found
        lower, _ = stretched(bounds, difference, self.share_factor(share))
        return paired_allowance(cases).around((lower, bounds[1]))

    def complaint(self, cases: tuple[Case, Case], interval: Interval) -> str | None:
        """Return why the log cannot answer: because of one of the two, or because too few samples tell them apart."""
        for case, name in zip(cases, ("the policy", "the other policy"), strict=True):
            found = find_complaint(case, is_paired=True)
            if found is not None:
                return f"The log cannot answer for {name}. {found}"
        lopsided = lopsided_groups(self.deciding.n_groups)
        if lopsided is not None:
            return lopsided
        sizes = (self.differing, *(case.facts.ess for case in cases))
        has_model = cases[0].estimator.needs_model
        share = self.deciding.share(cases[0].facts.reward_share, has_model=has_model)
        few = few_rewards(min(sizes) * share, interval)
        if few is None:
            return few_rewarded_groups(self.deciding.rewarded_groups(has_model=has_model), interval)
        return f"Of the rewards that tell the two apart {few}: no interval can be relied on."


def paired_allowance(cases: tuple[Case, Case]) -> Allowance:
    """Return what clipped weights may have hidden of a difference: of either policy, in opposite directions."""
    first, second = (case.allowance for case in cases)
    return Allowance(first.below + second.above, first.above + second.below)


def compare_pair(
    pair: PairTotals, names: tuple[str, str], cases: tuple[Case, Case], interval: Interval, unit: float, goal: Goal
) -> Comparison:
    """Return what the log says of two policies head to head.

    ``cases`` are what is known of either policy against the logging policy.
    """
    difference, bounds = found = pair.difference(interval, unit)
    judged = pair.judged(cases, found, goal.share)
    complaint = None if pair.is_same else pair.complaint(cases, interval)
    if pair.is_same:
        verdict = INCONCLUSIVE
        reason = f"It is the same policy as {goal.other} on this log, but for rounding: there is no difference to see."
    elif complaint is not None:
        verdict, reason = NOT_TRUSTWORTHY, complaint
    else:
        verdict, reason = compare_bounds(difference, judged, goal)
        reason += pair.rounding.describe(0, cases[0].facts.n_samples, unit)
    return Comparison(
        policy=names[0],
        other=names[1],
        estimator=cases[0].estimator.name,
        difference=difference,
        ci_lower=bounds[0],
        ci_upper=bounds[1],
        effective=pair.differing,
        verdict=verdict,
        reason=reason + SOURCE_NOTES.get(cases[0].source, ""),
    )
