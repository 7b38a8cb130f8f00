"""What a run says: one line of progress, on a terminal or now and then, and what is logged, to whoever listens."""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, Token
from typing import Any, TextIO

EVERY = 30.0  # seconds between plain lines
MIN_SHARE = 0.02  # of some work, that has to be done before the time left can be told
# What the steps of a run are called, and which of how many they are.
STAGES = {
    "read": (1, "reading the log"),
    "audit": (2, "auditing the log"),
    "split": (3, "holding out samples"),
    "choose": (3, "choosing the reward translation"),
    "train": (3, "training"),
    "evaluate": (4, "judging"),
    "report": (5, "writing the report"),
}
N_STAGES = 5
Hear = Callable[[object], None]


class RunLine:
    """ "3 of 5, training: candidate 2 of 8, 00:41 left", for whatever a run does at the moment.

    On a terminal it is one line that changes; elsewhere, as in a log file of a job, it is written again every half
    minute, so that short runs write nothing. While it is open, `current_line` is what parts of the run report to.

    Parameters
    ----------
    is_shown : bool
    stream : text stream, optional
        Standard error by default.
    every : float
        Seconds between plain lines.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self,
        *,
        is_shown: bool = True,
        stream: TextIO | None = None,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = is_shown
        self._every = every
        self._clock = clock
        self._began = clock()
        self._stage = self._detail = self._note = ""
        self._status: Any = None
        self._is_over = threading.Event()
        self._writer: threading.Thread | None = None
        self._token: Token[RunLine | None] | None = None

    def __enter__(self) -> RunLine:
        self._token = _CURRENT.set(self if self._is_shown else None)
        if self._is_shown and self._stream.isatty():
            from rich.console import Console

            self._status = Console(file=self._stream).status("")
            self._status.start()
        elif self._is_shown:
            self._writer = threading.Thread(target=self._write_now_and_then, name="bopl-progress", daemon=True)
            self._writer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        self._is_over.set()
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._writer is not None:
            self._writer.join()

    def stage(self, name: str) -> None:
        """Say which step of the run begins."""
        number, words = STAGES.get(name, (None, name))
        self._stage = words if number is None else f"{number} of {N_STAGES}, {words}"
        self.say("")

    def say(self, detail: str) -> None:
        """Say how far the step is."""
        self._detail, self._note = detail, ""
        self._show()

    def note(self, note: str) -> None:
        """Add how far a part of that is, such as the rounds of a fit."""
        self._note = note
        self._show()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the line out of the way of what the block prints."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()

    @property
    def text(self) -> str:
        """What the line says."""
        details = ", ".join(one for one in (self._detail, self._note) if one)
        return f"{self._stage}: {details}" if details else self._stage

    def write(self) -> None:
        """Write a plain line."""
        seconds = int(self._clock() - self._began)
        try:
            self._stream.write(f"bopl: {self.text} ({seconds // 60:02d}:{seconds % 60:02d} so far)\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more, or the stream is closed: a run goes on without
            self._is_over.set()

    def _show(self) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(self.text))

    def _write_now_and_then(self) -> None:
        while not self._is_over.wait(self._every):
            self.write()


def left_text(seconds: float, share: float) -> str:
    """Return how long work will go on that took ``seconds`` for a share of it; empty if that cannot be told yet."""
    if share < MIN_SHARE:
        return ""
    left = int(seconds * (1.0 - share) / share)
    return f", {left // 60:02d}:{left % 60:02d} left"


_CURRENT: ContextVar[RunLine | None] = ContextVar("run_line", default=None)


def current_line() -> RunLine | None:
    """Return the line of the run that is going on, None if there is none to report to."""
    return _CURRENT.get()


def note_progress(text: str) -> None:
    """Add how far a part of the work is to the line of the run, if there is one."""
    line = current_line()
    if line is not None:
        line.note(text)


class Listener(logging.Handler):
    """Hands what is logged in this thread to a function: a sentence, or the object that was logged.

    Parameters
    ----------
    hear : callable
        What it raises is raised where something was logged.
    """

    def __init__(self, hear: Hear) -> None:
        super().__init__(logging.INFO)
        self._hear = hear
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on what was said, with the line of progress out of its way."""
        if record.thread == self._thread:
            line = current_line()
            with nullcontext() if line is None else line.paused():
                self._hear(record.getMessage() if isinstance(record.msg, str) else record.msg)


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """Call a function with all that the library says while the block runs."""
    logger, listener = logging.getLogger("bopl"), Listener(hear)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)


@contextmanager
def deprecated_listener(name: str, hear: Hear | None) -> Iterator[None]:
    """Let a parameter that is deprecated in favour of logging hear what is said while the block runs."""
    if hear is None:
        yield
        return
    warnings.warn(
        f"{name}= is deprecated and will be removed in 0.3: add a handler to logging.getLogger('bopl') instead.",
        FutureWarning,
        stacklevel=4,  # the caller of the function with this parameter
    )
    with listening(hear):
        yield
