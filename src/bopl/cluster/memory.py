"""Bytes: parsing and printing sizes, and the memory budget."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from bopl._errors import UsageError
from bopl._machine import available_memory

MIB = 1 << 20
_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SHARE_OF_FREE = 0.5  # of the free memory, unless a budget is given
UNKNOWN_FREE = 4 * 10**9  # if the system does not say


def parse_bytes(size: int | float | str) -> int:
    """Return a number of bytes that is written as ``"4GB"``, ``"512 MiB"`` or a plain number.

    >>> parse_bytes("4GB"), parse_bytes("512 MiB"), parse_bytes(1000)
    (4000000000, 536870912, 1000)
    """
    if isinstance(size, bool) or not isinstance(size, int | float | str):
        raise UsageError(f"a size must be a number of bytes or a text such as '4GB', not {size!r}.")
    found = _TEXT.fullmatch(str(size))
    if found is None:
        raise UsageError(f"a size must be a number of bytes or a text such as '4GB' or '512 MiB', not {size!r}.")
    n_bytes = int(float(found[1]) * _UNITS[(found[2] or "").lower()])
    if n_bytes < 1:
        raise UsageError(f"a size must be at least one byte, not {size!r}.")
    return n_bytes


def in_words(n_bytes: float) -> str:
    """Return a number of bytes in words.

    >>> in_words(3_210_000_000), in_words(999)
    ('3.2 GB', '999 bytes')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.{0 if n_bytes >= 100 * size else 1}f} {unit}"
    return f"{n_bytes:.0f} bytes"


class MemoryBudgetWarning(UserWarning):
    """A memory budget is too small for a fit, which takes more."""


@dataclass(frozen=True)
class WorkingMemory:
    """Bytes that a fit takes besides the states of its pieces.

    Attributes
    ----------
    shared : int
        Taken once.
    per_piece : int
        Taken for each piece that is processed at the same time.
    """

    shared: int
    per_piece: int


def memory_budget(memory: int | float | str | None) -> int:
    """Return the bytes that a fit may take: the given number, or half of the free memory."""
    if memory is not None:
        return parse_bytes(memory)
    free = available_memory()
    return int(SHARE_OF_FREE * (UNKNOWN_FREE if free is None else free))


def is_full(error: OSError) -> bool:
    """Return whether the error means a full disk or an exceeded quota."""
    return error.errno in _FULL
