"""`LedgerView`: from the sums of a ledger to estimates with their verdicts; weights are diagnosed once per policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation.assumption import Assumptions
from bopl.evaluation.diagnosis import WeightFacts
from bopl.evaluation.interval import Bounds, Evidence, Interval
from bopl.evaluation.ledger import Ledger, PolicyTotals
from bopl.evaluation.row import Estimate
from bopl.evaluation.verdict import Allowance, Case, Goal, judge


@dataclass(frozen=True)
class LogFacts:
    """What every answer depends on beside the sums of a ledger."""

    assumptions: Assumptions
    source: str  # where the propensities come from
    knows_logging_policy: bool  # whether the logging policy's probabilities of all actions are known
    uniform: tuple[float, float]  # mean weight of the uniform policy and its z-score
    trained: Sequence[float]  # share of the samples that each policy was trained on


class Intervals(NamedTuple):
    """The intervals of an answer: that of the uplift has a higher level where several answers hold together."""

    value: Interval
    uplift: Interval


@dataclass(frozen=True, eq=False)
class LedgerView:
    """What the sums of a ledger say."""

    ledger: Ledger  # complete: nothing is added to it any more
    log: LogFacts

    @cached_property
    def facts(self) -> tuple[WeightFacts, ...]:
        """What weights and rewards say of each policy, rounded propensities allowed for."""
        ledger = self.ledger
        return tuple(
            totals.rounding.allowed(
                totals.weights.facts(
                    ledger.action_count,
                    reward_share=ledger.reward.share,
                    trained_share=trained,
                    uniform=self.log.uniform,
                )
            )
            for totals, trained in zip(ledger.totals, self.log.trained, strict=True)
        )

    def evidence(self, place: int, position: int, *, keep: bool, replicates: FloatArray | None = None) -> Evidence:
        """Return what is known of one policy under one estimator, in units; ``keep`` with every sample."""
        totals, (low, high) = self.ledger.totals[place], self.log.assumptions.reward_range
        return Evidence(
            estimator=totals.estimators[position],
            sums=totals.sums[position],
            replicate_means=replicates,
            importance_weight=np.concatenate(totals.kept_weight) if keep else None,
            reward=np.concatenate(self.ledger.kept_reward) if keep else None,
            reward_range=(low / self.ledger.unit, high / self.ledger.unit),
            max_weight=self.log.assumptions.max_weight,
            is_logging_policy=totals.weights.gap == 0.0,
        )

    def case(
        self, place: int, position: int, intervals: Intervals, goal: Goal, replicates: FloatArray | None = None
    ) -> Case:
        """Return all that a verdict on one policy under one estimator looks at."""
        totals, facts = self.ledger.totals[place], self.facts[place]
        evidence = self.evidence(place, position, keep=intervals.value.needs_samples, replicates=replicates)
        low, high = evidence.reward_range
        limits = ((low, high), (low - high, high - low))
        value_bounds, bounds = (
            totals.rounding.widened(position, which, found, facts.n_samples, limits[which])
            for which, found in enumerate([intervals.value.value(evidence), intervals.uplift.uplift(evidence)])
        )
        return Case(
            evidence,
            intervals.uplift,
            facts,
            lost_weight=float(totals.lost_weight[position] / facts.n_samples),
            allowance=self._allowance(place, position, evidence, intervals.uplift),
            uplift=evidence.uplift * self.ledger.unit,
            value_bounds=self._scaled(value_bounds),
            bounds=self._scaled(bounds),
            source=self.log.source,
            knows_logging_policy=self.log.knows_logging_policy,
            goal=goal,
        )

    def _allowance(self, place: int, position: int, evidence: Evidence, interval: Interval) -> Allowance:
        """Return what the estimate does not see of the policy may be worth; bounds are bounds on all of it already."""
        if interval.is_bound:
            return Allowance()
        clipped = self._clipped_allowance(self.ledger.totals[place], position)
        unseen = self._unseen_allowance(self.facts[place].unsupported_mass, evidence)
        return Allowance(clipped.below + unseen.below, clipped.above + unseen.above)

    def _unseen_allowance(self, mass: float, evidence: Evidence) -> Allowance:
        """Return what actions that the log never took may earn beside what the estimate takes them for.

        Their mean reward is taken to lie in the range of the rewards, and within a standard deviation of their mean. A
        self-normalised estimate takes them for the policy's other choices, others for nothing or for what a reward
        model says.
        """
        if not mass > 0.0:  # NaN if it is not known
            return Allowance()
        reward, estimator = self.ledger.reward, evidence.estimator
        centre, deviation = reward.mean, reward.standard_deviation
        least, most = max(reward.low, centre - deviation), min(reward.high, centre + deviation)
        if estimator.needs_model:
            taken_for = [least, most]
        else:
            taken_for = [evidence.value] if estimator.shifts_with_rewards else [0.0, evidence.value]
        unit = mass * self.ledger.unit
        return Allowance(max(max(taken_for) - least, 0.0) * unit, max(most - min(taken_for), 0.0) * unit)

    def _clipped_allowance(self, totals: PolicyTotals, position: int) -> Allowance:
        """Return what clipped weights may hide: the share that is lost, times the root mean square of the rewards.

        With a reward model, of what it leaves unexplained; see `bopl.evaluation.model_based.bounded_mse`. Rewards that
        are never negative cannot make a policy worth less than its clipped estimate, nor costs more.
        """
        n_samples, reward = totals.weights.weight.n_samples, self.ledger.reward
        lost = float(totals.lost_weight[position] / n_samples)
        if lost <= 0.0:
            return Allowance()
        # Weights have the mean 1: a log with fewer large ones than expected has lost more than it shows.
        lost += max(1.0 - float(totals.weights.weight.mean[0]), 0.0)
        size = lost * float(np.sqrt(totals.square_left[position] / n_samples)) * self.ledger.unit
        if totals.estimators[position].needs_model:
            return Allowance(size, size)
        return Allowance(size if reward.low < 0.0 else 0.0, size if reward.high > 0.0 else 0.0)

    def estimate(
        self, place: int, position: int, intervals: Intervals, goal: Goal, replicates: FloatArray | None = None
    ) -> Estimate:
        """Return all there is to say of one policy under one estimator."""
        totals, unit = self.ledger.totals[place], self.ledger.unit
        case = self.case(place, position, intervals, goal, replicates)
        verdict, reason = judge(case)
        facts = case.facts
        return Estimate(
            policy=totals.name,
            estimator=case.estimator.name,
            is_primary=position == totals.primary,
            value=case.evidence.value * unit,
            std_err=intervals.value.std_err(case.evidence) * unit,
            ci_lower=case.value_bounds[0],
            ci_upper=case.value_bounds[1],
            uplift=case.uplift,
            uplift_ci_lower=case.bounds[0],
            uplift_ci_upper=case.bounds[1],
            n=facts.n_samples,
            ess=facts.ess,
            mean_weight=facts.mean,
            max_weight=facts.max,
            clipped_share=float(totals.n_clipped[position] / facts.n_samples),
            unsupported_mass=facts.unsupported_mass,
            propensity_source=self.log.source,
            verdict=verdict,
            reason=reason + totals.rounding.describe(position, facts.n_samples, unit),
        )

    def _scaled(self, bounds: Bounds) -> Bounds:
        return bounds[0] * self.ledger.unit, bounds[1] * self.ledger.unit
