"""What an evaluation says beside its numbers: settings chosen from the log, assumptions, levels."""

from __future__ import annotations

from math import ceil

import numpy as np

from bopl.evaluation.assumption import Assumptions
from bopl.evaluation.evaluation_task import EvaluationTask
from bopl.evaluation.interval import MIN_TAIL_REPLICATES
from bopl.evaluation.log_sums import LogSums


def describe_evaluation(task: EvaluationTask, sums: LogSums, assumptions: Assumptions) -> tuple[str, ...]:
    """Return the notes below the table, one sentence each."""
    return (
        *sums.notes,
        *_tuning_notes(task, sums),
        *assumptions.notes(task.interval, task.settings),
        *_level_notes(task, sums),
        *_share_notes(task, sums),
    )


def _tuning_notes(task: EvaluationTask, sums: LogSums) -> list[str]:
    """Say which settings of estimators were chosen from the log."""
    notes = []
    for totals in sums.books.main.totals:
        for given, tuned in zip(task.estimators, totals.estimators, strict=True):
            if given != tuned and not tuned.is_tuned_for_rounding:
                setting, value = next((name, one) for name, one in vars(tuned).items() if vars(given)[name] != one)
                notes.append(f"{tuned.name} of {totals.name!r}: {setting} = {value:.4g}, chosen from the log.")
    return notes


def _level_notes(task: EvaluationTask, sums: LogSums) -> list[str]:
    """Say at which level several answers hold together."""
    question = task.question
    level = question.confidence(task.interval.confidence, question.n_judged)
    notes = []
    if question.n_judged > 1 and question.is_simultaneous:
        notes.append(
            f"Verdicts and intervals of the uplift hold for all {question.n_judged} policies together: each is at "
            f"{100.0 * level:.6g}%."
        )
    if task.interval.needs_replicates:
        if not question.is_plain or sums.books.has_segments:
            notes.append("Intervals of guards, segments and comparisons are normal ones, not of the bootstrap.")
        n_replicates, fewest = task.settings.n_replicates, MIN_TAIL_REPLICATES / ((1.0 - level) / 2.0)
        if n_replicates < fewest:
            notes.append(
                f"{n_replicates} replicates are few for intervals at {100.0 * level:.6g}%: take n_replicates of at "
                f"least {ceil(fewest)}."
            )
    return notes


def _share_notes(task: EvaluationTask, sums: LogSums) -> list[str]:
    """Say if the smallest uplift of interest is a share of nearly nothing, and so asks for nearly nothing."""
    margin, ledger = task.question.min_uplift, sums.books.main
    noise = ledger.reward.moments.spread(np.ones(1)).std_err
    if not margin.is_relative or margin.size == 0.0 or abs(ledger.reward.mean) > 2.0 * noise:
        return []
    return [
        f"min_uplift is {100.0 * margin.size:.4g}% of what is earned now, {ledger.mean:.4g}, which can hardly be told "
        "from zero: give it per decision."
    ]
