"""`ArrayCache`: arrays on disk that the next run reuses, opened as memory maps.

An entry is one file that gets its name when it is complete: two processes may make the same entry at once, and a killed
one leaves nothing that could be mistaken for an entry. When the folder exceeds its limit, the least recently used
entries are deleted.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bopl._files import PART, replaced_file
from bopl.cluster.array_file import is_whole, open_arrays, write_arrays
from bopl.cluster.memory import is_full, parse_bytes

VARIABLE = "BOPL_CACHE"
LIMIT_VARIABLE = "BOPL_CACHE_LIMIT"
DEFAULT_LIMIT = "50GB"
SUFFIX = ".arrays"
_STALE = 24 * 3600.0  # seconds after which an unfinished entry must belong to a killed process


class CacheWarning(UserWarning):
    """Arrays could not be stored on disk, and stay in memory."""


class CachedArrays(Mapping[str, np.ndarray[Any, Any]]):
    """Arrays of one entry, for reading; the file is mapped when the first of them is used.

    It is pickled as the name of the file, so a state that contains one is small.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._arrays: dict[str, np.ndarray[Any, Any]] | None = None

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._opened()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened())

    def __len__(self) -> int:
        return len(self._opened())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path,)

    def _opened(self) -> dict[str, np.ndarray[Any, Any]]:
        if self._arrays is None:
            self._arrays = open_arrays(Path(self._path))
        return self._arrays


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

    def arrays(
        self, key: str, make: Callable[[], Mapping[str, np.ndarray[Any, Any]]]
    ) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return the arrays of a key, for reading; ``make`` is called if the cache does not have them.

        Parameters
        ----------
        key : str
            Digest of everything that the arrays depend on: letters, digits and dashes.
        make : callable
            Returns the arrays by name.
        """
        path = self._path_of(key)
        if is_whole(path):
            with suppress(OSError):
                os.utime(path)  # used just now
            return CachedArrays(str(path))
        made = dict(make())
        try:
            self._write(path, made)
        except OSError as error:
            warnings.warn(_sentence(self.folder, error), CacheWarning, stacklevel=2)
            return made
        return CachedArrays(str(path))

    def _path_of(self, key: str) -> Path:
        if not key or not key.replace("-", "").isalnum():
            raise ValueError(f"the key of cached arrays must consist of letters, digits and dashes, not {key!r}.")
        return self.folder / f"{key}{SUFFIX}"

    def _write(self, path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
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
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bopl" / "arrays"


def _sentence(folder: Path, error: OSError) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    reason = "the disk is full" if is_full(cause) else (cause.strerror or str(cause)).lower()
    return (
        f"arrays cannot be stored in the cache folder {str(folder)!r}: {reason}. They stay in memory, and the next run "
        f"recomputes them; free some space, or set {VARIABLE} to another folder."
    )
