"""One line of progress for a whole race."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from bopl._progress import current_line


class RaceProgress:
    """ "candidate 3 of 8, 00:41 left", in the line of the run, or otherwise if standard error is a terminal.

    Parameters
    ----------
    is_shown : bool
    stream : text stream, optional
        Standard error by default.
    """

    def __init__(self, *, is_shown: bool = True, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._line = current_line() if is_shown else None
        self._is_shown = is_shown and self._line is None and self._stream.isatty()
        self._status: Any = None
        self._began = time.monotonic()

    def __enter__(self) -> RaceProgress:
        if self._is_shown:
            from rich.console import Console

            self._status = Console(file=self._stream).status("racing")
            self._status.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def say(self, text: str) -> None:
        """Show a text."""
        if self._line is not None:
            self._line.say(text)
        elif self._status is not None:
            self._status.update(text)

    def report(self, number: int, total: int, share: float) -> None:
        """Show which candidate is being trained, and about how long the race will take."""
        self.say(f"candidate {number} of {total}{self._left(share)}")

    def _left(self, share: float) -> str:
        if share < 0.02:
            return ""
        seconds = (time.monotonic() - self._began) * (1.0 - share) / share
        return f", {int(seconds) // 60:02d}:{int(seconds) % 60:02d} left"
