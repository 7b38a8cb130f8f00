"""What a command prints: text for people, or a single JSON object; tables that fit a terminal of eighty columns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

import typer

from bopl._errors import visible
from bopl._progress import listening

if TYPE_CHECKING:
    from bopl.evaluation import Evaluation


@dataclass(frozen=True)
class Output:
    """The output of a command.

    Attributes
    ----------
    is_json : bool
        Print one JSON object at the end, and nothing before.
    """

    is_json: bool

    def say(self, text: object) -> None:
        """Print a sentence, or whatever rich can print."""
        if not self.is_json:
            from rich.console import Console

            is_plain = isinstance(text, str)
            Console(highlight=False, soft_wrap=is_plain).print(visible(str(text)) if is_plain else text, markup=False)

    def say_each(self, texts: Iterable[object]) -> None:
        """Print one after another."""
        for text in texts:
            self.say(text)

    def heard(self) -> AbstractContextManager[None]:
        """Print what the library says while a block runs."""
        return listening(self.say)

    def say_verdict(self, row: Mapping[str, Any], policy: str | None = None) -> None:
        """Print a verdict with its reason."""
        from rich.text import Text

        from bopl.evaluation.result import STYLES

        head = "Verdict" if policy is None else f"Verdict on {policy}"
        verdict = Text(row["verdict"], style=STYLES[row["verdict"]])
        self.say(Text.assemble(f"{head}: ", verdict, f" ({row['estimator']}). {row['reason']}"))

    def say_warnings(self, warnings: Iterable[str]) -> None:
        """Print warnings about a result."""
        self.say_each(f"Warning: {warning}" for warning in warnings)

    def finish(self, result: Mapping[str, Any], exit_code: int = 0) -> None:
        """Print the result if the output is JSON, and exit with this code."""
        if self.is_json:
            from bopl.report.plain import plain

            shown = plain({**result, "exit_code": exit_code}, digits=None)
            typer.echo(json.dumps(shown, allow_nan=False, ensure_ascii=False))
        raise typer.Exit(exit_code)


class PatientStream:
    """Standard output that never breaks a command: once the reader is gone (``| head``), the rest is discarded."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if anybody reads."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, if anybody reads."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[..., Any], *given: str) -> None:
        try:
            action(*given)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def narrow_table(headings: Iterable[str], numeric: Container[str] = (), **looks: Any) -> Any:
    """Return an empty table; columns of numbers are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title_style="", **looks)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numeric else "left", overflow="fold")
    return table


def evaluation_tables(evaluation: Evaluation) -> list[Any]:
    """Return one line per policy and estimator, then guards, comparisons and segments, if there are any."""
    from rich.text import Text

    from bopl.evaluation.result import STYLES, between_text, part_rows

    headings = ("policy", "estimator", "value", "uplift and its interval", "verdict")
    first = narrow_table(headings, headings[2:4], title=evaluation.title)
    for row in evaluation.rows:
        first.add_row(
            Text(visible(row.policy)),
            row.estimator,
            "unknown" if isnan(row.value) else f"{row.value:.4g}",
            "" if isnan(row.uplift) else Text(between_text(row.uplift, row.uplift_ci_lower, row.uplift_ci_upper)),
            Text(row.verdict, style=STYLES[row.verdict]),
        )
    tables = [first]
    for title, heads, rows in part_rows(evaluation):
        tables.append(narrow_table(heads, title=title))
        for cells in rows:
            tables[-1].add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return tables
