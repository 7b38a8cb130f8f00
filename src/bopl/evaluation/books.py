"""`Books`: the ledgers of all questions that one pass over a log answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl._errors import UsageError, quoted
from bopl._typing import FloatArray
from bopl.evaluation.diagnosis import PropensityTotals
from bopl.evaluation.estimator import SNIPS, Estimator
from bopl.evaluation.estimator_registry import primary_position
from bopl.evaluation.ledger import Block, Ledger
from bopl.evaluation.moments import check_unit, in_unit, reward_unit
from bopl.evaluation.paired import Difference, PairTotals
from bopl.evaluation.question import Question
from bopl.evaluation.sample_terms import Pilot, Terms
from bopl.log import BanditLog

MAX_SEGMENTS = 100


def guard_estimator(estimators: Sequence[Estimator]) -> Estimator:
    """Return the estimator of guarded rewards, which no model predicts: the primary one that needs none, else SNIPS."""
    fit = [one for one in estimators if not one.needs_model and not one.needs_pilot]
    return fit[primary_position(fit)] if fit else SNIPS()


class Books:
    """Ledgers of the whole log, of its segments and of other rewards, and the sums over pairs of policies."""

    def __init__(
        self,
        question: Question,
        estimators: Sequence[Sequence[Estimator]],  # of every policy, with their settings chosen
        guard: Estimator,  # that of guarded rewards; its settings are chosen from each of them
        log: BanditLog,  # the first part
        *,
        unit: float,  # of the main reward
        settles: bool,  # whether what is chosen here is chosen for every part
        n_samples: int,  # of the whole log
    ) -> None:
        self.question, self.estimators, self.n_actions = question, estimators, log.n_actions
        self.main = Ledger(question.names, estimators, log.n_actions, unit)
        self.propensity = PropensityTotals()
        self.segments: dict[str, Ledger] = {}
        self.has_segments = log.segment is not None
        self.pairs = self._make_pairs([self.primary(own) for own in estimators])
        self.guards: dict[str, Ledger] = {}
        self.guard_pairs: dict[str, list[PairTotals]] = {}
        for name in (one.reward for one in question.guards):
            reward = other_reward(log, name)
            guard_unit = reward_unit(reward)
            if settles or not guard.is_tuned_for_rounding:
                own = guard.tuned(Pilot(Terms(np.ones(1), in_unit(reward[:1], guard_unit)), n_samples))
            else:
                own = guard
            all_own = [own] * len(question.names)
            self.guards[name] = Ledger(question.names, [[one] for one in all_own], log.n_actions, guard_unit)
            self.guard_pairs[name] = self._make_pairs(all_own) if question.against is not None else []

    @staticmethod
    def primary(estimators: Sequence[Estimator]) -> Estimator:
        """Return the primary estimator."""
        return estimators[primary_position(estimators)]

    def _make_pairs(self, estimators: Sequence[Estimator]) -> list[PairTotals]:
        return [
            PairTotals(first, second, Difference(estimators[first], estimators[second]))
            for first, second in self.question.pairs
        ]

    def empty(self) -> Books:
        """Return books with the same question, units and settings, but no samples."""
        copy = object.__new__(Books)
        vars(copy).update(vars(self))
        copy.main, copy.segments = self._blank(self.main), {}
        copy.propensity = PropensityTotals()
        copy.pairs = [PairTotals(one.first, one.second, one.estimator) for one in self.pairs]
        copy.guards = {name: self._blank(ledger) for name, ledger in self.guards.items()}
        copy.guard_pairs = {
            name: [PairTotals(one.first, one.second, one.estimator) for one in pairs]
            for name, pairs in self.guard_pairs.items()
        }
        return copy

    def _blank(self, ledger: Ledger) -> Ledger:
        return Ledger(self.question.names, [one.estimators for one in ledger.totals], self.n_actions, ledger.unit)

    def add(self, block: Block, log: BanditLog, rows: slice, *, keep: bool) -> FloatArray:
        """Add some rows of a part; return the moments of the main ledger."""
        moments = self.main.add(block, keep=keep)
        mask = log.action_mask
        self.propensity.add(log.propensity[rows], self.n_actions if mask is None else mask[rows].sum(1), block.group)
        _add_pairs(self.pairs, block)
        for name, ledger in self.guards.items():
            guarded = block.with_reward(in_unit(other_reward(log, name)[rows], ledger.unit))
            ledger.add(guarded)
            _add_pairs(self.guard_pairs[name], guarded)
        if log.segment is not None:
            self._add_segments(block, log.segment[rows])
        return moments

    def _add_segments(self, block: Block, segment: Any) -> None:
        labels, code = np.unique(segment, return_inverse=True)
        for number, label in enumerate(labels.tolist()):
            self._segment(label).add(block.at(np.flatnonzero(code == number)))

    def _segment(self, label: str) -> Ledger:
        """Return the ledger of a segment, which has the primary estimator only."""
        if label not in self.segments:
            if len(self.segments) == MAX_SEGMENTS:
                raise UsageError(
                    f"there are more than {MAX_SEGMENTS} segments, among them {quoted(list(self.segments)[:3])}: take "
                    "a column with fewer values, or bin it."
                )
            own = [[self.primary(one)] for one in self.estimators]
            self.segments[label] = Ledger(self.question.names, own, self.n_actions, self.main.unit)
        return self.segments[label]

    def merge(self, other: Books) -> None:
        """Add the sums of another shard."""
        self.main.merge(other.main)
        self.propensity.merge(other.propensity)
        for label, ledger in other.segments.items():
            self._segment(label).merge(ledger)
        _merge_pairs(self.pairs, other.pairs)
        for name, ledger in other.guards.items():
            self.guards[name].merge(ledger)
            _merge_pairs(self.guard_pairs[name], other.guard_pairs[name])

    def check_units(self) -> None:
        """Raise one sentence if the rewards of later parts are far from those of the first."""
        for name, ledger in {"the rewards": self.main, **self.guards}.items():
            check_unit(max(abs(ledger.reward.low), abs(ledger.reward.high)), ledger.unit, name)

    @property
    def chosen(self) -> list[list[Estimator]]:
        """The estimators of every ledger and policy, with the settings that were chosen."""
        return [totals.estimators for ledger in (self.main, *self.guards.values()) for totals in ledger.totals]

    @property
    def units(self) -> tuple[float, ...]:
        """Units of all rewards."""
        return (self.main.unit, *(ledger.unit for ledger in self.guards.values()))


def other_reward(log: BanditLog, name: str) -> FloatArray:
    """Return a further reward of the log, or raise one sentence if it has none of that name."""
    if name not in log.other_rewards:
        known = f"it has {quoted(list(log.other_rewards))}" if log.other_rewards else "it has none"
        raise UsageError(
            f"the log has no other reward {name!r} to guard ({known}); build it with other_rewards={{{name!r}: …}}."
        )
    return log.other_rewards[name]


def _add_pairs(pairs: Sequence[PairTotals], block: Block) -> None:
    for pair in pairs:
        pair.add(block.terms[pair.first], block.terms[pair.second], block.group)


def _merge_pairs(mine: Sequence[PairTotals], yours: Sequence[PairTotals]) -> None:
    for one, other in zip(mine, yours, strict=True):
        one.merge(other)
