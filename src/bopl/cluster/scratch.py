"""`Scratch`: states that do not fit into memory, in one unnamed file.

A state is pickled with its arrays separate (protocol 5): small parts stay in memory, arrays become parts of the file.
An opened state has its arrays mapped from there, so that functions read and change them in place, and the system keeps
in memory what it can. The file has no name, so it disappears with its process, however that ends. Arrays of the
cache are already in a file, and stay there.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bopl.cluster.cache import address_of, find_in_files, map_file
from bopl.cluster.memory import in_words, is_full

_SMALL = mmap.ALLOCATIONGRANULARITY  # bytes; smaller arrays stay in memory
_AT_ONCE = 1 << 26  # bytes written by one call

Extent = tuple[int, int]  # offset and number of bytes


@dataclass(frozen=True)
class InCache:
    """A part of a file of the cache."""

    path: str
    begin: int
    size: int


@dataclass
class Parked:
    """A state outside memory: everything but its arrays, and where these are."""

    head: bytes
    extents: list[Extent | InCache]


@dataclass
class Opened:
    """A state whose arrays are parts of the file."""

    state: Any
    places: dict[int, Extent] = field(default_factory=dict)  # extent of each array by its address in memory
    # maps of the extents. They last as long as this, or an array that replaces another could get its address.
    maps: list[mmap.mmap] = field(default_factory=list)
    is_parked: bool = False  # whether it comes from the file rather than from memory


class Scratch:
    """A file for states; its folder is created when it is first needed."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: Any = None
        self._end = 0
        self._free: dict[int, list[int]] = defaultdict(list)  # offsets by size
        self._lock = threading.Lock()

    def park(self, state: Any, opened: Opened | None = None) -> Parked:
        """Write a state; arrays that are already in the file stay where they are.

        Raises
        ------
        OSError
            If the disk is full.
        """
        places = {} if opened is None else opened.places
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(state, protocol=5, buffer_callback=_collector(buffers))
        extents: list[Extent | InCache] = []
        kept: set[Extent] = set()
        for buffer in buffers:
            raw = buffer.raw()
            cached = find_in_files(raw)
            if cached is not None:
                extents.append(InCache(*cached, raw.nbytes))
                continue
            extent = places.get(address_of(raw))
            if extent is None or extent[1] != raw.nbytes or extent in kept:
                extent = self._write(raw)
            kept.add(extent)
            extents.append(extent)
        self._give_back(extent for extent in places.values() if extent not in kept)
        return Parked(head, extents)

    def open(self, parked: Parked) -> Opened:
        """Return a state with its arrays mapped from the file.

        Raises
        ------
        FileNotFoundError
            If the cache no longer has its arrays.
        """
        places: dict[int, Extent] = {}
        maps: list[mmap.mmap] = []
        files: dict[str, mmap.mmap] = {}
        buffers: list[Any] = []
        for extent in parked.extents:
            if isinstance(extent, InCache):
                mapped = files.get(extent.path) or files.setdefault(extent.path, map_file(extent.path))
                buffers.append(memoryview(mapped)[extent.begin : extent.begin + extent.size])
                continue
            begin, size = extent
            mapped = mmap.mmap(self._file.fileno(), size, offset=begin)
            places[address_of(memoryview(mapped))] = extent
            maps.append(mapped)
            buffers.append(mapped)
        return Opened(pickle.loads(parked.head, buffers=buffers), places, maps, is_parked=True)

    def release(self, parked: Parked) -> None:
        """Free the state's part of the file."""
        self._give_back(extent for extent in parked.extents if not isinstance(extent, InCache))

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._end

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._close()
            self._file, self._end = None, 0
            self._free.clear()

    def _write(self, raw: memoryview) -> Extent:
        begin = self._reserve(raw.nbytes)
        handle = self._file.fileno()
        try:
            for position in range(0, raw.nbytes, _AT_ONCE):
                _write_all(handle, raw[position : position + _AT_ONCE], begin + position)
        except OSError as error:
            raise self._sentence(error, raw.nbytes) from error
        return begin, raw.nbytes

    def _reserve(self, size: int) -> int:
        with self._lock:
            if self._file is None:
                self._file = self._make_file(size)
            if self._free[size]:
                return self._free[size].pop()
            begin = self._end
            self._end += -(-size // _SMALL) * _SMALL  # maps begin at multiples of it
        return begin

    def _make_file(self, size: int) -> Any:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=self._folder, prefix="bopl-", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._sentence(error, size) from error
        self._close = weakref.finalize(self, file.close)
        return file

    def _give_back(self, extents: Iterable[Extent]) -> None:
        with self._lock:
            for begin, size in extents:
                self._free[size].append(begin)

    def _sentence(self, error: OSError, size: int) -> OSError:
        reason = "the disk is full" if is_full(error) else (error.strerror or str(error)).lower()
        needed = in_words(max(self._end, size))
        return OSError(
            f"states of the log's pieces do not fit into the memory budget, and {needed} for them "
            f"cannot be written to {str(self._folder)!r}: {reason}. Free some space, set the environment "
            "variable BOPL_CACHE to another folder, or allow more memory."
        )


def _collector(buffers: list[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    """Return a collector of large buffers; the small ones, for which it returns True, stay in the pickle."""

    def collect(buffer: pickle.PickleBuffer) -> bool:
        is_small = buffer.raw().nbytes < _SMALL
        if not is_small:
            buffers.append(buffer)
        return is_small

    return collect


def _write_all(handle: int, raw: memoryview, begin: int) -> None:
    written = 0
    while written < raw.nbytes:
        written += os.pwrite(handle, raw[written:], begin + written)


def state_bytes(state: Any) -> int:
    """Return the bytes that a state's arrays take in memory, each counted once; arrays of mapped files do not count.

    It is asked for after every change of a piece, so it looks at the attributes instead of pickling the state; objects
    that know their ``nbytes``, as arrays do, are asked.
    """
    seen: set[int] = set()
    total, waiting = 0, [state]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            owner = _owner_of(one)
            is_counted = isinstance(owner, mmap.mmap) or (id(owner) in seen and owner is not one)
            # Memory that another library lent has no size that all of them tell alike: its array's own is known.
            total += 0 if is_counted else owner.nbytes if isinstance(owner, np.ndarray) else one.nbytes
            seen.add(id(owner))
        elif (known := getattr(one, "nbytes", None)) is not None:
            total += known
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list | tuple | set):
            waiting += one
        elif hasattr(one, "__dict__") and not isinstance(one, type | ModuleType):
            waiting += vars(one).values()
        elif isinstance(one, bytes | bytearray):
            total += len(one)
    return total


def _owner_of(array: np.ndarray[Any, Any]) -> Any:
    """Return the array whose memory this is a part of, or the map of a file."""
    owner: Any = array
    while True:
        base = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
        if base is None:
            return owner
        owner = base
