"""`Ledger`: what is summed up to answer one question: of the whole log, of a segment, or of another reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.evaluation.diagnosis import RewardTotals, WeightFacts
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.interval import Evidence, Interval
from bopl.evaluation.terms import Terms
from bopl.evaluation.totals import PolicyTotals
from bopl.evaluation.verdict import Case, Goal, judge


@dataclass(frozen=True)
class Block:
    """Some rows of the log, as all policies see them.

    Attributes
    ----------
    terms : list of Terms
        One per policy.
    action_prob : list of ndarrays of shape (n_rows, n_actions), or None
        Of each policy, where they are known.
    action_idx : ndarray of shape (n_rows,)
    impossible : boolean ndarray of shape (n_rows, n_actions), or None
        Actions that the logging policy could not choose.
    group : ndarray of shape (n_rows,), or None
    """

    terms: list[Terms]
    action_prob: list[FloatArray | None]
    action_idx: IntArray
    impossible: BoolArray | None
    group: IntArray | None

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


@dataclass(frozen=True)
class Asked:
    """What an answer depends on beside the sums.

    Attributes
    ----------
    interval : Interval
        Of the values.
    uplift_interval : Interval
        Of the differences: at a higher level where several answers are to hold together.
    limits : (float, float)
        Range of the rewards, in units.
    max_weight : float
    source : str
        Where the propensities come from.
    knows_logging_policy : bool
    uniform : (float, float)
        Mean weight of the uniform policy and its z-score.
    trained : sequence of float
        Share of the samples that each policy was trained on.
    """

    interval: Interval
    uplift_interval: Interval
    limits: tuple[float, float]
    max_weight: float
    source: str
    knows_logging_policy: bool
    uniform: tuple[float, float]
    trained: Sequence[float]


class Ledger:
    """Sums over samples, for every policy; shards add up to the whole.

    Parameters
    ----------
    names : sequence of str
        Of the policies.
    estimators : sequence of sequences of Estimator
        Of each policy, with their settings chosen.
    n_actions : int
    unit : float
        What rewards are counted in.
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
        return bool(self.totals[0].groups)

    @property
    def mean(self) -> float:
        """Mean reward: what the logging policy earns."""
        return self.reward.mean * self.unit

    def add(self, block: Block, *, keep: bool = False) -> FloatArray:
        """Add some rows; return the moments of all policies and estimators side by side."""
        columns = []
        for totals, terms, prob in zip(self.totals, block.terms, block.action_prob, strict=True):
            columns.append(totals.add(terms, block.group, keep=keep))
            totals.weights.add(terms.importance_weight, terms.reward, prob, block.impossible, block.group)
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

    def evidence(self, place: int, position: int, asked: Asked, replicates: FloatArray | None = None) -> Evidence:
        """Return what is known of one policy under one estimator, in units."""
        totals, keep = self.totals[place], asked.interval.needs_samples
        return Evidence(
            estimator=totals.estimators[position],
            moments=totals.moments[position],
            groups=totals.groups[position] if totals.groups else None,
            replicate_means=replicates,
            importance_weight=np.concatenate(totals.kept_weight) if keep else None,
            reward=np.concatenate(self.kept_reward) if keep else None,
            reward_range=asked.limits,
            max_weight=asked.max_weight,
            is_logging_policy=totals.weights.gap == 0.0,
        )

    def facts(self, place: int, evidence: Evidence, asked: Asked) -> WeightFacts:
        """Return what weights and rewards say of a policy."""
        return self.totals[place].weights.facts(
            self.action_count,
            reward_share=self.reward.share,
            trained_share=asked.trained[place],
            n_groups=evidence.value_spread().n_units if self.has_groups else None,
            uniform=asked.uniform,
        )

    def case(self, place: int, position: int, asked: Asked, goal: Goal, replicates: FloatArray | None = None) -> Case:
        """Return all that a verdict on one policy under one estimator looks at."""
        totals, evidence = self.totals[place], self.evidence(place, position, asked, replicates)
        facts = totals.rounding.allowed(self.facts(place, evidence, asked))
        value_bounds, bounds = (
            totals.rounding.widened(position, which, found, facts.n_samples)
            for which, found in enumerate([asked.interval.value(evidence), asked.uplift_interval.uplift(evidence)])
        )
        return Case(
            evidence,
            asked.uplift_interval,
            facts,
            lost_weight=float(totals.lost_weight[position] / facts.n_samples),
            uplift=evidence.uplift * self.unit,
            value_bounds=self._scaled(value_bounds),
            bounds=self._scaled(bounds),
            source=asked.source,
            knows_logging_policy=asked.knows_logging_policy,
            goal=goal,
        )

    def row(
        self, place: int, position: int, asked: Asked, goal: Goal, replicates: FloatArray | None = None
    ) -> dict[str, Any]:
        """Return all there is to say of one policy under one estimator."""
        totals, case = self.totals[place], self.case(place, position, asked, goal, replicates)
        verdict, reason = judge(case)
        facts = case.facts
        return {
            "policy": totals.name,
            "estimator": case.estimator.name,
            "is_primary": position == totals.primary,
            "value": case.evidence.value * self.unit,
            "std_err": asked.interval.std_err(case.evidence) * self.unit,
            "ci_lower": case.value_bounds[0],
            "ci_upper": case.value_bounds[1],
            "uplift": case.uplift,
            "uplift_ci_lower": case.bounds[0],
            "uplift_ci_upper": case.bounds[1],
            "n": facts.n_samples,
            "ess": facts.ess,
            "mean_weight": facts.mean,
            "max_weight": facts.max,
            "clipped_share": float(totals.n_clipped[position] / facts.n_samples),
            "unsupported_mass": facts.unsupported_mass,
            "propensity_source": asked.source,
            "verdict": verdict,
            "reason": reason + totals.rounding.describe(position, facts.n_samples, self.unit),
        }

    def _scaled(self, bounds: tuple[float, float]) -> tuple[float, float]:
        return bounds[0] * self.unit, bounds[1] * self.unit
