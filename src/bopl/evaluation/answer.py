"""From sums to answers: rows, guards, segments, comparisons and the verdict on each policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bopl._typing import FloatArray
from bopl.evaluation.books import Books
from bopl.evaluation.decision import decide, guard_state
from bopl.evaluation.interval import Bounds, Interval, Normal, at_confidence
from bopl.evaluation.ledger import Asked, Ledger
from bopl.evaluation.margin import Guard
from bopl.evaluation.paired import PairTotals, compare_pair
from bopl.evaluation.verdict import Case, Goal, find_complaint

Row = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """Draws the answers from the books.

    Attributes
    ----------
    books : Books
    interval : Interval
    limits : (float, float)
        Range of the main reward.
    max_weight : float
    source : str
    knows_logging_policy : bool
    replicates : ndarray of shape (n_replicates, n_columns) or None
        Bootstrap means of the moments of all policies and estimators, side by side.
    """

    books: Books
    interval: Interval
    limits: tuple[float, float]
    max_weight: float
    source: str
    knows_logging_policy: bool
    replicates: FloatArray | None

    @property
    def confidence(self) -> float:
        """The level that all answers of one kind have together."""
        return self.interval.confidence

    def rows(self) -> tuple[Row, ...]:
        """Return a row per policy and estimator."""
        main, asked, goal = self.books.main, self._asked(), self._goal()
        rows, start = [], 0
        for place, totals in enumerate(main.totals):
            for position in range(len(totals.estimators)):
                stop = start + len(totals.moments[position].mean)
                replicates = None if self.replicates is None else self.replicates[:, start:stop]
                rows.append(main.row(place, position, asked, goal, replicates))
                start = stop
        return tuple(rows)

    def _asked(self, *, is_normal: bool = False, n_answers: int | None = None, unit: float | None = None) -> Asked:
        """Return what the answers depend on; by default those of the main ledger for all policies together."""
        question, main = self.books.question, self.books.main
        interval = Normal(self.confidence) if is_normal else self.interval
        level = question.confidence(self.confidence, question.n_judged if n_answers is None else n_answers)
        scale = main.unit if unit is None else unit
        return Asked(
            interval,
            at_confidence(interval, level),
            (self.limits[0] / scale, self.limits[1] / scale),
            self.max_weight,
            self.source,
            self.knows_logging_policy,
            self.books.propensity.mean_and_z(),
            [totals.trained.share for totals in main.totals],
        )

    def _goal(self, ledger: Ledger | None = None, n_answers: int | None = None, what: str = "policies") -> Goal:
        question = self.books.question
        base = (ledger or self.books.main).mean
        n_together = question.n_judged if n_answers is None else n_answers
        return Goal(
            question.min_uplift.absolute(base),
            base,
            certainty=question.certainty(self.confidence, n_together, what),
        )

    # -- Segments -------------------------------------------------------------------------------------------------

    def segments(self) -> tuple[Row, ...]:
        """Return a row per policy and segment; the intervals hold for all of them together."""
        ledgers = sorted(self.books.segments.items())
        n_answers = len(ledgers) * self.books.question.n_judged
        rows = []
        for place in range(len(self.books.main.totals)):
            for label, ledger in ledgers:
                asked = self._asked(is_normal=True, n_answers=n_answers)
                goal = self._goal(ledger, n_answers, "segments" if self.books.question.n_judged == 1 else "answers")
                row = ledger.row(place, 0, asked, goal)
                rows.append({"policy": row["policy"], "segment": label, "logging_value": ledger.mean, **_of(row)})
        return tuple(rows)

    # -- Head to head ---------------------------------------------------------------------------------------------

    def comparisons(self) -> tuple[Row, ...]:
        """Return a row per pair of policies; the intervals hold for all of them together."""
        question, main = self.books.question, self.books.main
        n_answers = len(self.books.pairs)
        rows = []
        for pair in self.books.pairs:
            cases = self._pair_cases(main, pair, [totals.primary for totals in main.totals])
            base = cases[1].evidence.value * main.unit
            goal = Goal(
                question.min_uplift.absolute(base),
                base,
                question.names[pair.second],
                question.certainty(self.confidence, n_answers, "comparisons"),
            )
            interval = Normal(question.confidence(self.confidence, n_answers))
            names = (question.names[pair.first], question.names[pair.second])
            rows.append(compare_pair(pair, names, cases, interval, main.unit, goal))
        return tuple(rows)

    def _pair_cases(self, ledger: Ledger, pair: PairTotals, positions: Sequence[int]) -> tuple[Case, Case]:
        asked = self._asked(is_normal=True, unit=ledger.unit)
        first, second = (
            ledger.case(place, positions[place], asked, self._goal()) for place in (pair.first, pair.second)
        )
        return first, second

    # -- Guards ---------------------------------------------------------------------------------------------------

    def guards(self) -> tuple[Row, ...]:
        """Return a row per policy and guard."""
        rows = []
        for place, name in enumerate(self.books.question.names):
            if name != self.books.question.against:
                rows += [self._guard_row(place, guard) for guard in self.books.question.guards]
        return tuple(rows)

    def _guard_row(self, place: int, guard: Guard) -> Row:
        question, ledger = self.books.question, self.books.guards[guard.reward]
        certainty = question.certainty(self.confidence, question.n_judged, "policies")
        # A verdict of worse may rest on any of the guards: for that they share the error among them.
        levels = [
            question.confidence(self.confidence, question.n_judged),
            1.0 - (1.0 - self.confidence) / (question.n_judged * len(question.guards)),
        ]
        pair = next((one for one in self.books.guard_pairs[guard.reward] if one.first == place), None)
        changes = [self._guard_change(ledger, place, pair, level) for level in levels]
        base, change, bounds, complaint, estimator = changes[0]
        state, reason, limit = guard_state(guard, base, change, bounds, changes[1][2], complaint, certainty)
        return {
            "policy": question.names[place],
            "guard": str(guard),
            "reward": guard.reward,
            "estimator": estimator,
            "now": base,
            "change": change,
            "ci_lower": bounds[0],
            "ci_upper": bounds[1],
            "limit": limit,
            "state": state,
            "reason": reason,
        }

    def _guard_change(
        self, ledger: Ledger, place: int, pair: PairTotals | None, level: float
    ) -> tuple[float, float, Bounds, str | None, str]:
        """Return what is earned of a guarded reward now, its change, the interval, and why the log cannot say."""
        if pair is not None:
            cases = self._pair_cases(ledger, pair, [0] * len(ledger.totals))
            change, bounds = pair.difference(Normal(level), ledger.unit)
            complaint = None if pair.is_same else pair.complaint(cases)
            return cases[1].evidence.value * ledger.unit, change, bounds, complaint, cases[0].estimator.name
        asked = self._asked(is_normal=True, unit=ledger.unit)
        case = ledger.case(place, 0, replace(asked, uplift_interval=Normal(level)), self._goal(ledger))
        return ledger.mean, case.uplift, case.bounds, find_complaint(case), case.estimator.name

    # -- Verdicts -------------------------------------------------------------------------------------------------

    def decisions(self, rows: Sequence[Row], guards: Sequence[Row], comparisons: Sequence[Row]) -> tuple[Row, ...]:
        """Return the verdict on each policy but the one that runs now."""
        against = self.books.question.against
        found = []
        for row in rows:
            name = row["policy"]
            if row["is_primary"] and name != against:
                own = [one for one in guards if one["policy"] == name]
                pair = [one for one in comparisons if against is not None and one["policy"] == name]
                found.append(decide(row, pair[0] if pair else None, own))
        return tuple(found)


def _of(row: Row) -> Row:
    """Return what a row of a segment says."""
    names = ("estimator", "n", "ess", "value", "uplift", "uplift_ci_lower", "uplift_ci_upper", "verdict", "reason")
    return {name: row[name] for name in names}
