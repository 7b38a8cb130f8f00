"""Findings of an audit: as text, as data, and as an exception."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bopl._html import card, marked
from bopl._html import table as html_table
from bopl._table import Tabular

if TYPE_CHECKING:
    from bopl.log.leak.leak import Leak

OK, NOTE, PROBLEM = "ok", "note", "problem"
STYLES = {OK: "green", NOTE: "yellow", PROBLEM: "bold red"}
LOOKS = {OK: "hollow", NOTE: "good", PROBLEM: "bad"}


class AuditError(ValueError):
    """A strict audit found problems; the message names them all."""


@dataclass(frozen=True)
class Finding:
    """The finding of one check.

    Attributes
    ----------
    check : str
        Name of the check.
    status : {"ok", "note", "problem"}
    value : float
        The number behind it.
    sentence : str
        What it means.
    """

    check: str
    status: str
    value: float
    sentence: str


def judged(check: str, value: float, text: str, status: str, consequence: str) -> Finding:
    """Return a finding; what follows from it is said if it is not ok."""
    return Finding(check, status, value, f"{text}." if status == OK else f"{text}: {consequence}.")


def noted(check: str, found: Sequence[object], text: str, otherwise: str) -> Finding:
    """Return a note on the number of what was found, or that nothing was."""
    return Finding(check, NOTE if found else OK, float(len(found)), text if found else otherwise)


@dataclass(frozen=True, eq=False)
class Audit(Tabular):
    """Findings of an audit: ``print(audit)``, or ``audit.table`` for a frame."""

    findings: tuple[Finding, ...]
    n_samples: int
    leaks: tuple[Leak, ...] = ()

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that make estimates from this log doubtful."""
        return tuple(finding for finding in self.findings if finding.status == PROBLEM)

    def with_finding(self, finding: Finding) -> Audit:
        """Return the audit with one more finding."""
        return replace(self, findings=(*self.findings, finding))

    def _columns(self) -> dict[str, list[Any]]:
        names = ("check", "status", "value", "sentence")
        return {name: [getattr(finding, name) for finding in self.findings] for name in names}

    def __getitem__(self, check: str) -> Finding:
        for finding in self.findings:
            if finding.check == check:
                return finding
        raise KeyError(f"there is no check {check!r}; there are {', '.join(f.check for f in self.findings)}.")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def raise_problems(self) -> None:
        """Raise `AuditError` if there is a problem."""
        if self.problems:
            listed = " ".join(finding.sentence for finding in self.problems)
            raise AuditError(f"the audit found {count_problems(self.problems)}: {listed}")

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=f"Audit of {self.n_samples:,} samples: {count_problems(self.problems)}", title_justify="left"
        )
        for heading in ("check", "status", "what it means"):
            table.add_column(heading, no_wrap=heading != "what it means")
        for finding in self.findings:
            table.add_row(finding.check, Text(finding.status, style=STYLES[finding.status]), Text(finding.sentence))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120).print(self)
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        rows = [(one.check, marked(one.status, LOOKS[one.status]), one.sentence) for one in self.findings]
        found = f"{count_problems(self.problems)} in {self.n_samples:,} samples"
        return card("Audit", found, html_table(("check", "status", "what it means"), rows))


def count_problems(problems: Sequence[object]) -> str:
    """Return how many problems there are, in words: no problems, 1 problem, 2 problems."""
    return f"{len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}"
