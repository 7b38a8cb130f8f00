"""`ArrayCache`: arrays on disk that the next run reuses, opened as memory maps.

An entry is one file that gets its name when it is complete: two processes may make the same entry at once, and a killed
one leaves nothing that could be mistaken for an entry. When the folder exceeds its limit, the least recently used
entries are deleted.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bopl._files import PART, replaced_file
from bopl._kernel import temporary_folder
from bopl.cluster.memory import is_full, parse_bytes

VARIABLE = "BOPL_CACHE"
LIMIT_VARIABLE = "BOPL_CACHE_LIMIT"
DEFAULT_LIMIT = "50GB"
SUFFIX = ".arrays"
_STALE = 24 * 3600.0  # seconds after which an unfinished entry must belong to a killed process
_MAGIC = b"bopl arrays 2\n"
_ALIGNMENT = 64  # bytes: a cache line
_WORD = 8  # bytes that hold the length of the head, and the checksum
_AT_ONCE = 1 << 20  # bytes that are checked together
_KINDS = "biufSU"  # kinds of dtype that are plain bytes

_MAPS: dict[int, tuple[int, str]] = {}  # length and path by address

Arrays = Mapping[str, np.ndarray[Any, Any]]


class CacheWarning(UserWarning):
    """Arrays could not be stored on disk, and stay in memory."""


class CachedArrays(Mapping[str, np.ndarray[Any, Any]]):
    """Arrays of one entry, for reading; the file is mapped at once, since anybody may remove it later.

    It is pickled as the name of the file, so a state that contains one is small.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._arrays = open_arrays(Path(path))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path,)


class ArrayCache:
    """A folder of arrays by key.

    Parameters
    ----------
    folder : path, optional
        Named by the environment variable ``BOPL_CACHE``, otherwise ``~/.cache/bopl/arrays``.
    limit : int or str, optional
        Maximum size of the folder, such as ``"20GB"``; ``BOPL_CACHE_LIMIT`` or 50 GB by default.
    """

    def __init__(self, folder: str | Path | None = None, limit: int | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()
        self.limit = parse_bytes(limit if limit is not None else os.environ.get(LIMIT_VARIABLE) or DEFAULT_LIMIT)

    def arrays(self, key: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a key, for reading; ``make`` is called if the cache does not have them.

        Parameters
        ----------
        key : str
            Digest of everything that the arrays depend on: letters, digits and dashes.
        make : callable
            Returns the arrays by name.
        """
        path = self._path_of(key)
        if (found := _entry(path)) is not None:
            return found
        made = dict(make())
        try:
            self._write(path, made)
        except OSError as error:
            warnings.warn(_sentence(self.folder, error), CacheWarning, stacklevel=2)
            return made
        return _entry(path) or made

    def _path_of(self, key: str) -> Path:
        if not key or not key.replace("-", "").isalnum():
            raise ValueError(f"the key of cached arrays must consist of letters, digits and dashes, not {key!r}.")
        return self.folder / f"{key}{SUFFIX}"

    def _write(self, path: Path, arrays: Arrays) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_room(sum(array.nbytes for array in arrays.values()))
        with replaced_file(path) as temporary, temporary.open("wb") as file:
            write_arrays(file, arrays)

    def _make_room(self, n_bytes: int) -> None:
        """Delete the least recently used entries until this many bytes fit, and leftovers of killed processes."""
        entries = sorted(self._entries())
        total = n_bytes + sum(size for _, size, _ in entries)
        for last_use, size, path in entries:
            is_unfinished = PART in path.name
            is_left = is_unfinished and time.time() - last_use > _STALE
            if is_left or (total > self.limit and not is_unfinished):
                with suppress(OSError):  # another process was faster
                    path.unlink()
                total -= size

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of the last use, size and path of every entry, unfinished ones included."""
        for path in self.folder.glob(f"*{SUFFIX}"):
            with suppress(OSError):
                found = path.stat()
                yield found.st_mtime, found.st_size, path

    @property
    def size(self) -> int:
        """Size of the entries in bytes."""
        return sum(size for _, size, _ in self._entries())

    def clear(self) -> int:
        """Delete all entries; return their size in bytes. Arrays that are in use stay readable."""
        removed = 0
        for _, size, path in list(self._entries()):
            with suppress(OSError):
                path.unlink()
                removed += size
        return removed


def default_folder() -> Path:
    """Return the default folder for arrays."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in a container
        caches = temporary_folder() or os.devnull  # nothing can be stored there, which is told with what to do
    return Path(caches) / "bopl" / "arrays"


def _sentence(folder: Path, error: OSError) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    reason = "the disk is full" if is_full(cause) else (cause.strerror or str(cause)).lower()
    return (
        f"arrays cannot be stored in the cache folder {str(folder)!r}: {reason}. They stay in memory, and the next run "
        f"recomputes them; free some space, or set {VARIABLE} to another folder."
    )


def _entry(path: Path) -> CachedArrays | None:
    """Return the arrays of an entry that is there and whole; None if another process has just removed it."""
    with suppress(FileNotFoundError):
        if is_whole(path):
            with suppress(PermissionError):  # it is another user's
                os.utime(path)  # used just now
            return CachedArrays(str(path))
    return None


def write_arrays(file: BinaryIO, arrays: Arrays) -> None:
    """Write arrays to an empty file, and a checksum behind them."""
    head, position = {}, 0
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"the array {name!r} of dtype {array.dtype} cannot be kept in a file.")
        head[name] = {"dtype": array.dtype.str, "shape": array.shape, "begin": position}
        position += _padded(array.nbytes)
    text = json.dumps({"arrays": head, "bytes": position}).encode()
    begin = _MAGIC + len(text).to_bytes(_WORD, "little") + text
    check = _write_padded(file, begin, 0)
    for array in arrays.values():
        check = _write_padded(file, np.ascontiguousarray(array).data.cast("B") if array.size else b"", check)
    file.write(check.to_bytes(_WORD, "little"))


def _write_padded(file: BinaryIO, raw: bytes | memoryview, check: int) -> int:
    """Write bytes and zeros up to a multiple of the alignment; return the checksum so far."""
    file.write(raw)
    rest = bytes(_padded(len(raw)) - len(raw))
    file.write(rest)
    return zlib.crc32(rest, zlib.crc32(raw, check))


def open_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a file, mapped into memory.

    They are for reading. Changes are never written to the file, and are lost when it is mapped again;
    they are not marked as read-only, because numba would compile functions again for such arrays.
    """
    with path.open("rb") as file:
        head, begin = _read_head(file)
    mapped = map_file(str(path))
    return {
        name: np.ndarray(tuple(one["shape"]), one["dtype"], mapped, begin + one["begin"])
        for name, one in head["arrays"].items()
    }


class _FileMap(mmap.mmap):
    """The map of a file. It is forgotten while its addresses are still its own: later they may be another array's."""

    address = -1

    def __del__(self) -> None:  # a weak reference would be called too late
        if _MAPS is not None:  # as it may be at the end of the program
            _MAPS.pop(self.address, None)


def map_file(path: str) -> mmap.mmap:
    """Return the memory map of a file, which `find_in_files` can look up as long as it is used."""
    with open(path, "rb") as file:
        mapped = _FileMap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    mapped.address = address_of(memoryview(mapped))
    _MAPS[mapped.address] = len(mapped), path
    return mapped


def find_in_files(raw: memoryview) -> tuple[str, int] | None:
    """Return the path of the mapped file that a buffer belongs to, and its offset; None for other buffers."""
    address = address_of(raw)
    for begin, (length, path) in _MAPS.copy().items():  # maps may end meanwhile, but not that of the buffer
        if begin <= address and address + raw.nbytes <= begin + length:
            return path, address - begin
    return None


def address_of(raw: memoryview) -> int:
    """Return the address of a buffer."""
    return int(np.frombuffer(raw, dtype=np.uint8).ctypes.data)


def is_whole(path: Path) -> bool:
    """Return whether the file exists, is complete, and has the bytes that were written."""
    try:
        with path.open("rb") as file:
            if not _has_checksum(file, path.stat().st_size - _WORD):
                return False
            file.seek(0)
            head, begin = _read_head(file)
            fits = all(_fits(one, head["bytes"]) for one in head["arrays"].values())
            return fits and path.stat().st_size == begin + head["bytes"] + _WORD
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _read_head(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the contents of the file, and the offset of its arrays."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("this is not a file of arrays")
    head = json.loads(file.read(int.from_bytes(file.read(_WORD), "little")))
    return head, _padded(file.tell())


def _has_checksum(file: BinaryIO, end: int) -> bool:
    """Return whether the word behind the arrays is their checksum; a disk may lose bits, and tools may edit files."""
    check = 0
    while file.tell() < end:
        check = zlib.crc32(file.read(min(_AT_ONCE, end - file.tell())), check)
    return check == int.from_bytes(file.read(_WORD), "little")


def _fits(one: dict[str, Any], n_bytes: int) -> bool:
    dtype = np.dtype(one["dtype"])
    return dtype.kind in _KINDS and 0 <= one["begin"] <= n_bytes - math.prod(one["shape"]) * dtype.itemsize


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
