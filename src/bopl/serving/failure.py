"""`StoreError`: why an event could not be kept, and the status code that says so."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from bopl._errors import UsageError

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
