"""`Ledger`: what is summed up to answer one question: of the whole log, of a segment, or of another reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.evaluation.diagnosis import RewardTotals, TrainedRows, WeightTotals
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import primary_position
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.rounding import RoundingTotals
from bopl.evaluation.sample_terms import Terms


class PolicyTotals:
    """What has been accumulated of one policy."""

    def __init__(self, name: str, estimators: Sequence[Estimator], n_actions: int) -> None:
        self.name = name
        self.estimators = list(estimators)
        self.primary = primary_position(self.estimators)
        self.sums = [SampleSums() for _ in self.estimators]
        self.n_clipped = np.zeros(len(self.estimators))
        self.lost_weight = np.zeros(len(self.estimators))  # sum of w - v(w)
        self.square_left = np.zeros(len(self.estimators))  # sum of squares of what weights are to tell: r, or r - q
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
            used = estimator.modified(weight)
            if used is not weight:  # most estimators use the weights as they are
                self.lost_weight[position] += (weight - used).sum()
                left = terms.modelled[1] if estimator.needs_model else terms.reward
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

    Parameters
    ----------
    names : sequence of str
        Names of the policies.
    estimators : sequence of sequences of Estimator
        Estimators of each policy, with their settings chosen.
    n_actions : int
    unit : float
        Unit of the rewards.
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
