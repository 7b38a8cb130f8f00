"""`Cluster`: the seam between what is computed over pieces and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from bopl.cluster.order import Answer, Build, Order
from bopl.cluster.placement import Placement


@runtime_checkable
class Cluster(Protocol):
    """A place where the states of pieces live and functions run on them.

    Whoever computes over pieces calls `place` and uses the verbs of the `Placement`; the other methods are what an
    engine provides to it.
    """

    def place(
        self,
        pieces: Sequence[Any],
        build: Build,
        settled: Iterable[Any] = (),
        rows: Sequence[int] | None = None,
    ) -> Placement:
        """Return the pieces as a `Placement`; their states are built at the first verb."""

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces, on any workers; report the pieces whose states are nowhere as missing."""

    def settle(self, placement: str) -> None:
        """Take note that a round has ended: a good moment to use workers that have joined."""

    def forget(self, placement: str) -> None:
        """Let the states of a placement go, and stop what still runs for it."""

    def close(self) -> None:
        """Let everything go."""
