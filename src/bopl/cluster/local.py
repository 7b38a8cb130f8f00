"""`ThisMachine`: pieces on this machine, in threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from bopl._interrupt import Threads
from bopl.cluster.order import Answer, Build, Order, merge_answers
from bopl.cluster.placement import Placement
from bopl.cluster.shelf import HandingOut, Shelf


class ThisMachine:
    """This machine.

    Parameters
    ----------
    n_threads : int, optional
        Pieces that are worked on at once; one per core by default.
    """

    def __init__(self, *, n_threads: int | None = None) -> None:
        self._n_threads = n_threads or os.cpu_count() or 1
        self._shelf = Shelf()

    @property
    def n_slots(self) -> int:
        """How many functions run at once."""
        return self._n_threads

    def place(self, pieces: Sequence[Any], build: Build, settled: Iterable[Any] = ()) -> Placement:
        """Return the pieces as a `Placement`; their states are built at the first verb."""
        return Placement(self, pieces, build, settled)

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces."""
        pieces = HandingOut(order.pieces)
        n_threads = min(self._n_threads, len(order.pieces))
        if n_threads <= 1:
            return merge_answers([self._shelf.carry_out(order, pieces)], order.add)
        with Threads(n_threads) as threads:
            waiting = {threads.submit(self._shelf.carry_out, order, pieces) for _ in range(n_threads)}
            answers = []
            while waiting:
                done = threads.wait(waiting)
                waiting -= done
                answers += [future.result() for future in done]
        return merge_answers(answers, order.add)

    def settle(self, placement: str) -> None:
        """Nothing to do: nobody joins."""

    def forget(self, placement: str) -> None:
        """Let the states of a placement go."""
        self._shelf.forget(placement)

    def close(self) -> None:
        """Let everything go."""
        for placement in self._shelf.placements():
            self._shelf.forget(placement)

    def __enter__(self) -> ThisMachine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
