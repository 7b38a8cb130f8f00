"""What a command prints: text for people, or a single JSON object."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import typer

from bopl._errors import visible
from bopl._progress import listening


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
            typer.echo(json.dumps(plain({**result, "exit_code": exit_code}), allow_nan=False, ensure_ascii=False))
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


def plain(value: Any) -> Any:
    """Return a value that JSON can represent: non-finite numbers become null, other objects become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):
        return plain(value.item())
    return value if value is None or isinstance(value, str | int | bool) else str(value)
