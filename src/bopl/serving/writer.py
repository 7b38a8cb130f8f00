"""`GroupWriter`: one thread that writes, and commits what has gathered in one go; its errors, and its clock."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from bopl._errors import UsageError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
MAX_BATCH = 256  # jobs of one commit: what a disk syncs in one go anyway
UNAVAILABLE, FULL, BROKEN = 503, 507, 500
NEARLY_FULL = 2**20  # bytes that are left on a disk whose writes fail because it is full
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")


class StoreError(RuntimeError):
    """An event could not be written or read; nothing of it was kept, and sending it again is safe.

    Attributes
    ----------
    status : int
        The HTTP status code: 503 unavailable, 507 the disk is full, 500 the file is damaged.
    """

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def store_error(error: BaseException, path: object) -> StoreError:
    """Return one sentence and a status code for what SQLite or the system said."""
    if isinstance(error, StoreError):
        return error
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_IOERR") and (found := _disk_error(path)) is not None:
        return found
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if is_full or name == "SQLITE_FULL":
        return StoreError(f"{str(path)!r} cannot grow: the disk is full, or max_events_mb is reached.", FULL)
    if name.startswith(_READ_ONLY) or isinstance(error, PermissionError | UsageError):
        return StoreError(f"{str(path)!r} cannot be written: check that its folder is there and writable.", UNAVAILABLE)
    if name.startswith(_BUSY):
        return StoreError(f"{str(path)!r} is locked by another process: try again.", UNAVAILABLE)
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError | sqlite3.DataError):
        return StoreError(
            f"{str(path)!r} is damaged ({error}): keep a copy of it, restore a backup, or recover it with "
            "`sqlite3 events.db .recover`.",
            BROKEN,
        )
    return StoreError(f"{str(path)!r} failed: {error}.", BROKEN)


def _disk_error(path: object) -> StoreError | None:
    """Return what the disk says of a failed write, of which SQLite only tells that it failed."""
    try:
        disk = os.statvfs(Path(str(path)).parent)
    except OSError:
        return StoreError(f"{str(path)!r} cannot be reached: check its disk.", UNAVAILABLE)
    if disk.f_flag & os.ST_RDONLY:
        return StoreError(f"{str(path)!r} cannot be written: its disk has become read-only.", UNAVAILABLE)
    if disk.f_bavail * disk.f_frsize < NEARLY_FULL:
        return StoreError(f"{str(path)!r} cannot grow: the disk is full.", FULL)
    return None


class GroupWriter:
    """Runs jobs on one connection, in the order they came; a job's result is there once it is on disk.

    Jobs that wait while a commit is under way share the next one, so that a sync of the disk is paid once for all of
    them. A commit that fails keeps none of its jobs, and each of them raises the same `StoreError`.

    Parameters
    ----------
    connect : callable returning a connection
        Called in the thread that writes; again after the file was found damaged or gone.
    path : Path
        Named in errors.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: Path) -> None:
        self._connect, self._path = connect, path
        self._queue: SimpleQueue[tuple[Job, Future[Any]] | None] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="bopl-events", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Return the future of a job's result; it is done after the commit."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # what is submitted gets written: nobody cancels half a batch
        with self._lock:
            if not self._is_open:
                raise StoreError(f"{str(self._path)!r} is closed.", UNAVAILABLE)
            self._queue.put((job, future))
        return future

    def close(self) -> None:
        """Write what was submitted, and end."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    @property
    def n_waiting(self) -> int:
        """Jobs that were submitted and not yet begun."""
        return self._queue.qsize()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._gather()
            if batch:
                self._write(batch)
        self._disconnect()

    def _gather(self) -> tuple[list[tuple[Job, Future[Any]]], bool]:
        """Return what waits, at least one job, and whether more may come."""
        batch: list[tuple[Job, Future[Any]]] = []
        entry = self._queue.get()
        while entry is not None:
            batch.append(entry)
            if len(batch) == MAX_BATCH or self._queue.empty():
                return batch, True
            entry = self._queue.get()
        return batch, False

    def _write(self, batch: list[tuple[Job, Future[Any]]]) -> None:
        try:
            results = self._commit([job for job, _ in batch])
        except Exception as error:
            self._disconnect()
            if len(batch) > 1 and not isinstance(error, sqlite3.Error | OSError):
                for entry in batch:  # one of them is to blame, and the others are not
                    self._write([entry])
                return
            is_foreign = not isinstance(error, sqlite3.Error | OSError)
            shown = error if is_foreign else store_error(error, self._path)
            for _, future in batch:
                future.set_exception(shown)
            return
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)

    def _commit(self, jobs: list[Job]) -> list[Any]:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        results = [job(connection) for job in jobs]
        connection.execute("COMMIT")
        return results

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file that has the name now: a deleted one would take events and lose them."""
        try:
            status = os.stat(self._path)
            identity = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            identity = None
        if self._connection is not None and identity != self._identity:
            self._disconnect()
        if self._connection is None:
            self._connection, self._identity = self._connect(), identity
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection, which takes back what was not committed; the next job gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error:
                return


class Clock:
    """Microseconds since 1970 by the wall clock; where that falls back, the time goes on at its own pace instead.

    Parameters
    ----------
    not_before : int
        The last time that was written: after a restart with a clock that is behind, time goes on from there.
    wall, elapsed : callable returning nanoseconds
        The clocks of the machine.
    """

    def __init__(
        self,
        not_before: int = 0,
        wall: Callable[[], int] = time.time_ns,
        elapsed: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._lock = threading.Lock()
        self._anchor, self._since = not_before, elapsed()

    def now(self) -> int:
        """Return the time, later than or equal to all that were returned before."""
        with self._lock:
            wall, elapsed = self._wall() // 1000, self._elapsed()
            kept = self._anchor + max(elapsed - self._since, 0) // 1000
            if wall >= kept:
                self._anchor, self._since = wall, elapsed
            return max(wall, kept)

    def not_before(self, moment: int) -> None:
        """Let the time go on from a moment if it is earlier than that."""
        if self.now() < moment:
            with self._lock:
                self._anchor, self._since = moment, self._elapsed()

    @property
    def ahead_s(self) -> float:
        """Seconds by which the time of events is ahead of the wall clock."""
        return max(self.now() - self._wall() // 1000, 0) / 1e6
