"""Signals that stop a run: deferred while something must not be left half done, and while threads work."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import FrameType, TracebackType
from typing import Any, TypeVar

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")  # those whose Python handlers may raise
_PATIENCE = 0.1  # seconds between two looks at whether a signal came
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
MAX_THREADS = 8  # each holds some copies of a column
MIN_ENTRIES = 2_000_000  # below which threads cost more than they save
T = TypeVar("T")


class uninterrupted:  # noqa: N801
    """Let a block run to its end; a signal that arrives meanwhile is handled after it, by the previous handler.

    For short blocks that must happen as one. Python runs signal handlers in the main thread alone, so in any other
    thread, and inside another such block, this does nothing.
    """

    def __init__(self) -> None:
        self._before: list[tuple[int, Any]] = []
        self._came: list[int] = []

    def __enter__(self) -> uninterrupted:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler) and getattr(handler, "__func__", None) is not uninterrupted._note:
                    self._before.append((number, handler))
                    signal.signal(number, self._note)
        except BaseException:  # one of those that still raise
            self._restore(list(self._before))
            raise
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore(list(self._before))
        self.handle()

    def handle(self) -> None:
        """Handle signals that have arrived; called inside the block where stopping does no harm."""
        before, came = dict(self._before), dict.fromkeys(self._came)
        self._came.clear()
        for number in came:
            before[number](number, None)

    def _restore(self, handlers: list[tuple[int, Any]]) -> None:
        """Restore every signal's handler, although the first of them may raise at once."""
        if handlers:
            try:
                signal.signal(*handlers[0])
            finally:
                self._restore(handlers[1:])


class Terminated(KeyboardInterrupt):
    """SIGTERM, which means the same as Ctrl-C: stop, and keep the results so far."""


class SigtermAsCtrlC:
    """Let SIGTERM act like Ctrl-C while a block runs, so that a run that is shut down ends cleanly.

    Only in the main thread, and where nobody else handles the signal.

    Attributes
    ----------
    came : bool
        Whether it was sent.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_installed = False

    def __enter__(self) -> SigtermAsCtrlC:
        is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if is_free and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._end)
            self._is_installed = True
        return self

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise Terminated

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Threads:
    """A pool of threads that Ctrl-C can stop: running work is finished, waiting work is not started.

    Raising in the middle of the pool's own code would leave its locks taken, and the program waiting for ever.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._submitted: set[Future[Any]] = set()

    def __enter__(self) -> Threads:
        self._held = uninterrupted().__enter__()
        self._pool = ThreadPoolExecutor(self._n_threads)
        return self

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Let a thread do some work."""
        future = self._pool.submit(work, *arguments)
        self._submitted.add(future)
        return future

    def wait(self, futures: Iterable[Future[Any]], return_when: str = FIRST_COMPLETED) -> set[Future[Any]]:
        """Return finished work, at least one item; signals are handled meanwhile."""
        done: set[Future[Any]] = set()
        while not done:
            self._held.handle()
            done, waiting = wait(futures, _PATIENCE, return_when)
            if return_when == FIRST_EXCEPTION and waiting and not any(one.exception() for one in done):
                done = set()  # the time was up
        self._submitted -= done
        return done

    def each(self, work: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Return what the work makes of every item."""
        futures = [self.submit(work, item) for item in items]
        if futures:
            self.wait(futures, FIRST_EXCEPTION)
        return [future.result() for future in futures]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for future in self._submitted:
                future.cancel()
            self._pool.shutdown(wait=True)
        finally:
            self._held.__exit__(kind, error, traceback)


def each_column(work: Callable[[Any], T], columns: Sequence[Any], n_samples: int) -> list[T]:
    """Return what the work makes of every column, in their order; large logs are worked on by several threads."""
    n_threads = min(os.cpu_count() or 1, MAX_THREADS, len(columns))
    if n_threads <= 1 or n_samples * len(columns) < MIN_ENTRIES:
        return [work(column) for column in columns]
    with Threads(n_threads) as threads:
        return threads.each(work, columns)
