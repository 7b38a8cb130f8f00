"""What a command prints: text for people, or one JSON object and nothing else."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True)
class Output:
    """Where a command's words go.

    Attributes
    ----------
    is_json : bool
        Print one JSON object at the end, and nothing before.
    """

    is_json: bool

    def say(self, text: object) -> None:
        """Print a sentence, or whatever rich can print."""
        if not self.is_json:
            patient_console(highlight=False, soft_wrap=isinstance(text, str)).print(text, markup=False)

    def say_verdict(self, row: Mapping[str, Any], policy: str | None = None) -> None:
        """Print a verdict with its reason."""
        from rich.text import Text

        from bopl.evaluation.result import STYLES

        head = "Verdict" if policy is None else f"Verdict on {policy}"
        verdict = Text(row["verdict"], style=STYLES[row["verdict"]])
        self.say(Text.assemble(f"{head}: ", verdict, f" ({row['estimator']}). {row['reason']}"))

    def say_warnings(self, warnings: Iterable[str]) -> None:
        """Print what should be known of a result."""
        for warning in warnings:
            self.say(f"Warning: {warning}")

    def finish(self, result: Mapping[str, Any], exit_code: int = 0) -> None:
        """Print the result if it is to be JSON, and leave the command with its exit code."""
        if self.is_json:
            try:
                typer.echo(json.dumps(plain({**result, "exit_code": exit_code}), allow_nan=False, ensure_ascii=False))
            except BrokenPipeError:
                stop_printing()
        raise typer.Exit(exit_code)


def patient_console(**settings: Any) -> Any:
    """Return a console that does not end the run because nobody reads on."""
    from rich.console import Console

    class PatientConsole(Console):
        def on_broken_pipe(self) -> None:
            stop_printing()

    return PatientConsole(**settings)


def stop_printing() -> None:
    """Let all that is printed from now on go nowhere: whoever read it, such as ``head``, has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: what is no finite number becomes null, what has no form becomes text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):
        return plain(value.item())
    return value if value is None or isinstance(value, str | int | bool) else str(value)
