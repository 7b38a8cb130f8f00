"""`Evaluation`: one row per policy and estimator, for people and for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bopl._errors import visible
from bopl._table import Record, Tabular
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.row import (
    COLUMNS,
    Comparison,
    Estimate,
    GuardResult,
    PolicyVerdict,
    SegmentEstimate,
    TippingPoint,
)

HEADINGS = ("policy", "estimator", "value", "uplift", "effective samples", "verdict")
STYLES = {"better": "green", "worse": "red", "inconclusive": "yellow", "not trustworthy": "bold magenta"}
STYLES |= {"kept": "green", "broken": "red", "undecided": "yellow"}


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular):
    """What a log says about some policies.

    ``print(evaluation)`` and a notebook show a table; ``evaluation.table`` is a frame with the columns of
    ``bopl.evaluation.row.COLUMNS``; ``evaluation.plot()`` a forest plot. Rows are records: ``row.value`` and
    ``row["value"]`` are the same.

    Attributes
    ----------
    rows : tuple of Estimate
        One per policy and estimator.
    interval : str
        Kind of interval.
    confidence : float
        Confidence level of the intervals.
    logging_value : float
        Mean reward in the log: what the logging policy earns.
    notes : tuple of str
        What was assumed or chosen along the way.
    confounding : tuple of TippingPoint
        For verdicts that were tested for hidden confounding: how strong it must be to overturn them.
    decisions : tuple of PolicyVerdict
        The verdict on each policy: that of its primary estimator, guards included.
    guards : tuple of GuardResult
        One per policy and guard.
    segments : tuple of SegmentEstimate
        One per policy and segment, if the log has segments.
    comparisons : tuple of Comparison
        One per pair of policies that were compared.
    estimators : tuple of Estimator
        What the rows were estimated with.
    """

    rows: tuple[Estimate, ...]
    interval: str
    confidence: float
    logging_value: float
    notes: tuple[str, ...] = ()
    confounding: tuple[TippingPoint, ...] = ()
    decisions: tuple[PolicyVerdict, ...] = ()
    guards: tuple[GuardResult, ...] = ()
    segments: tuple[SegmentEstimate, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    estimators: tuple[Estimator, ...] = ()

    def decision(self, policy: object = None) -> PolicyVerdict:
        """Return the verdict on a policy; its name may be left out if there is just one."""
        found = [one for one in self.decisions if policy is None or one.policy == str(policy)]
        if len(found) != 1:
            raise KeyError(
                f"{'several verdicts match' if found else 'no verdict matches'} policy={policy!r}; name one of "
                f"{', '.join(one.policy for one in self.decisions)}."
            )
        return found[0]

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows] for name in COLUMNS}

    def row(self, policy: object = None, estimator: str | None = None) -> Estimate:
        """Return the only row of a policy and estimator; either may be left out if there is just one."""
        own = [row for row in self.rows if policy is None or row.policy == str(policy)]
        found = [row for row in own if estimator in (None, row.estimator)]
        if len(found) != 1:
            match = "several rows match" if found else "no row matches"
            known = ", ".join(f"{row.policy}/{row.estimator}" for row in self.rows)
            raise KeyError(f"{match} policy={policy!r} and estimator={estimator!r}; name one of {known}.")
        return found[0]

    def primary_row(self, policy: object = None) -> Estimate:
        """Return the row of the estimator that decides about a policy; about the first one by default."""
        name = self.rows[0].policy if policy is None else str(policy)
        found = [row for row in self.rows if row.policy == name]
        if not found:
            raise KeyError(f"no row has policy {name!r}; there are {', '.join({row.policy: 0 for row in self.rows})}.")
        return next((row for row in found if row.is_primary), found[0])

    @property
    def title(self) -> str:
        """What was evaluated, in a line."""
        n_samples = self.rows[0].n if self.rows else 0
        return (
            f"{n_samples:,} samples; the logging policy earns {self.logging_value:.4g}; "
            f"{100.0 * self.confidence:.4g}% {self.interval.replace('_', ' ')} intervals"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; what is not a number becomes None."""
        return {
            "interval": self.interval,
            "confidence": self.confidence,
            "logging_value": self.logging_value,
            "notes": list(self.notes),
            "confounding": _plain(self.confounding),
            "rows": _plain(self.rows),
            "decisions": _plain(self.decisions),
            "guards": _plain(self.guards),
            "segments": _plain(self.segments),
            "comparisons": _plain(self.comparisons),
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title, title_justify="left")
        for heading in HEADINGS:
            is_number = heading in ("value", "uplift", "effective samples")
            table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
        for row in self.rows:
            table.add_row(*map(Text, row_cells(row)), Text(row.verdict, style=STYLES[row.verdict]))
        return Group(table, *self._part_tables(), *(Text(line) for line in (*self._reason_lines(), *self.notes)))

    def _part_tables(self) -> list[Any]:
        """Return guards, comparisons and segments as tables."""
        from rich.table import Table
        from rich.text import Text

        tables = []
        for title, heads, rows in part_rows(self):
            table = Table(title=title, title_justify="left")
            for head in heads:
                table.add_column(head)
            for row in rows:
                table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
            tables.append(table)
        return tables

    def _reason_lines(self) -> list[str]:
        """Return every reason once, with the rows it belongs to."""
        rows_of: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            rows_of.setdefault((row.policy, row.reason), []).append(row.estimator)
        lines = [f"{visible(policy)} ({', '.join(names)}): {reason}" for (policy, reason), names in rows_of.items()]
        said = {row.reason for row in self.rows}
        return lines + [
            f"Verdict on {visible(one.policy)}: {one.verdict}. {one.reason}"
            for one in self.decisions
            if one.reason not in said
        ]

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120).print(self)
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        from bopl.evaluation.notebook import evaluation_card

        return evaluation_card(self, self._reason_lines())

    def plot(self, *, show_uplift: bool = True) -> Any:
        """Return a matplotlib forest plot: uplifts (or values) with their intervals, colours by verdict."""
        from bopl.evaluation.notebook import plot_forest

        return plot_forest(self, show_uplift=show_uplift)


def part_rows(evaluation: Evaluation) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return guards, comparisons and segments as text: for each that there is its title, headings and rows."""
    guards = [
        (row.policy, row.guard, f"{row.now:.4g}", between_text(row.change, row.ci_lower, row.ci_upper), row.state)
        for row in evaluation.guards
    ]
    compared = [
        (row.policy, row.other, between_text(row.difference, row.ci_lower, row.ci_upper), row.verdict)
        for row in evaluation.comparisons
    ]
    segments = [
        (
            row.policy,
            row.segment,
            f"{row.n:,}",
            between_text(row.uplift, row.uplift_ci_lower, row.uplift_ci_upper),
            row.verdict,
        )
        for row in evaluation.segments
    ]
    parts: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
        ("Guards", ("policy", "guard", "now", "change and its interval", "state"), list(guards)),
        ("Head to head", ("policy", "compared with", "difference and its interval", "verdict"), list(compared)),
        ("Segments", ("policy", "segment", "samples", "uplift and its interval", "verdict"), list(segments)),
    ]
    return [
        (title, heads, [tuple(visible(cell) for cell in row) for row in rows]) for title, heads, rows in parts if rows
    ]


def between_text(difference: float, lower: float, upper: float) -> str:
    """Return a difference with its interval as text."""
    return f"{difference:+.4g} [{lower:+.4g}, {upper:+.4g}]"


def row_cells(row: Estimate) -> tuple[str, str, str, str, str]:
    """Return policy, estimator, value, uplift and effective samples of a row as text."""
    value = f"{row.value:.4g} [{row.ci_lower:.4g}, {row.ci_upper:.4g}]"
    uplift = between_text(row.uplift, row.uplift_ci_lower, row.uplift_ci_upper)
    return visible(row.policy), row.estimator, value, uplift, f"{row.ess:,.0f}"


def _plain(rows: Sequence[Record]) -> list[dict[str, Any]]:
    return [row.to_dict() for row in rows]
