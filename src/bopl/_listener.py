"""`listening`: hands what the library says, through `logging`, to a command or to a deprecated parameter."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from bopl._progress import current_line

Hear = Callable[[object], None]


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
        f"{name}= is deprecated and goes with version 0.3: add a handler to logging.getLogger('bopl') instead.",
        FutureWarning,
        stacklevel=4,  # the caller of the function with this parameter
    )
    with listening(hear):
        yield
