"""`ThisMachine`: pieces on this machine, in threads."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from bopl._interrupt import Threads
from bopl._machine import memory_in_use_mib, trim_memory
from bopl.cluster.cache import ArrayCache
from bopl.cluster.memory import MIB, MemoryBudgetWarning, WorkingMemory, in_words, memory_budget
from bopl.cluster.order import Answer, Order, merge_answers
from bopl.cluster.placement import Cluster
from bopl.cluster.shelf import HandingOut, Shelf

STATES_SHARE = 0.85  # of what is left for states: allocators and what surrounds their arrays take the rest


class ThisMachine(Cluster):
    """This machine, for logs larger than its memory.

    Parameters
    ----------
    memory : int or str, optional
        Memory that the process may take in total, with libraries and pages of mapped files, such as ``"4GB"``; by
        default, what it holds and half of the free memory. States of pieces beyond it live in a file of the cache
        folder.
    n_threads : int, optional
        Number of pieces processed at once; one per core by default, fewer if the memory does not suffice.
    cache : path, optional
        Folder for arrays that the next run reuses, and for states beyond the budget; named by the environment variable
        ``BOPL_CACHE``, otherwise ``~/.cache/bopl/arrays``.
    """

    def __init__(
        self,
        memory: int | str | None = None,
        *,
        n_threads: int | None = None,
        cache: str | Path | None = None,
    ) -> None:
        held = _held()
        self.memory = memory_budget(memory) + (held if memory is None else 0)
        self._per_piece = 0
        self._n_wanted = self._n_threads = n_threads or usable_cores()
        kept = ArrayCache(cache)
        self.shelf = Shelf(max(self.memory - held, 0) // 2, kept.folder, kept)

    @property
    def n_slots(self) -> int:
        """Number of functions that run at once."""
        return self._n_threads

    def reserve(self, work: WorkingMemory) -> None:
        """Leave room for what a fit takes besides states: fewer threads if it is scarce, and the rest is for states.

        Warns
        -----
        MemoryBudgetWarning
            If the budget is too small for one thread.
        """
        trim_memory()
        room = self.memory - _held() - work.shared
        if room < work.per_piece:
            # Tens of megabytes, and ten more: what the process holds differs from run to run.
            smallest = -(-(self.memory - room + work.per_piece) // 10**7) * 10 + 10
            warnings.warn(
                f"a memory budget of {in_words(self.memory)} is exceeded: this fit takes up to {smallest} MB; pass "
                f"memory='{smallest}MB' or more, or write smaller row groups.",
                MemoryBudgetWarning,
                stacklevel=2,
            )
        self._per_piece = work.per_piece
        self._n_threads = min(max(room // max(work.per_piece, 1), 1), self._n_wanted)
        self.shelf.allow(int(STATES_SHARE * max(room - self._n_threads * work.per_piece, 0)))

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces."""
        pieces = HandingOut(order.pieces, self._tidy)
        n_threads = min(self._n_threads, len(order.pieces))
        if n_threads <= 1:
            answer = merge_answers([self.shelf.carry_out(order, pieces)], order.add)
            self._tidy()
            return answer
        with Threads(n_threads) as threads:
            waiting = {threads.submit(self.shelf.carry_out, order, pieces) for _ in range(n_threads)}
            answers = []
            while waiting:
                done = threads.wait(waiting)
                waiting -= done
                answers += [future.result() for future in done]
        self._tidy()
        return merge_answers(answers, order.add)

    def _tidy(self) -> None:
        """Return what allocators hold on to, if memory might not suffice for a piece."""
        if self._per_piece and _held() + self._per_piece > self.memory:
            trim_memory()

    def settle(self, placement: str) -> None:
        """Do nothing: no worker joins."""

    def forget(self, placement: str) -> None:
        """Release the states of a placement."""
        self.shelf.forget(placement)

    def close(self) -> None:
        """Release everything."""
        for placement in self.shelf.placements():
            self.shelf.forget(placement)

    def __enter__(self) -> ThisMachine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _held() -> int:
    """Return the bytes that the process holds now."""
    return int(memory_in_use_mib() * MIB)
