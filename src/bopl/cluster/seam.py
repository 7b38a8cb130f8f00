"""`Cluster`: the interface between computations over pieces and the machines that run them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from bopl.cluster.memory import WorkingMemory
from bopl.cluster.order import Answer, Build, Order
from bopl.cluster.placement import Placement


@runtime_checkable
class Cluster(Protocol):
    """A place that holds the states of pieces and runs functions on them.

    Computations over pieces call `place` and use the verbs of the `Placement`; an engine inherits this class and
    provides the other methods.
    """

    def place(
        self,
        pieces: Sequence[Any],
        build: Build,
        settled: Iterable[Any] = (),
        rows: Sequence[int] | None = None,
    ) -> Placement:
        """Return the pieces as a `Placement`; their states are built at the first verb."""
        return Placement(self, pieces, build, settled, rows)

    def reserve(self, work: WorkingMemory) -> None:
        """Note what a fit takes beside the states of its pieces, before it begins; by default, nothing is done."""
        return

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces, on any workers; report the pieces without a state as missing."""

    def settle(self, placement: str) -> None:
        """Note that a round has ended: a good moment to use workers that have joined."""

    def forget(self, placement: str) -> None:
        """Release the states of a placement, and stop what still runs for it."""

    def close(self) -> None:
        """Release everything."""
