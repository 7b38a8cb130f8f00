"""`Ledger`: what is summed up to answer one question: of the whole log, of a segment, or of another reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.evaluation.diagnosis import RewardTotals
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.sample_terms import Terms
from bopl.evaluation.totals import PolicyTotals


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
