"""One line of progress for a whole race."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from bopl._progress import RunLine, current_line, left_text


class RaceProgress:
    """ "candidate 3 of 8, 00:41 left", in the line of the run, or in one of its own if standard error is a terminal.

    Parameters
    ----------
    is_shown : bool
    stream : text stream, optional
        Standard error by default.
    """

    def __init__(self, *, is_shown: bool = True, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        around = current_line() if is_shown else None
        self._own = RunLine(is_shown=is_shown and stream.isatty(), stream=stream) if around is None else None
        self._line = around or self._own
        self._began = time.monotonic()

    def __enter__(self) -> RaceProgress:
        if self._own is not None:
            self._own.__enter__()
            self._own.stage("racing")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._own is not None:
            self._own.__exit__(*exception)

    def say(self, text: str) -> None:
        """Show a text."""
        assert self._line is not None
        self._line.say(text)

    def report(self, number: int, total: int, share: float) -> None:
        """Show which candidate is being trained, and about how long the race will take."""
        self.say(f"candidate {number} of {total}{left_text(time.monotonic() - self._began, share)}")
