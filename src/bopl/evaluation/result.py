"""`Evaluation`: one row per policy and estimator, for people and for programs."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bopl._frame import to_arrow, to_frame
from bopl._table import to_table
from bopl.evaluation.estimator import Estimator

COLUMNS: dict[str, str] = {
    "policy": "name of the policy",
    "estimator": "name of the estimator",
    "is_primary": "whether this estimator decides about the policy",
    "value": "estimated reward per decision",
    "std_err": "its standard error",
    "ci_lower": "lower end of its interval",
    "ci_upper": "upper end of its interval",
    "uplift": "value less that of the logging policy under the same estimator",
    "uplift_ci_lower": "lower end of the paired interval of the uplift",
    "uplift_ci_upper": "upper end of it; of several policies the intervals hold together",
    "n": "samples",
    "ess": "effective sample size, sum(w)² / sum(w²)",
    "mean_weight": "mean importance weight, 1 if all is well",
    "max_weight": "largest importance weight",
    "clipped_share": "share of the samples whose weight the estimator cut or set aside",
    "unsupported_mass": "share of the policy's choices that the log never took; missing if not known",
    "propensity_source": "logged, balanced, estimated or uniform",
    "verdict": "better, worse, inconclusive or not trustworthy",
    "reason": "why, in a sentence",
}
PARTS = ("decisions", "guards", "segments", "comparisons")
HEADINGS = ("policy", "estimator", "value", "uplift", "effective samples", "verdict")
STYLES = {"better": "green", "worse": "red", "inconclusive": "yellow", "not trustworthy": "bold magenta"}
STYLES |= {"kept": "green", "broken": "red", "undecided": "yellow"}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says about some policies.

    ``print(evaluation)`` and a notebook show a table; ``evaluation.table`` is a frame with the columns of
    ``bopl.evaluation.result.COLUMNS``; ``evaluation.plot()`` a forest plot.

    Attributes
    ----------
    rows : tuple of mappings
        One per policy and estimator.
    interval : str
    confidence : float
    logging_value : float
        Mean reward in the log: what the logging policy earns.
    notes : tuple of str
        What was assumed or chosen along the way.
    confounding : tuple of mappings
        For verdicts that were tested for hidden confounding: ``policy``, ``estimator``, ``verdict``, and ``odds``, the
        factor by which an unmeasured cause must shift the odds of an action for the verdict to fall; infinite if even
        100 does not overturn it.
    decisions : tuple of mappings
        The verdict on each policy, with ``policy``, ``against`` (what it was compared with, if not with the logging
        policy), ``estimator``, ``verdict`` and ``reason``: that of the estimator that decides, guards included.
    guards : tuple of mappings
        One per policy and guard: ``guard``, ``now``, ``change`` with ``ci_lower`` and ``ci_upper``, ``limit``, and
        ``state``, which is kept, broken or undecided.
    segments : tuple of mappings
        One per policy and segment, if the log has segments: ``segment``, ``n``, ``uplift`` with its interval, and
        ``verdict``.
    comparisons : tuple of mappings
        One per pair of policies that were compared: ``policy``, ``other``, ``difference`` with ``ci_lower`` and
        ``ci_upper``, ``verdict``.
    estimators : tuple of Estimator
        What the rows were estimated with.
    """

    rows: tuple[Mapping[str, Any], ...]
    interval: str
    confidence: float
    logging_value: float
    notes: tuple[str, ...] = ()
    confounding: tuple[Mapping[str, Any], ...] = ()
    decisions: tuple[Mapping[str, Any], ...] = ()
    guards: tuple[Mapping[str, Any], ...] = ()
    segments: tuple[Mapping[str, Any], ...] = ()
    comparisons: tuple[Mapping[str, Any], ...] = ()
    estimators: tuple[Estimator, ...] = ()

    def decision(self, policy: str | None = None) -> Mapping[str, Any]:
        """Return the verdict on a policy; its name may be left out if there is just one."""
        found = [one for one in self.decisions if policy in (None, one["policy"])]
        if len(found) != 1:
            raise KeyError(
                f"{len(found)} verdicts are on policy {policy!r}; there are some on "
                f"{', '.join(one['policy'] for one in self.decisions)}."
            )
        return found[0]

    @property
    def table(self) -> Any:
        """The rows: a pandas frame if pandas is installed, else a small table that is read in the same way."""
        return to_table(self._columns())

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the rows as a frame; ``backend`` is ``"pandas"``, ``"polars"`` or ``"pyarrow"``."""
        return to_frame(self._columns(), backend)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return to_arrow(self._columns()).__arrow_c_stream__(requested_schema)

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows] for name in COLUMNS}

    def row(self, policy: str | None = None, estimator: str | None = None) -> Mapping[str, Any]:
        """Return the only row of a policy and estimator; either may be left out if there is just one."""
        found = [row for row in self.rows if policy in (None, row["policy"]) and estimator in (None, row["estimator"])]
        if len(found) != 1:
            raise KeyError(
                f"{len(found)} rows have policy {policy!r} and estimator {estimator!r}; there are "
                f"{', '.join(row['policy'] + '/' + row['estimator'] for row in self.rows)}."
            )
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold; what is not a number becomes None."""
        return {
            "interval": self.interval,
            "confidence": self.confidence,
            "logging_value": self.logging_value,
            "notes": list(self.notes),
            "confounding": [{name: _plain(value) for name, value in one.items()} for one in self.confounding],
            "rows": [{name: _plain(row[name]) for name in COLUMNS} for row in self.rows],
            **{
                part: [{name: _plain(value) for name, value in row.items()} for row in getattr(self, part)]
                for part in PARTS
            },
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self._title(), title_justify="left")
        for heading in HEADINGS:
            is_number = heading in ("value", "uplift", "effective samples")
            table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
        for row in self.rows:
            table.add_row(*map(Text, _cells(row)), Text(row["verdict"], style=STYLES[row["verdict"]]))
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
            rows_of.setdefault((row["policy"], row["reason"]), []).append(row["estimator"])
        lines = [f"{policy} ({', '.join(names)}): {reason}" for (policy, reason), names in rows_of.items()]
        said = {row["reason"] for row in self.rows}
        return lines + [
            f"Verdict on {one['policy']}: {one['verdict']}. {one['reason']}"
            for one in self.decisions
            if one["reason"] not in said
        ]

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120).print(self)
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        from bopl.evaluation.notebook import evaluation_card

        return evaluation_card(self, self._title(), _cells, self._reason_lines())

    def plot(self, *, show_uplift: bool = True) -> Any:
        """Return a matplotlib forest plot: uplifts (or values) with their intervals, colours by verdict."""
        from bopl.evaluation.forest_plot import plot_forest

        return plot_forest(self, show_uplift=show_uplift)

    def _title(self) -> str:
        n_samples = self.rows[0]["n"] if self.rows else 0
        return (
            f"{n_samples:,} samples; the logging policy earns {self.logging_value:.4g}; "
            f"{100.0 * self.confidence:.4g}% {self.interval.replace('_', ' ')} intervals"
        )


def part_rows(evaluation: Evaluation) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return guards, comparisons and segments as text: for each that there is its title, headings and rows."""

    def between(row: Mapping[str, Any], name: str, lower: str, upper: str) -> str:
        return f"{row[name]:+.4g} [{row[lower]:+.4g}, {row[upper]:+.4g}]"

    ends = ("ci_lower", "ci_upper")
    guards = [
        (row["policy"], row["guard"], f"{row['now']:.4g}", between(row, "change", *ends), row["state"])
        for row in evaluation.guards
    ]
    compared = [
        (row["policy"], row["other"], between(row, "difference", *ends), row["verdict"])
        for row in evaluation.comparisons
    ]
    segments = [
        (
            row["policy"],
            row["segment"],
            f"{row['n']:,}",
            between(row, "uplift", "uplift_ci_lower", "uplift_ci_upper"),
            row["verdict"],
        )
        for row in evaluation.segments
    ]
    parts: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
        ("Guards", ("policy", "guard", "now", "change and its interval", "state"), list(guards)),
        ("Head to head", ("policy", "compared with", "difference and its interval", "verdict"), list(compared)),
        ("Segments", ("policy", "segment", "samples", "uplift and its interval", "verdict"), list(segments)),
    ]
    return [part for part in parts if part[2]]


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    value = f"{row['value']:.4g} [{row['ci_lower']:.4g}, {row['ci_upper']:.4g}]"
    uplift = f"{row['uplift']:+.4g} [{row['uplift_ci_lower']:+.4g}, {row['uplift_ci_upper']:+.4g}]"
    return row["policy"], row["estimator"], value, uplift, f"{row['ess']:,.0f}"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
