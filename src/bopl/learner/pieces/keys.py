"""Hashes of all rows of a log in pieces, some at a time: there may be more of them than fit into the owner's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from bopl._typing import BoolArray
from bopl.cluster import Placement
from bopl.learner.pieces.facts import LoadedPiece
from bopl.log import BanditLog
from bopl.log.identical import Keys
from bopl.log.row_sketch import KeyCounts

KEYS_AT_ONCE = 1 << 22  # hashes that the owner holds, beside three arrays of the same size while it counts them

HashRows = Callable[[BanditLog], Keys]


def count_keys(sources: Sequence[tuple[Placement | BanditLog, HashRows]], n_samples: int) -> Iterator[KeyCounts]:
    """Yield the hashes of all rows with their counts, the lowest first.

    Hashes are spread evenly over 64 bits, so equal ranges of them hold about equally many rows. Each range takes a
    pass, in which pieces hash their rows again: that costs less than keeping the hashes of all rows.

    Parameters
    ----------
    sources : sequence of (Placement or BanditLog, callable)
        Loaded pieces or a log in memory, and the hash of their rows.
    n_samples : int
        Rows of all sources.
    """
    n_ranges = max(-(-n_samples // KEYS_AT_ONCE), 1)
    for low, end in pairwise([(idx << 64) // n_ranges for idx in range(n_ranges + 1)]):
        parts: list[KeyCounts] = []
        for source, hash_rows in sources:
            if isinstance(source, Placement):
                parts += source.gather(_counts_between, hash_rows, low, end - 1)
            else:
                parts.append(KeyCounts.of(hash_rows(source)).between(low, end - 1))
        yield KeyCounts.join(parts)


def _counts_between(state: LoadedPiece, hash_rows: HashRows, low: int, high: int) -> KeyCounts:
    if state.log is None:
        return KeyCounts.join([])
    return KeyCounts.of(hash_rows(state.log)).between(low, high)


def is_among(keys: Keys, known: Keys) -> BoolArray:
    """Return which hashes are among known ones, which are ascending."""
    at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    return known[at] == keys if len(known) else np.zeros(len(keys), bool)
