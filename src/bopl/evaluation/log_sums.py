"""`LogSums`: everything that is summed up over the parts of a log; sums of two shards add up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._typing import FloatArray, IntArray
from bopl.evaluation.books import Books, guard_estimator
from bopl.evaluation.bootstrap import PoissonBootstrap
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.evaluation_task import Assumptions, EvaluationTask, find_assumptions
from bopl.evaluation.ledger import Block
from bopl.evaluation.moments import in_unit, reward_unit
from bopl.evaluation.sample_terms import Pilot, Terms
from bopl.evaluation.sources import Sources

PILOT_BLOCKS = 2  # blocks of the log from which settings left to the data are chosen


@dataclass(eq=False)
class LogSums:
    """What has been summed up of a log."""

    books: Books
    source: str  # where the propensities come from
    actions: list[Any]  # labels of the actions
    knows_logging_policy: bool  # whether the logging policy's probabilities of all actions are known
    n_samples: int
    min_propensity: float  # smallest propensity
    rows: list[tuple[int, int]]  # of every part: its first row, and the one after its last
    notes: tuple[str, ...] = ()  # what was done to read the log
    bootstrap: PoissonBootstrap | None = field(default=None)

    @property
    def has_groups(self) -> bool:
        """Whether samples come in groups."""
        return self.books.main.has_groups

    @property
    def estimators(self) -> list[list[Estimator]]:
        """The estimators of every policy, with the settings chosen that are left to the data."""
        return [totals.estimators for totals in self.books.main.totals]

    def assumptions(self, task: EvaluationTask) -> Assumptions:
        """Return what bounds assume of rewards and propensities, or raise if the samples contradict it."""
        reward, unit = self.books.main.reward, self.books.main.unit
        return find_assumptions(task.settings, (reward.low * unit, reward.high * unit), self.min_propensity)

    def check_part(self, sources: Sources) -> None:
        """Raise if a part of a log does not go with those before it."""
        log = sources.log
        if self.actions != log.actions.tolist() or self.source != log.propensity_source:
            raise ValueError("all parts of a log must have the same actions and the same source of propensities.")
        if self.has_groups != (sources.group is not None):
            raise ValueError("either all parts of a log have groups, or none has.")
        if self.books.has_segments != (log.segment is not None):
            raise ValueError("either all parts of a log have segments, or none has.")

    def check_rows(self, rows: list[tuple[int, int]]) -> None:
        """Raise if rows were added before: the bootstrap would draw two samples of one number alike."""
        if self.bootstrap is None or self.has_groups:
            return
        for start, stop in rows:
            if any(start < other_stop and other_start < stop for other_start, other_stop in self.rows):
                raise ValueError(
                    f"rows {start} to {stop - 1} were added before, and the bootstrap draws samples by their "
                    "number: pass first_row, the number of a part's first sample in the whole log, to add."
                )

    def suits(self, other: LogSums) -> bool:
        """Return whether two shards can be of one log: with the same actions, groups, segments and units."""
        mine, yours = (
            (one.actions, one.source, one.has_groups, one.books.has_segments, one.knows_logging_policy, one.books.units)
            for one in (self, other)
        )
        return mine == yours

    def merge(self, other: LogSums) -> None:
        """Add the sums of other rows of the same log."""
        self.check_rows(other.rows)
        self.books.merge(other.books)
        if self.bootstrap is not None and other.bootstrap is not None:
            self.bootstrap.merge(other.bootstrap)
        self.n_samples += other.n_samples
        self.rows += other.rows
        self.min_propensity = min(self.min_propensity, other.min_propensity)


def sum_part(
    task: EvaluationTask, sources: Sources, first_row: int, books: Books | None = None, *, settles: bool = False
) -> LogSums:
    """Return the sums of a part of a log; one that fails on the way leaves nothing behind.

    ``first_row`` is the number of the part's first sample in the whole log. ``books`` are those of an earlier part,
    which chose units and settings for all; by default this part chooses them. ``settles``: no other part
    chooses any, as shards that were begun apart do.
    """
    log = sources.log
    for estimator in task.estimators:
        task.interval.check(estimator, has_group=sources.group is not None, source=log.propensity_source)
    unit = reward_unit(log.reward) if books is None else books.main.unit
    sources = replace(sources, unit=unit)
    sums = LogSums(
        _new_books(task, sources, settles) if books is None else books.empty(),
        log.propensity_source,
        log.actions.tolist(),
        sources.logging is not None,
        log.n_samples,
        float(log.propensity.min()),
        [(first_row, first_row + log.n_samples)],
        sources.notes,
    )
    for reader, totals in zip(sources.readers, sums.books.main.totals, strict=True):
        totals.trained.add(*reader.fitted)
    for rows in sources.blocks():
        _add_block(sums, task, sources, rows)
    sums.assumptions(task)  # raises if the part contradicts what was promised of the log
    return sums


def add_part(task: EvaluationTask, sums: LogSums | None, sources: Sources, first_row: int | None = None) -> LogSums:
    """Add a part of a log to the sums over those before it; return them.

    ``sums`` is None before the first part. ``first_row`` is the number of the part's first sample in the whole log; by
    default the parts follow each other.
    """
    if sums is None:
        return sum_part(task, sources, first_row or 0)
    first_row = sums.n_samples if first_row is None else first_row
    sums.check_part(sources)
    sums.check_rows([(first_row, first_row + sources.log.n_samples)])
    sums.merge(sum_part(task, sources, first_row, sums.books))
    return sums


def _new_books(task: EvaluationTask, sources: Sources, settles: bool) -> Books:
    """Return empty books, with units and settings chosen from the first part."""
    log, interval = sources.log, task.interval
    if log.segment is not None and interval.is_bound:
        raise UsageError(f"interval={interval.name!r} has no segments; use 'normal' or 'bootstrap'.")
    n_samples = log.n_samples if task.n_samples is None else task.n_samples
    tuned = [
        [
            one if one.is_tuned_for_rounding and not settles else one.tuned(pilot)  # shards need one setting
            for one in task.estimators
        ]
        for pilot in (_pilot(task, sources, position, n_samples) for position in range(len(task.policies)))
    ]
    guard = guard_estimator(task.estimators)
    return Books(task.question, tuned, guard, log, unit=sources.unit, settles=settles, n_samples=n_samples)


def _pilot(task: EvaluationTask, sources: Sources, position: int, n_samples: int) -> Pilot:
    """Return blocks spread over the log; one row if no estimator looks at them."""
    if not any(estimator.needs_pilot for estimator in task.estimators):
        return Pilot(Terms(np.ones(1), in_unit(sources.log.reward[:1], sources.unit)), n_samples)
    blocks = sources.blocks()
    chosen = blocks if len(blocks) <= PILOT_BLOCKS else blocks[:: -(-len(blocks) // PILOT_BLOCKS)]
    return sources.pilot(chosen, position, n_samples)


def _add_block(sums: LogSums, task: EvaluationTask, sources: Sources, rows: slice) -> None:
    group = None if sources.group is None else sources.group[rows]
    reward_hat = None if sources.rewards is None else sources.rewards.block(rows)
    logging_prob = sources.logging_prob(rows)
    blocks = [reader.block(rows) for reader in sources.readers]
    block = Block(
        [sources.terms(rows, one, reward_hat, logging_prob) for one in blocks],
        [one.action_prob for one in blocks],
        sources.log.action_idx[rows],
        sources.impossible(rows, logging_prob),
        group,
    )
    moments = sums.books.add(block, sources.log, rows, keep=task.interval.needs_samples)
    if task.interval.needs_replicates:
        _resample(sums, task, moments, sums.rows[0][0] + rows.start, group)


def _resample(sums: LogSums, task: EvaluationTask, moments: FloatArray, first_row: int, group: IntArray | None) -> None:
    if sums.bootstrap is None:
        settings = task.settings
        sums.bootstrap = PoissonBootstrap(
            moments.shape[1], settings.n_replicates, settings.random_state, settings.n_jobs
        )
    sums.bootstrap.add(moments, first_row=first_row, group=group)
