"""From sums to an evaluation: estimates, guards, segments, comparisons, the verdict on each policy, and the notes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from bopl.evaluation.books import Books
from bopl.evaluation.evaluation_task import Assumptions, EvaluationTask
from bopl.evaluation.interval import MIN_TAIL_REPLICATES, Bounds, Interval, Normal, at_confidence, stretched
from bopl.evaluation.ledger import Intervals, Ledger, LedgerView, LogFacts
from bopl.evaluation.log_sums import LogSums
from bopl.evaluation.paired import PairTotals, compare_pair, paired_allowance
from bopl.evaluation.question import Guard, Question
from bopl.evaluation.result import Evaluation
from bopl.evaluation.row import Comparison, Estimate, GuardResult, PolicyVerdict, SegmentEstimate
from bopl.evaluation.verdict import BROKEN, KEPT, UNDECIDED, Case, Goal, decide, find_complaint


class GuardChange(NamedTuple):
    """What a policy does to a guarded reward.

    ``base`` is what is earned of it now; ``held`` the interval to be held against a share of that; ``complaint`` why
    the log cannot say, if it cannot.
    """

    base: float
    change: float
    bounds: Bounds
    held: Bounds
    complaint: str | None
    estimator: str


@dataclass(frozen=True, eq=False)
class Answers:
    """Draws the answers to a task from the sums over a log."""

    task: EvaluationTask
    sums: LogSums  # complete: nothing is added any more
    assumptions: Assumptions

    @property
    def books(self) -> Books:
        """The ledgers of all questions."""
        return self.sums.books

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.task.question

    @property
    def confidence(self) -> float:
        """The level that all answers of one kind have together."""
        return self.task.interval.confidence

    @cached_property
    def _log_facts(self) -> LogFacts:
        books, sums = self.books, self.sums
        trained = [totals.trained.share for totals in books.main.totals]
        uniform = books.propensity.mean_and_z()
        return LogFacts(self.assumptions, sums.source, sums.knows_logging_policy, uniform, trained)

    @cached_property
    def _main(self) -> LedgerView:
        return LedgerView(self.books.main, self._log_facts)

    @cached_property
    def _guarded(self) -> dict[str, LedgerView]:
        return {name: LedgerView(ledger, self._log_facts) for name, ledger in self.books.guards.items()}

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """One per policy and estimator."""
        main, goal = self._main, self._goal()
        interval = self.task.interval
        intervals = Intervals(interval, at_confidence(interval, self._level(self.question.n_judged)))
        means = None if self.sums.bootstrap is None else self.sums.bootstrap.means()  # of all moments, side by side
        found, start = [], 0
        for place, totals in enumerate(self.books.main.totals):
            for position, sums in enumerate(totals.sums):
                stop = start + len(sums.mean)
                replicates = None if means is None else means[:, start:stop]
                found.append(main.estimate(place, position, intervals, goal, replicates))
                start = stop
        return tuple(found)

    def _level(self, n_answers: int) -> float:
        return self.question.confidence(self.confidence, n_answers)

    def _normal(self, n_answers: int) -> Intervals:
        """Return normal intervals of the answers that are given besides the main ones."""
        return Intervals(Normal(self.confidence), Normal(self._level(n_answers)))

    def _goal(self, ledger: Ledger | None = None, n_answers: int | None = None, what: str = "policies") -> Goal:
        base = (ledger or self.books.main).mean
        n_together = self.question.n_judged if n_answers is None else n_answers
        return Goal(
            self.question.min_uplift.absolute(base),
            self.question.min_uplift.share,
            base,
            certainty=self.question.certainty(self.confidence, n_together, what),
        )

    # -- Segments -------------------------------------------------------------------------------------------------

    def segments(self) -> tuple[SegmentEstimate, ...]:
        """Return one estimate per policy and segment; the intervals hold for all of them together."""
        n_judged, segments = self.question.n_judged, self.books.segments
        n_answers, what = len(segments) * n_judged, "segments" if n_judged == 1 else "answers"
        views = {label: LedgerView(ledger, self._log_facts) for label, ledger in sorted(segments.items())}
        found = []
        for place in range(len(self.books.main.totals)):
            for label, view in views.items():
                goal = replace(self._goal(view.ledger, n_answers, what), samples="segment")
                found.append(_of_segment(label, view, view.estimate(place, 0, self._normal(n_answers), goal)))
        return tuple(found)

    # -- Head to head ---------------------------------------------------------------------------------------------

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """One per pair of policies; the intervals hold for all of them together."""
        question, main = self.question, self.books.main
        n_answers = len(self.books.pairs)
        primary = [totals.primary for totals in main.totals]
        found = []
        for pair in self.books.pairs:
            cases = self._pair_cases(self._main, pair, primary)
            base = cases[1].evidence.value * main.unit
            goal = Goal(
                question.min_uplift.absolute(base),
                question.min_uplift.share,
                base,
                question.names[pair.second],
                question.certainty(self.confidence, n_answers, "comparisons"),
            )
            names = (question.names[pair.first], question.names[pair.second])
            found.append(compare_pair(pair, names, cases, Normal(self._level(n_answers)), main.unit, goal))
        return tuple(found)

    def _pair_cases(self, view: LedgerView, pair: PairTotals, positions: list[int]) -> tuple[Case, Case]:
        intervals = self._normal(self.question.n_judged)
        first, second = (
            view.case(place, positions[place], intervals, self._goal()) for place in (pair.first, pair.second)
        )
        return first, second

    # -- What verdicts rest on ------------------------------------------------------------------------------------

    def judged(self, place: int, position: int, interval: Interval) -> Bounds:
        """Return the interval of an uplift with all that its verdict allows for, in units of the rewards."""
        case = self._main.case(place, position, Intervals(interval, interval), self._goal())
        return self._in_units(case.judged)

    def judged_pair(self, pair: PairTotals, interval: Interval) -> Bounds:
        """Return the same of the difference between two policies."""
        cases = self._pair_cases(self._main, pair, [totals.primary for totals in self.books.main.totals])
        found = pair.difference(interval, self.books.main.unit)
        return self._in_units(pair.judged(cases, found, self.question.min_uplift.share))

    def _in_units(self, bounds: Bounds) -> Bounds:
        return bounds[0] / self.books.main.unit, bounds[1] / self.books.main.unit

    # -- Guards ---------------------------------------------------------------------------------------------------

    @cached_property
    def guards(self) -> tuple[GuardResult, ...]:
        """One per policy and guard."""
        return tuple(
            self._guard_result(place, guard)
            for place, name in enumerate(self.question.names)
            if name != self.question.against
            for guard in self.question.guards
        )

    def _guard_result(self, place: int, guard: Guard) -> GuardResult:
        question = self.question
        certainty = question.certainty(self.confidence, question.n_judged, "policies")
        # A verdict of worse may rest on any of the guards: for that they share the error among them.
        strict = 1.0 - (1.0 - self.confidence) / (question.n_judged * len(question.guards))
        found, stricter = (
            self._guard_change(place, guard, level) for level in (self._level(question.n_judged), strict)
        )
        state, reason, limit = _guard_state(guard, found, stricter.held, certainty)
        return GuardResult(
            policy=question.names[place],
            guard=str(guard),
            reward=guard.reward,
            estimator=found.estimator,
            now=found.base,
            change=found.change,
            ci_lower=found.bounds[0],
            ci_upper=found.bounds[1],
            limit=limit,
            state=state,
            reason=reason,
        )

    def _guard_change(self, place: int, guard: Guard, level: float) -> GuardChange:
        view, share = self._guarded[guard.reward], guard.margin.share
        ledger = view.ledger
        pair = next((one for one in self.books.guard_pairs[guard.reward] if one.first == place), None)
        if pair is not None:
            cases = self._pair_cases(view, pair, [0] * len(ledger.totals))
            interval = Normal(level)
            change, bounds = pair.difference(interval, ledger.unit)
            held = stretched(bounds, change, pair.share_factor(share))
            bounds, held = (paired_allowance(cases).around(one) for one in (bounds, held))
            complaint = None if pair.is_same else pair.complaint(cases, interval)
            return GuardChange(
                cases[1].evidence.value * ledger.unit, change, bounds, held, complaint, cases[0].estimator.name
            )
        case = view.case(place, 0, Intervals(Normal(self.confidence), Normal(level)), self._goal(ledger))
        held = stretched(case.bounds, case.uplift, case.evidence.share_factor(share))
        bounds, held = (case.allowance.around(one) for one in (case.bounds, held))
        return GuardChange(ledger.mean, case.uplift, bounds, held, find_complaint(case), case.estimator.name)

    # -- Verdicts -------------------------------------------------------------------------------------------------

    def decisions(self) -> tuple[PolicyVerdict, ...]:
        """Return the verdict on each policy but the one that runs now."""
        against = self.question.against
        found = []
        for estimate in self.estimates:
            name = estimate.policy
            if estimate.is_primary and name != against:
                own = [one for one in self.guards if one.policy == name]
                pair = [one for one in self.comparisons if against is not None and one.policy == name]
                found.append(decide(estimate, pair[0] if pair else None, own))
        return tuple(found)


def _of_segment(label: str, view: LedgerView, estimate: Estimate) -> SegmentEstimate:
    shared = {field.name: estimate[field.name] for field in fields(SegmentEstimate) if field.name in estimate}
    return SegmentEstimate(segment=label, logging_value=view.ledger.mean, **shared)


def conclude(task: EvaluationTask, sums: LogSums | None) -> Evaluation:
    """Return the evaluation that sums over a log amount to."""
    if sums is None:
        raise ValueError("nothing has been added yet: there is no result.")
    sums.books.check_units()
    assumptions = sums.assumptions(task)
    answers = Answers(task, sums, assumptions)
    return Evaluation(
        answers.estimates,
        task.interval.name,
        task.interval.confidence,
        sums.books.main.mean,
        describe_evaluation(task, sums, assumptions),
        decisions=answers.decisions(),
        guards=answers.guards,
        segments=answers.segments(),
        comparisons=answers.comparisons,
        estimators=task.estimators,
    )


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
                setting, value = next((name, one) for name, one in vars(tuned).items() if vars(given).get(name) != one)
                shown = f"{value:.4g}" if isinstance(value, float) else value
                notes.append(f"{tuned.name} of {totals.name!r}: {setting} = {shown}, chosen from the log.")
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
    if type(task.interval) is not Normal and (sums.books.has_segments or not question.is_plain):
        notes.append(f"Guards, segments and comparisons have normal intervals, not {task.interval.name} ones.")
    if task.interval.needs_replicates:
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


def _guard_state(guard: Guard, found: GuardChange, strict: Bounds, certainty: str) -> tuple[str, str, float]:
    """Return whether a guard is kept, a sentence about it, and the change that it allows.

    ``strict`` is the interval of the change at the level at which all guards together are held to be broken,
    ``certainty`` the confidence of the interval of ``found``, in words.
    """
    limit, sign = guard.margin.absolute(found.base), guard.sign
    shown = [_change_text(one, found.base) for one in found.held]
    between = f"{guard.reward} changes by between {shown[0]} and {shown[1]} {certainty}"
    if found.complaint is not None:
        return UNDECIDED, f"The log cannot say whether the guard {guard} is kept. {found.complaint}", limit
    if min(sign * one for one in found.held) >= sign * limit:
        return KEPT, f"The guard {guard} is kept: {between}.", limit
    if max(sign * one for one in strict) < sign * limit:
        return BROKEN, f"The guard {guard} is broken: {between}.", limit
    return UNDECIDED, f"It is undecided whether the guard {guard} is kept: {between}.", limit


def _change_text(change: float, base: float) -> str:
    """Return a change in per cent of what is earned now, or as it is where that is not positive."""
    return f"{100.0 * change / base:+.3g}%" if base > 0.0 else f"{change:+.4g}"
