"""Signals that stop a run: put off while something must not be left half done, and while threads work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import FrameType, TracebackType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")  # those whose Python handlers may raise
_PATIENCE = 0.1  # seconds between two looks at whether a signal came
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


class uninterrupted:  # noqa: N801
    """Let a block run to its end; a signal that came meanwhile is handled after it, by whoever handled it before.

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
        """Handle what came so far; called inside the block where stopping does no harm."""
        before, came = dict(self._before), dict.fromkeys(self._came)
        self._came.clear()
        for number in came:
            before[number](number, None)

    def _restore(self, handlers: list[tuple[int, Any]]) -> None:
        """Give every signal its handler back, although the first of them may raise at once."""
        if handlers:
            try:
                signal.signal(*handlers[0])
            finally:
                self._restore(handlers[1:])


class Terminated(KeyboardInterrupt):
    """SIGTERM, which asks for the same as Ctrl-C: end, and keep what there is."""


class SigtermAsCtrlC:
    """Let SIGTERM do what Ctrl-C does while a block runs, so that a run that is shut down ends in an orderly way.

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
    """A pool of threads that Ctrl-C can stop: what runs is waited for, what waits is not begun.

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
        """Return those that are done, at least one; a signal is handled meanwhile."""
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
