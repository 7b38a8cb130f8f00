"""`DaskCluster`: pieces on the workers of a Dask cluster.

Each thread of each worker has some pieces. A verb is one task per thread, bound to its worker: Dask carries the order
there and the answer back, and knows which workers are alive. The pieces of a dead worker are missing, and `Placement`
asks for them again with the recipe. Many answers are added on the workers before the client fetches them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import bopl
from bopl._errors import UsageError
from bopl.cluster.dask_worker import carry_out, hold, lease_key, merge
from bopl.cluster.homes import Homes, Slot
from bopl.cluster.order import Answer, Order, merge_answers, n_bytes
from bopl.cluster.placement import Cluster

FAN_IN = 8  # answers added by one task
MANY = 8  # answers that the client does not add itself
POLL = 0.25  # seconds between two checks of who is alive
LOOKS = 20  # of these checks between two of who is paused, which send more
FETCH = 1.0  # seconds, initially, to wait for an existing answer; its worker may have died since
PATIENCE = 60.0  # seconds to wait for a worker if none is left
TIMEOUT = 10.0  # seconds to reach the scheduler
# A recipe with many rounds is large, once; Dask would warn about it.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1TB"}


class DaskCluster(Cluster):
    """A Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler such as ``"tcp://10.0.0.1:8786"``.
    timeout : float
        Seconds to wait for the scheduler.
    patience : float
        Seconds to wait for a worker if none is left.

    Raises
    ------
    UsageError
        If Dask is not installed or the scheduler cannot be reached.
    """

    def __init__(self, client: Any, *, timeout: float = TIMEOUT, patience: float = PATIENCE) -> None:
        self._is_ours = isinstance(client, str)
        self._client = _connect(client, timeout) if isinstance(client, str) else _checked(client)
        self._address = str(self._client.scheduler.address)
        self._patience = patience
        self._homes: dict[str, Homes] = {}
        self._leases: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()

    @property
    def n_slots(self) -> int:
        """Number of functions that run at once: the threads of all workers."""
        return sum(self._workers().values())

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces; those of dead workers are reported as missing.

        Raises
        ------
        ConnectionError
            If the scheduler is gone, or there has been no worker for long.
        """
        if not order.pieces:
            return Answer()
        with self._naming_the_scheduler():
            return self._carry_out(order)

    def _carry_out(self, order: Order) -> Answer:
        homes = self._homes.setdefault(order.placement, Homes())
        if order.recipe is not None:
            homes.rows |= order.recipe.rows
            homes.share_out(order.pieces, self._workers())
        groups = homes.by_slot(order.pieces)
        self._lease(order.placement, {address for address, _ in groups})
        tasks: dict[Slot, Any] = {}
        merged: list[Any] = []
        try:
            for slot, pieces in groups.items():
                tasks[slot] = self._submit(order.only(pieces), slot[0], homes.moved.pop(slot[0], ()))
            merged += self._add_up(list(tasks.values()), order)
            answers, lost = self._collect(merged, tasks)
        except BaseException:
            self._cancel([*tasks.values(), *merged])
            raise
        for future in {*tasks.values(), *merged}:
            future.release()  # whatever still refers to it
        gone = [piece_idx for slot in lost for piece_idx in groups[slot]]
        for piece_idx in gone:
            homes.slot_of.pop(piece_idx, None)
        n_sent = len(groups) * n_bytes(order.change) + n_bytes(order.recipe)
        return merge_answers([*answers, Answer(missing=tuple(gone), n_sent=n_sent)], order.add)

    def settle(self, placement: str) -> None:
        """Let workers that have joined take pieces."""
        homes = self._homes.get(placement)
        if homes is not None:
            with self._naming_the_scheduler():
                homes.rebalance(self._workers())

    def forget(self, placement: str) -> None:
        """Release the states of a placement, together with their leases, within a second."""
        self._homes.pop(placement, None)
        self._cancel(list(self._leases.pop(placement, {}).values()))

    def close(self) -> None:
        """Release everything; a client that was passed in stays open."""
        for placement in list(self._leases):
            self.forget(placement)
        if self._is_ours:
            self._client.close()

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- Tasks --------------------------------------------------------------------------------------------------------

    def _submit(self, order: Order, address: str, moved: Iterable[int]) -> Any:
        import dask

        order = order.without(moved)
        with dask.config.set(_LARGE):
            return self._client.submit(
                carry_out,
                order,
                bopl.__version__,
                key=f"bopl-{order.placement}-{next(self._numbers)}",
                workers=[address],
                pure=False,
            )

    def _add_up(self, tasks: list[Any], order: Order) -> list[Any]:
        """Return tasks that add the answers of others, until few are left."""
        while len(tasks) > MANY:
            tasks = [
                self._client.submit(
                    merge,
                    tasks[begin : begin + FAN_IN],
                    order.add,
                    key=f"bopl-merge-{order.placement}-{next(self._numbers)}",
                    pure=False,
                )
                for begin in range(0, len(tasks), FAN_IN)
            ]
        return tasks

    def _collect(self, merged: list[Any], tasks: Mapping[Slot, Any]) -> tuple[list[Answer], list[Slot]]:
        """Return the answers, and the slots whose workers died before theirs were fetched."""
        answers, lost = self._fetch(merged, {address for address, _ in tasks})
        if not lost:
            return answers, []
        # Some of the merged answers may never come: fetch those of the remaining workers one by one.
        self._cancel([future for future in merged if future not in tasks.values()])
        answers, dead = [], []
        for slot, future in tasks.items():
            found, lost = self._fetch([future], {slot[0]})
            answers += found
            if lost:
                self._cancel([future])
                dead.append(slot)
        return answers, dead

    def _fetch(self, futures: list[Any], addresses: set[str]) -> tuple[list[Answer], bool]:
        """Return the results, and whether one of the workers died before all of them arrived."""
        from distributed import TimeoutError

        done = _Countdown(futures)
        paused: dict[str, float] = {}
        for n_looks in itertools.count(1):
            if done.wait(POLL):
                break
            if not addresses <= set(self._alive()):
                return [], True
            if n_looks % LOOKS == 0:
                self._refuse_paused(addresses, paused)
        answers: list[Answer] = []
        patience = FETCH
        while len(answers) < len(futures):
            try:
                answers.append(futures[len(answers)].result(timeout=patience))
            except TimeoutError:
                patience *= 2  # a large answer on a slow network
                if not addresses <= set(self._alive()):
                    return answers, True
        return answers, False

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self._client.status == "running":
            self._client.cancel(futures, force=True)

    @contextmanager
    def _naming_the_scheduler(self) -> Iterator[None]:
        """Turn Dask's errors about a lost connection into one sentence."""
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        try:
            yield
        except (CancelledError, CommClosedError) as error:
            raise ConnectionError(
                f"the Dask scheduler at {self._address} is gone, or has cancelled the work ({_reason(error)}). Start "
                "again when it is back, from a checkpoint if there is one."
            ) from None

    # -- Workers ------------------------------------------------------------------------------------------------------

    def _alive(self) -> dict[str, int]:
        """Return the threads of each worker."""
        return dict(self._client.nthreads())

    def _workers(self) -> dict[str, int]:
        """Return the threads of each worker; wait for one if there is none."""
        until = time.monotonic() + self._patience
        while not (alive := self._alive()):
            if time.monotonic() > until:
                raise ConnectionError(
                    f"the Dask cluster at {self._address} has had no worker for {self._patience:g} seconds; start one "
                    f"with `dask worker {self._address}`."
                )
            time.sleep(POLL)
        return alive

    def _refuse_paused(self, addresses: set[str], since: dict[str, float]) -> None:
        """Raise if a worker can begin nothing any more.

        Dask pauses a worker whose memory is nearly full. What the worker has begun may free some; after that nothing
        will. ``since`` remembers when each was first seen so.
        """
        workers = self._client.sync(self._client.scheduler.identity)["workers"]
        for address in addresses:
            worker = workers.get(address, {"status": "gone"})
            if worker["status"] != "paused" or worker["metrics"].get("task_counts", {}).get("executing"):
                since.pop(address, None)
            elif time.monotonic() - since.setdefault(address, time.monotonic()) > self._patience:
                taken, limit = worker["metrics"].get("memory", 0) / 1e6, (worker["memory_limit"] or 0) / 1e6
                raise RuntimeError(
                    f"Dask has paused the worker at {address} for {self._patience:g} seconds, because its memory is "
                    f"nearly full ({taken:,.0f} of {limit:,.0f} MB): give workers more memory (`--memory-limit`), or "
                    "write smaller row groups."
                )

    def _lease(self, placement: str, addresses: set[str]) -> None:
        """Make the workers keep the states of a placement until the lease is given up."""
        leases = self._leases.setdefault(placement, {})
        for address in addresses - set(leases):
            key = lease_key(placement, address)
            leases[address] = self._client.submit(hold, placement, key=key, workers=[address], pure=False)


class _Countdown:
    """Waits until some futures are done, whatever their outcome."""

    def __init__(self, futures: list[Any]) -> None:
        self._left = len(futures)
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        for future in futures:
            future.add_done_callback(self._count)

    def _count(self, future: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._is_over.set()

    def wait(self, seconds: float) -> bool:
        """Return whether all are done."""
        return self._is_over.wait(seconds)


def _connect(address: str, timeout: float) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "a Dask cluster needs the packages dask and distributed; install them with `pip install 'bopl[dask]'`."
        ) from None
    made: Any = Client.__new__(Client)  # kept if it fails: Dask would wait twenty seconds for such a one to close
    try:
        made.__init__(address, timeout=timeout, set_as_default=False)
        return made
    except (OSError, ValueError, TypeError) as error:
        made.status = "closed"
        made._loop_runner.stop()
        raise UsageError(
            f"there is no Dask scheduler at {address!r} ({_reason(error)}); start one with `dask scheduler`, and pass "
            "the address that it prints, such as 'tcp://10.0.0.1:8786'."
        ) from None


def _reason(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error).split("\n")[0].rstrip(".")


def _checked(client: Any) -> Any:
    """Return a client if it is synchronous."""
    if not all(hasattr(client, name) for name in ("submit", "nthreads", "cancel", "scheduler")):
        raise UsageError(
            f"cluster must be a distributed.Client, the address of a Dask scheduler or a bopl.cluster, not "
            f"{type(client).__name__}."
        )
    if client.asynchronous:
        raise UsageError("cluster must be a synchronous distributed.Client: create it without asynchronous=True.")
    return client
