"""`GroupWriter`: one thread that writes, and commits what has gathered in one go."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from bopl.serving.failure import UNAVAILABLE, StoreError, store_error

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
MAX_BATCH = 256  # jobs of one commit: what a disk syncs in one go anyway


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
