"""What is found out about a log in pieces before the first round: bins, layout, and a few numbers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._exact import Limbs, limbs_of
from bopl._typing import AnyArray, BoolArray
from bopl.boosting.pieces.part import Loader, Part
from bopl.cluster import Placement
from bopl.learner.hist_tree.binning import ColumnBins, ColumnCounts, bins_from, count_values
from bopl.learner.hist_tree.learner import as_context
from bopl.learner.hist_tree.storage import BinFacts, Layout, bin_facts, choose_layout
from bopl.log import BanditLog


@dataclass(frozen=True)
class LoadLog:
    """The state of a piece before it is binned is the piece itself."""

    loader: Loader

    def __call__(self, part: Part, settled: Any, cache: Any) -> tuple[Part, BanditLog | None]:
        """Return the piece, loaded; an empty one is none."""
        return part, self.loader.load(part.piece) if part.n_rows else None


@dataclass(frozen=True)
class LogNumbers:
    """Numbers of a whole log; those of several pieces are added.

    Attributes
    ----------
    least_propensity, largest_reward : float
    reward : ndarray of int64
        Exact sum of the rewards.
    has_reward : bool
        Whether a reward is not zero after the translation.
    """

    least_propensity: float
    largest_reward: float
    reward: Limbs
    has_reward: bool

    def __add__(self, other: LogNumbers) -> LogNumbers:
        return LogNumbers(
            min(self.least_propensity, other.least_propensity),
            max(self.largest_reward, other.largest_reward),
            self.reward + other.reward,
            self.has_reward or other.has_reward,
        )


def find_numbers(placed: Placement, translation: float) -> LogNumbers:
    """Return the numbers of a log."""
    found: LogNumbers = placed.reduce(_numbers, translation, add=operator.add)
    return found


def _numbers(state: tuple[Part, BanditLog | None], translation: float) -> LogNumbers:
    log = state[1]
    if log is None:
        return LogNumbers(np.inf, 0.0, limbs_of(np.zeros(0)), False)
    return LogNumbers(
        float(log.propensity.min()),
        float(np.abs(log.reward).max()),
        limbs_of(log.reward),
        bool(np.any(log.translated(translation).reward)),
    )


def find_layout(
    placed: Placement, max_bins: int, categorical: BoolArray, n_actions: int, *, has_action_column: bool = False
) -> Layout:
    """Return the bins of all columns and how rows are stored, as for a log in memory."""
    columns: list[ColumnBins] = []
    for j in range(len(categorical)):
        counts = placed.reduce(_count_column, j, has_action_column, add=operator.add)
        columns.append(
            bins_from(counts, max_bins, n_actions=n_actions, is_categorical=bool(categorical[j]), name=str(j))
        )
    facts = placed.reduce(_facts, tuple(columns), has_action_column, add=_add_facts)
    assert facts is not None
    return choose_layout(tuple(columns), facts)


def context_of(log: BanditLog, has_action_column: bool) -> Any:
    """Return the contexts that trees are fitted to; a reward model's have the action as their last column."""
    if not has_action_column:
        return as_context(log.context)
    from bopl.reward.boosted import with_action_column

    return as_context(with_action_column(log.context, log.action_idx))


def _count_column(state: tuple[Part, BanditLog | None], j: int, has_action_column: bool) -> ColumnCounts:
    log = state[1]
    if log is None:
        return ColumnCounts(np.zeros(0, np.float32), np.zeros(0, np.int64))
    return count_values(context_of(log, has_action_column), j)


def _facts(state: tuple[Part, BanditLog | None], columns: tuple[ColumnBins, ...], has_action: bool) -> BinFacts | None:
    return None if state[1] is None else bin_facts(context_of(state[1], has_action), columns)


def _add_facts(one: BinFacts | None, other: BinFacts | None) -> BinFacts | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def gather_rows(placed: Placement, function: Any, *shared: Any) -> AnyArray:
    """Return arrays by sample of all pieces, end to end."""
    return np.concatenate(placed.gather(function, *shared))


__all__ = ["LoadLog", "LogNumbers", "context_of", "find_layout", "find_numbers", "gather_rows"]
