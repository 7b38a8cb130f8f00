"""`ThisMachine`: pieces on this machine, in threads."""

from __future__ import annotations

import os
from pathlib import Path

from bopl._interrupt import Threads
from bopl._machine import memory_in_use_mib
from bopl.cluster.cache import ArrayCache
from bopl.cluster.memory import memory_budget
from bopl.cluster.order import Answer, Order, merge_answers
from bopl.cluster.seam import Cluster
from bopl.cluster.shelf import HandingOut, Shelf


class ThisMachine(Cluster):
    """This machine, for logs larger than its memory.

    Parameters
    ----------
    memory : int or str, optional
        Memory that the process may take in total, such as ``"4GB"``; half of the free memory by default. States of
        pieces beyond it live in a file of the cache folder.
    n_threads : int, optional
        Number of pieces processed at once; one per core by default.
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
        self.memory = memory_budget(memory)
        self._n_threads = n_threads or usable_cores()
        kept = ArrayCache(cache)
        self.shelf = Shelf(states_budget(self.memory), kept.folder, kept)

    @property
    def n_slots(self) -> int:
        """Number of functions that run at once."""
        return self._n_threads

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces."""
        pieces = HandingOut(order.pieces)
        n_threads = min(self._n_threads, len(order.pieces))
        if n_threads <= 1:
            return merge_answers([self.shelf.carry_out(order, pieces)], order.add)
        with Threads(n_threads) as threads:
            waiting = {threads.submit(self.shelf.carry_out, order, pieces) for _ in range(n_threads)}
            answers = []
            while waiting:
                done = threads.wait(waiting)
                waiting -= done
                answers += [future.result() for future in done]
        return merge_answers(answers, order.add)

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


def states_budget(memory: int) -> int:
    """Return the part of a budget for states: half of what the process does not already hold.

    The other half is for work in progress: pieces being read, histograms, predictions.
    """
    return int(max(memory - memory_in_use_mib() * (1 << 20), 0) // 2)
