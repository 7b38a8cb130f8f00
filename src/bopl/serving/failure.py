"""`StoreError`: why an event could not be kept, and the status code that says so."""

from __future__ import annotations

import errno
import sqlite3

from bopl._errors import UsageError

UNAVAILABLE, FULL, BROKEN = 503, 507, 500
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE")
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
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if is_full or name.startswith(_FULL):
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
