"""`Shelf`: the states of pieces that one process holds, within a memory budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bopl.cluster.cache import ArrayCache
from bopl.cluster.order import Answer, Order, n_bytes
from bopl.cluster.scratch import Opened, Parked, Scratch, state_bytes


@dataclass(frozen=True)
class _Kept:
    version: int
    state: Any  # or a Parked
    n_bytes: int  # in memory


class _Placed:
    """The states of one placement."""

    def __init__(self, folder: Path) -> None:
        self.states: dict[int, _Kept] = {}
        self.scratch = Scratch(folder)


class Shelf:
    """States of pieces by placement, each with the number of updates it has seen.

    A state is taken away while it is in use, and put back afterwards. So a function that fails or is interrupted leaves
    no half-changed state behind: the state is missing, and is rebuilt.

    States stay in memory as long as the budget lasts; later ones live in a file and are mapped while in use.
    Pieces are visited in turn, so it is better to keep the same ones than the most recently used.

    Parameters
    ----------
    budget : int
        Bytes of memory for states.
    folder : path
        Folder for states beyond the budget.
    cache : ArrayCache
        Passed to the functions that build states.
    """

    def __init__(self, budget: int, folder: str | Path, cache: ArrayCache) -> None:
        self.cache = cache
        self._budget = budget
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._placed: dict[str, _Placed] = {}
        self._n_bytes = 0  # of states in memory

    def carry_out(self, order: Order, pieces: Iterator[int]) -> Answer:
        """Apply an order to the pieces that an iterator yields; threads may share the iterator."""
        began = time.perf_counter()
        for piece_idx in order.moved:
            self._release(order, self._pop(order, piece_idx))
        missing, n_built = [], 0
        total = order.change.begin()
        for piece_idx in pieces:
            is_there, is_built, total = self._carry_out_one(order, piece_idx, total)
            n_built += is_built
            if not is_there:
                missing.append(piece_idx)
        busy = time.perf_counter() - began
        return Answer(total, tuple(missing), (busy,), n_bytes(total), n_built, n_tasks=1)

    def _carry_out_one(self, order: Order, piece_idx: int, total: Any) -> tuple[bool, bool, Any]:
        """Apply an order to a piece; return whether its state was there or could be built, was built, and the total.

        Nothing refers to the state afterwards, so that it is released before the next one is opened or built.
        """
        kept = self._take(order, piece_idx)
        opened, is_built = self._open(order, kept), False
        if opened is None and order.recipe is not None:
            kept, opened, is_built = None, Opened(order.recipe.make(piece_idx, self.cache)), True
        if opened is None:
            return False, False, total
        state, total = order.change.apply(piece_idx, opened.state, total, order.add)
        self._put(order, piece_idx, state, opened, None if order.change.changes else kept)
        return True, is_built, total

    def allow(self, budget: int) -> None:
        """Let states take this much memory from now on."""
        self._budget = budget

    def _take(self, order: Order, piece_idx: int) -> _Kept | None:
        kept = self._pop(order, piece_idx)
        if kept is not None and kept.version != order.version:
            self._release(order, kept)
            return None
        return kept

    def _pop(self, order: Order, piece_idx: int) -> _Kept | None:
        with self._lock:
            placed = self._placed.get(order.placement)
            kept = placed.states.pop(piece_idx, None) if placed else None
            self._n_bytes -= kept.n_bytes if kept is not None else 0
        return kept

    def _release(self, order: Order, kept: _Kept | None) -> None:
        if kept is not None and isinstance(kept.state, Parked):
            self._of(order.placement).scratch.release(kept.state)

    def _open(self, order: Order, kept: _Kept | None) -> Opened | None:
        if kept is None or not isinstance(kept.state, Parked):
            return None if kept is None else Opened(kept.state)
        try:
            return self._of(order.placement).scratch.open(kept.state)
        except FileNotFoundError:  # somebody cleared the cache
            self._release(order, kept)
            return None

    def _put(self, order: Order, piece_idx: int, state: Any, opened: Opened, kept: _Kept | None) -> None:
        """Put a state back; ``kept`` is its previous form if it has not changed."""
        placed = self._of(order.placement)
        if kept is None:
            kept = _Kept(order.version + order.change.changes, state, 0 if opened.is_parked else state_bytes(state))
            if opened.is_parked or self._n_bytes + kept.n_bytes > self._budget:
                kept = _Kept(kept.version, placed.scratch.park(state, opened), 0)
        with self._lock:
            placed.states[piece_idx] = kept
            self._n_bytes += kept.n_bytes

    def _of(self, placement: str) -> _Placed:
        with self._lock:
            if placement not in self._placed:
                self._placed[placement] = _Placed(self._folder)
            return self._placed[placement]

    def forget(self, placement: str) -> None:
        """Release the states of a placement."""
        with self._lock:
            placed = self._placed.pop(placement, None)
            self._n_bytes -= sum(kept.n_bytes for kept in placed.states.values()) if placed else 0
        if placed is not None:
            placed.scratch.close()

    def placements(self) -> list[str]:
        """Return the placements whose states are here."""
        with self._lock:
            return list(self._placed)

    def count(self, placement: str) -> tuple[int, int]:
        """Return how many states of a placement are in memory, and how many in the file."""
        with self._lock:
            placed = self._placed.get(placement)
            states = [kept.state for kept in placed.states.values()] if placed else []
        n_parked = sum(isinstance(state, Parked) for state in states)
        return len(states) - n_parked, n_parked


class HandingOut(Iterator[int]):
    """An iterator that several threads may share; ``before`` is called before each piece."""

    def __init__(self, pieces: tuple[int, ...], before: Callable[[], None] | None = None) -> None:
        self._pieces = iter(pieces)
        self._before = before
        self._lock = threading.Lock()

    def __next__(self) -> int:
        if self._before is not None:
            self._before()
        with self._lock:
            return next(self._pieces)
