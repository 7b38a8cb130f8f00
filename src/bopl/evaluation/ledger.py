"""`Ledger`: what is summed up to answer one question: of the whole log, of a segment, or of another reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.evaluation.diagnosis import RewardTotals, TrainedRows, WeightFacts, WeightTotals
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import primary_position
from bopl.evaluation.evaluation_task import Assumptions
from bopl.evaluation.interval import Bounds, Evidence, Interval
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.rounding import RoundingTotals
from bopl.evaluation.row import Estimate
from bopl.evaluation.sample_terms import Terms
from bopl.evaluation.verdict import Allowance, Case, Goal, judge


class PolicyTotals:
    """What has been accumulated of one policy."""

    def __init__(self, name: str, estimators: Sequence[Estimator], n_actions: int) -> None:
        self.name = name
        self.estimators = list(estimators)
        self.primary = primary_position(self.estimators)
        self.sums = [SampleSums() for _ in self.estimators]
        self.n_clipped = np.zeros(len(self.estimators))
        self.lost_weight = np.zeros(len(self.estimators))  # sum of w - v(w)
        # Of what weights are to tell, r or r - q: sum of the squares, and of the products with the weights.
        self.square_left, self.weighted_left = np.zeros((2, len(self.estimators)))
        self.weights = WeightTotals(n_actions)
        self.trained = TrainedRows()
        self.rounding = RoundingTotals(len(self.estimators))
        self.kept_weight: list[FloatArray] = []

    def add(self, terms: Terms, group: IntArray | None, *, keep: bool) -> FloatArray:
        """Add some rows; return the moments of all estimators side by side."""
        columns = [estimator.moments(terms) for estimator in self.estimators]
        weight = terms.importance_weight
        for position, moments in enumerate(columns):
            estimator, sums = self.estimators[position], self.sums[position]
            sums.add(moments, group)
            self.rounding.add(position, estimator, [terms], estimator.moments, sums.mean)
            self.n_clipped[position] += estimator.is_clipped(weight).sum()
            used, left = estimator.modified(weight), terms.modelled[1] if estimator.needs_model else terms.reward
            self.weighted_left[position] += weight @ left
            if used is not weight:  # most estimators use the weights as they are
                self.lost_weight[position] += (weight - used).sum()
                self.square_left[position] += (left**2).sum()
        if keep:
            self.kept_weight.append(weight)
        return np.hstack(columns)

    def merge(self, other: PolicyTotals) -> None:
        """Add the sums of another shard with the same estimators."""
        for mine, yours in zip(self.sums, other.sums, strict=True):
            mine.merge(yours)
        self.n_clipped += other.n_clipped
        self.lost_weight += other.lost_weight
        self.square_left += other.square_left
        self.weighted_left += other.weighted_left
        self.weights.merge(other.weights)
        self.trained.merge(other.trained)
        self.rounding.merge(other.rounding)
        self.kept_weight += other.kept_weight


@dataclass(frozen=True)
class Block:
    """Some rows of the log, as all policies see them."""

    terms: list[Terms]  # one per policy
    action_prob: list[FloatArray | None]  # (n_rows, n_actions): probabilities of each policy, where they are known
    action_idx: IntArray  # (n_rows,)
    impossible: BoolArray | None  # (n_rows, n_actions): actions that the logging policy could not choose
    group: IntArray | None  # (n_rows,)

    @property
    def reward(self) -> FloatArray:
        """Rewards of the rows."""
        return self.terms[0].reward

    def at(self, rows: IntArray) -> Block:
        """Return some of the rows."""
        return Block(
            [terms.at(rows) for terms in self.terms],
            [None if prob is None else prob[rows] for prob in self.action_prob],
            self.action_idx[rows],
            None if self.impossible is None else self.impossible[rows],
            None if self.group is None else self.group[rows],
        )

    def with_reward(self, reward: FloatArray) -> Block:
        """Return the rows with another reward."""
        terms = [one.with_reward(reward) for one in self.terms]
        return Block(terms, self.action_prob, self.action_idx, self.impossible, self.group)


class Ledger:
    """Sums over samples, for every policy; shards add up to the whole.

    ``estimators`` are those of each policy, with their settings chosen; ``unit`` is the unit of the rewards.
    """

    def __init__(
        self, names: Sequence[str], estimators: Sequence[Sequence[Estimator]], n_actions: int, unit: float
    ) -> None:
        self.totals = [PolicyTotals(name, tuned, n_actions) for name, tuned in zip(names, estimators, strict=True)]
        self.reward = RewardTotals()
        self.action_count = np.zeros(n_actions)
        self.kept_reward: list[FloatArray] = []
        self.unit = unit

    @property
    def has_groups(self) -> bool:
        """Whether samples come in groups."""
        return self.totals[0].weights.weight.groups is not None

    @property
    def mean(self) -> float:
        """Mean reward: what the logging policy earns."""
        return self.reward.mean * self.unit

    def add(self, block: Block, *, keep: bool = False) -> FloatArray:
        """Add some rows; return the moments of all policies and estimators side by side."""
        columns = []
        for totals, terms, prob in zip(self.totals, block.terms, block.action_prob, strict=True):
            columns.append(totals.add(terms, block.group, keep=keep))
            totals.weights.add(terms, prob, block.impossible, block.group)
        self.action_count += np.bincount(block.action_idx, minlength=len(self.action_count))
        self.reward.add(block.reward)
        if keep:
            self.kept_reward.append(block.reward)
        return np.hstack(columns)

    def merge(self, other: Ledger) -> None:
        """Add the sums of another shard."""
        for mine, yours in zip(self.totals, other.totals, strict=True):
            mine.merge(yours)
        self.reward.merge(other.reward)
        self.action_count = self.action_count + other.action_count
        self.kept_reward += other.kept_reward


@dataclass(frozen=True)
class LogFacts:
    """What every answer depends on besides the sums of a ledger."""

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
        missing = self._missing_allowance(place, position) if clipped == Allowance() else Allowance()
        return Allowance(*(sum(ends) for ends in zip(clipped, unseen, missing, strict=True)))

    def _missing_allowance(self, place: int, position: int) -> Allowance:
        """Return what rare large weights may be worth that the log happens not to have (`WeightFacts.missing_mass`).

        An estimate that takes them for nothing flatters a policy where rewards are costs. They are taken for what the
        policy's other choices earn, or beside what a model says of them.
        """
        facts, totals = self.facts[place], self.ledger.totals[place]
        mass, total = facts.missing_from(totals.estimators[position]), facts.mean * facts.n_samples
        worth = mass * float(totals.weighted_left[position]) / total * self.ledger.unit if total > 0.0 else 0.0
        return Allowance(max(-worth, 0.0), max(worth, 0.0))

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
