"""Writing that survives crashes: a file or folder changes in one step, and has one writer at a time."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

from bopl._errors import UsageError, shortened
from bopl._interrupt import uninterrupted

PART = ".part"  # ends the name of what is being written
OLD = ".old"  # ends the name of a folder that is being replaced, where that takes two steps
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # see renameat2(2)
SUFFIX = ".lock"


@contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes ``path`` when the block ends, and is removed if the block fails.

    The contents are on disk before the name is theirs, so that after a crash, a kill or a full disk there is the old
    file or the new one, whole. A link is followed, the permissions of an old file are kept, and what is not a regular
    file (a pipe, ``/dev/stdout``) is written to directly.

    Raises
    ------
    OSError
        One sentence where the file cannot be written; the old one is untouched.
    """
    target = Path(os.path.realpath(as_path(path)))
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file to write in it.")
    if target.exists() and not target.is_file():
        yield Path(path)
        return
    with _telling_what_failed(path):
        recover_file(target)
        temporary, handle = _make_beside(target)
    try:
        with _telling_what_failed(path, temporary):
            yield temporary
            _sync(temporary)
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
            _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes ``path`` when the block ends; see `replaced_file`."""
    with replaced_file(path) as temporary, temporary.open("wb") as file:
        yield file


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf8"))


def copy_file(source: str | Path, path: str | Path) -> None:
    """Copy the contents of a file atomically: a full disk leaves the old copy as it was."""
    with Path(source).open("rb") as file, replacing(path) as copy:
        shutil.copyfileobj(file, copy)


def recover_file(path: str | Path) -> None:
    """Remove what killed processes left of `replaced_file`: nobody has a lock on it any more."""
    target = Path(os.path.realpath(path))
    for left in target.parent.glob(f".{escape(target.stem[:100])}.{8 * '?'}{PART}{escape(target.suffix)}"):
        with suppress(OSError):  # another process writes it, or has just finished, or nobody may
            handle = os.open(left, os.O_RDWR)
            try:
                if _lock(handle):
                    left.unlink(missing_ok=True)
            finally:
                os.close(handle)


def as_path(path: object) -> Path:
    """Return the path that was given, or raise if it is none."""
    if isinstance(path, bytes) or not isinstance(path, str | os.PathLike):
        raise TypeError(f"a path must be text or a Path; got {shortened(path)}.")
    return Path(path)


def _make_beside(target: Path) -> tuple[Path, int | None]:
    """Make an empty file in the folder of another, readable by whom new files are readable by, and lock it."""
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} into; create it first."
        )
    while True:
        # The extension stays last: some writers tell the format by it.
        temporary = target.with_name(f".{target.stem[:100]}.{os.urandom(4).hex()}{PART}{target.suffix}")
        try:
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            continue
        try:
            _lock(handle)
        except OSError:  # without locks nobody clears anything away
            os.close(handle)
            return temporary, None
        if _is_same(temporary, handle):
            return temporary, handle
        os.close(handle)  # another process took it for that of a killed one, before it was locked


@contextmanager
def _telling_what_failed(path: str | Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn the system's errors into one sentence about the requested file, or one in the requested folder."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a sentence already
            if temporary is not None and str(temporary) in str(error):
                raise type(error)(str(error).replace(str(temporary), str(path))) from error
            raise
        reason = os.strerror(error.errno)  # other libraries say more, and less plainly
        raise type(error)(f"{str(path)!r} cannot be written: {reason}. Nothing was changed.") from error


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # folders cannot be opened on Windows
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir():  # some file systems do not sync folders
            raise error
    finally:
        os.close(handle)


# -- Folders ----------------------------------------------------------------------------------------------------------


@contextmanager
def replaced_folder(path: str | Path, *, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes the place of ``path`` when the block ends, or goes if the block fails.

    Files of the old folder that the new one does not have, except those named in ``without``, move into the new one.
    """
    target = Path(os.path.realpath(path))
    recover_folder(target)
    with _telling_what_failed(path):
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}{PART}")
        temporary.mkdir()
    try:
        with _telling_what_failed(path, temporary):
            yield temporary
            _link_rest(target, temporary, without)
            for entry in temporary.iterdir():
                if entry.is_file():
                    _sync(entry)
            _sync(temporary)
            with uninterrupted():
                _swap(temporary, target)
            _sync(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(temporary, ignore_errors=True)  # now the old folder, or nothing


def recover_folder(path: str | Path) -> None:
    """Finish what a killed process left of `replaced_folder`: the old folder comes back, unfinished ones go."""
    target = Path(os.path.realpath(path))
    old = target.with_name(f".{target.name}{OLD}")
    if old.is_dir():
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, target)
    if target.parent.is_dir():
        for left in target.parent.glob(f".{escape(target.name)}.*{PART}"):
            shutil.rmtree(left, ignore_errors=True)


def _link_rest(source: Path, target: Path, without: frozenset[str]) -> None:
    """Copy to a folder what another one has in addition; as hard links if the file system supports them."""
    if not source.is_dir():
        return
    for entry in source.iterdir():
        if entry.name in without or (target / entry.name).exists() or entry.name.endswith(PART):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target / entry.name, symlinks=True, copy_function=_link)
        else:
            _link(entry, target / entry.name)


def _link(source: Any, target: Any) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)


def _swap(new: Path, target: Path) -> None:
    """Replace one folder by another, atomically if the system can."""
    if not target.exists():
        os.rename(new, target)
        return
    if _exchange(new, target):
        return
    # Two steps: `recover_folder` brings the old one back if the process dies between them.
    old = target.with_name(f".{target.name}{OLD}")
    os.rename(target, old)
    os.rename(new, target)
    os.rename(old, new)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names atomically; False if the system or the file system cannot."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return bool(libc.renamex_np(os.fsencode(one), os.fsencode(other), _RENAME_EXCHANGE) == 0)
        return bool(libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
    except (AttributeError, OSError, TypeError):
        return False


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
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
        try:
            is_ours = _lock(handle)
        except OSError:
            os.close(handle)
            return None
        if not is_ours:
            os.close(handle)
            raise UsageError(f"{_holder(lock)} is writing {str(path)!r}; wait until it ends, or name another file.")
        if _is_same(lock, handle):
            _sign(handle)
            return handle
        os.close(handle)  # its owner has ended in between, and the file went with it


def _lock(handle: int) -> bool:
    """Lock an open file, unless another process has; an error where the system or the file system has no locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        raise OSError("there are no locks") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
