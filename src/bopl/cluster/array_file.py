"""Arrays in one file that can be mapped into memory: their names, then their bytes."""

from __future__ import annotations

import json
import math
import mmap
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_MAGIC = b"bopl arrays 1\n"
_ALIGNMENT = 64  # bytes: a cache line
_WORD = 8  # bytes that hold the length of the head
_KINDS = "biufSU"  # kinds of dtype that are plain bytes

_MAPS: dict[int, tuple[int, str]] = {}  # length and path by address
_LOCK = threading.RLock()  # a map may end while another one is looked up

Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_arrays(file: BinaryIO, arrays: Arrays) -> None:
    """Write arrays to an empty file."""
    head, position = {}, 0
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"the array {name!r} of dtype {array.dtype} cannot be kept in a file.")
        head[name] = {"dtype": array.dtype.str, "shape": array.shape, "begin": position}
        position += _padded(array.nbytes)
    text = json.dumps({"arrays": head, "bytes": position}).encode()
    file.write(_MAGIC + len(text).to_bytes(_WORD, "little") + text)
    file.write(bytes(_padded(file.tell()) - file.tell()))
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        file.write(bytes(_padded(array.nbytes) - array.nbytes))


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


def map_file(path: str) -> mmap.mmap:
    """Return the memory map of a file, which `find_in_files` can look up as long as it is used."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    address = address_of(memoryview(mapped))
    with _LOCK:
        _MAPS[address] = len(mapped), path
    weakref.finalize(mapped, _MAPS.pop, address, None).atexit = False
    return mapped


def find_in_files(raw: memoryview) -> tuple[str, int] | None:
    """Return the path of the mapped file that a buffer belongs to, and its offset; None for other buffers."""
    address = address_of(raw)
    with _LOCK:
        for begin, (length, path) in _MAPS.items():
            if begin <= address and address + raw.nbytes <= begin + length:
                return path, address - begin
    return None


def address_of(raw: memoryview) -> int:
    """Return the address of a buffer."""
    return int(np.frombuffer(raw, dtype=np.uint8).ctypes.data)


def is_whole(path: Path) -> bool:
    """Return whether the file exists and is complete."""
    try:
        with path.open("rb") as file:
            head, begin = _read_head(file)
            fits = all(_fits(one, head["bytes"]) for one in head["arrays"].values())
            return fits and path.stat().st_size == begin + head["bytes"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _read_head(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the contents of the file, and the offset of its arrays."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("this is not a file of arrays")
    head = json.loads(file.read(int.from_bytes(file.read(_WORD), "little")))
    return head, _padded(file.tell())


def _fits(one: dict[str, Any], n_bytes: int) -> bool:
    dtype = np.dtype(one["dtype"])
    return dtype.kind in _KINDS and 0 <= one["begin"] <= n_bytes - math.prod(one["shape"]) * dtype.itemsize


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
