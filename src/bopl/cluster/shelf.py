"""`Shelf`: the states of pieces that one process holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bopl.cluster.add import n_bytes
from bopl.cluster.order import Answer, Order


@dataclass(frozen=True)
class _Kept:
    version: int
    state: Any


class Shelf:
    """States of pieces by placement, each with the number of updates it has seen.

    Whoever works on a state takes it away and puts it back when done. A function that fails or is cut off so leaves no
    half-changed state behind: the state is missing, and is made again.

    Parameters
    ----------
    cache : object
        Given to the functions that build states.
    """

    def __init__(self, cache: Any = None) -> None:
        self.cache = cache
        self._lock = threading.Lock()
        self._kept: dict[str, dict[int, _Kept]] = {}

    def carry_out(self, order: Order, pieces: Iterator[int]) -> Answer:
        """Apply an order to the pieces that an iterator hands out; threads may share the iterator."""
        began = time.perf_counter()
        missing, n_built = [], 0
        total = order.change.begin()
        for piece_idx in pieces:
            kept = self._take(order, piece_idx)
            if kept is not None:
                state = kept.state
            elif order.recipe is not None:
                state = order.recipe.make(piece_idx, self.cache)
                n_built += 1
            else:
                missing.append(piece_idx)
                continue
            state, total = order.change.apply(piece_idx, state, total, order.add)
            self._put(order, piece_idx, state)
        busy = time.perf_counter() - began
        return Answer(total, tuple(missing), (busy,), n_bytes(total), n_built)

    def _take(self, order: Order, piece_idx: int) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(order.placement, {}).pop(piece_idx, None)
        return kept if kept is not None and kept.version == order.version else None

    def _put(self, order: Order, piece_idx: int, state: Any) -> None:
        kept = _Kept(order.version + order.change.changes, state)
        with self._lock:
            self._kept.setdefault(order.placement, {})[piece_idx] = kept

    def forget(self, placement: str) -> None:
        """Let the states of a placement go."""
        with self._lock:
            self._kept.pop(placement, None)

    def placements(self) -> list[str]:
        """Return whose states are here."""
        with self._lock:
            return list(self._kept)


class HandingOut(Iterator[int]):
    """An iterator that several threads may share."""

    def __init__(self, pieces: tuple[int, ...]) -> None:
        self._pieces = iter(pieces)
        self._lock = threading.Lock()

    def __next__(self) -> int:
        with self._lock:
            return next(self._pieces)
