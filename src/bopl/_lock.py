"""One writer at a time: a lock that the system releases when its process ends, however it ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bopl._errors import UsageError

SUFFIX = ".lock"


@contextmanager
def only_writer(path: str | Path) -> Iterator[None]:
    """Be the only writer of a file or folder while the block runs.

    The lock is a hidden file beside ``path`` with the process and its start time. What counts is not the file but
    the system's lock on it: the file of a killed process is taken over.

    Raises
    ------
    UsageError
        If another process writes there now; the message names it.
    """
    target = Path(os.path.realpath(path))
    handle = _take(target.with_name(f".{target.name}{SUFFIX}"), path)
    try:
        yield
    finally:
        if handle is not None:
            _let_go(target.with_name(f".{target.name}{SUFFIX}"), handle)


def _take(lock: Path, path: str | Path) -> int | None:
    """Return the handle of the locked file; None if the system has no such locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return None
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UsageError(
                f"{_holder(lock)} is writing {str(path)!r}; wait until it ends, or name another file."
            ) from None
        except OSError:  # a file system without locks
            os.close(handle)
            return None
        if _is_same(lock, handle):
            _sign(handle)
            return handle
        os.close(handle)  # its owner has ended in between, and the file went with it


def _is_same(lock: Path, handle: int) -> bool:
    """Return whether a name still belongs to an open file."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(handle))
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    """Write who holds the lock, for others to read; a full disk is not a reason to stop."""
    facts = {"process": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(facts).encode(), 0)
    except OSError:
        return


def _holder(lock: Path) -> str:
    try:
        facts = json.loads(lock.read_text(encoding="utf8"))
        return f"another run, process {int(facts['process'])} since {str(facts['since'])[:19]},"
    except (OSError, ValueError, KeyError, TypeError):  # it is just being written
        return "another run"


def _let_go(lock: Path, handle: int) -> None:
    """Remove the file while the lock is still ours, then release the lock."""
    try:
        if _is_same(lock, handle):
            lock.unlink(missing_ok=True)
    except OSError:  # the folder is gone, or cannot be written any more
        pass
    finally:
        os.close(handle)
