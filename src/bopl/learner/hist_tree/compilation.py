"""Telling the user when the engine is being compiled: once per installation, later starts read it from the cache."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO
from weakref import WeakSet

from numba.core.event import Event, Listener, install_listener

LEAST_SECONDS = 3.0  # shorter compilations are not worth a second line

_told: WeakSet[TextIO] = WeakSet()  # streams that have been told: once per process is enough


class _Announcer(Listener):
    """Writes one line when the first kernel is compiled; silent when all come from the cache."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.started: float | None = None

    def on_start(self, event: Event) -> None:
        if self.started is None:
            self.started = time.perf_counter()
            if self.stream not in _told:
                _told.add(self.stream)
                self.stream.write("bopl: compiling the tree engine, once per installation …\n")
                self.stream.flush()

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def announced_compilation(stream: TextIO | None = None) -> Iterator[None]:
    """Say on standard error if something is compiled inside the block, and afterwards how long the block took."""
    announcer = _Announcer(stream or sys.stderr)
    with install_listener("numba:compile", announcer):
        yield
    if announcer.started is not None and time.perf_counter() - announcer.started >= LEAST_SECONDS:
        seconds = time.perf_counter() - announcer.started
        announcer.stream.write(f"bopl: compiled in {seconds:.0f} s; the next start takes it from the cache.\n")
