"""What runs on a Dask worker: orders, and the states that they need.

States live in the worker's process as long as a *lease*, a tiny result that the client holds on the worker. When the
client releases it, is interrupted or disappears, Dask removes the lease, and the states go with it.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass, replace
from typing import Any

import bopl
from bopl._errors import UsageError
from bopl.cluster.cache import ArrayCache
from bopl.cluster.memory import memory_budget
from bopl.cluster.order import Add, Answer, Order, merge_answers, n_bytes
from bopl.cluster.shelf import Shelf

SHARE_OF_WORKER = 0.4  # of a worker's memory, for states; Dask starts to write to disk at 0.7
EVERY = 0.5  # seconds between two checks of the leases
SETTLING = 2.0  # seconds within which Dask must have stored a new lease
GRACE = 60.0  # seconds within which a lease must have been made


@dataclass(frozen=True)
class Lease:
    """As long as a worker has it, the worker keeps the states of a placement."""

    placement: str


def lease_key(placement: str, address: str) -> str:
    """Return the key of a lease."""
    return f"bopl-lease-{placement}-{address}"


def hold(placement: str) -> Lease:
    """Return a lease; runs as its own task."""
    from distributed import get_worker

    _keeper_of(get_worker()).note_lease(placement)
    return Lease(placement)


def carry_out(order: Order, version: str) -> Answer:
    """Apply an order on the worker that runs this; client and worker must have the same version of bopl."""
    from distributed import get_worker

    if version != bopl.__version__:
        raise UsageError(
            f"the workers of the Dask cluster have bopl {bopl.__version__}, and the client has {version}; install the "
            "same version on both."
        )
    return _keeper_of(get_worker()).carry_out(order)


def merge(answers: list[Answer], add: Add) -> Answer:
    """Add the answers of several workers on one of them."""
    merged = merge_answers(answers, add)
    return replace(merged, n_tasks=merged.n_tasks + 1, n_bytes=merged.n_bytes + n_bytes(merged.total))


class Keeper:
    """The shelf of a worker, and the thread that clears it of states without a lease."""

    def __init__(self, worker: Any) -> None:
        self._worker = weakref.ref(worker)
        limit = worker.memory_manager.memory_limit
        budget = int(SHARE_OF_WORKER * limit) if limit else memory_budget(None)
        self.shelf = Shelf(budget, worker.local_directory, ArrayCache())
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}  # when states without a lease go
        self._thread: threading.Thread | None = None

    def note_lease(self, placement: str) -> None:
        """Note that a lease was made: from now on its absence means something."""
        with self._lock:
            self._until[placement] = time.monotonic() + SETTLING

    def carry_out(self, order: Order) -> Answer:
        """Apply an order."""
        with self._lock:
            self._until.setdefault(order.placement, time.monotonic() + GRACE)
            if self._thread is None:
                self._thread = threading.Thread(target=self._sweep, name="bopl-states", daemon=True)
                self._thread.start()
        return self.shelf.carry_out(order, iter(order.pieces))

    def _sweep(self) -> None:
        """Clear states without a lease until there are none."""
        while True:
            time.sleep(EVERY)
            with self._lock:
                for placement in {*self._until, *self.shelf.placements()}:
                    if not self._is_held(placement):
                        self.shelf.forget(placement)
                        self._until.pop(placement, None)
                if not self._until and not self.shelf.placements():
                    self._thread = None
                    return

    def _is_held(self, placement: str) -> bool:
        worker = self._worker()
        if worker is None or worker.status.name in ("closed", "failed"):
            return False
        if lease_key(placement, worker.address) in worker.data:
            return True
        return time.monotonic() < self._until.get(placement, 0.0)


_KEEPERS: weakref.WeakKeyDictionary[Any, Keeper] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def _keeper_of(worker: Any) -> Keeper:
    with _LOCK:
        if worker not in _KEEPERS:
            _KEEPERS[worker] = Keeper(worker)
        return _KEEPERS[worker]


def placements_of(dask_worker: Any) -> list[str]:
    """Return the placements whose states a worker has; for ``client.run``."""
    return _KEEPERS[dask_worker].shelf.placements() if dask_worker in _KEEPERS else []
