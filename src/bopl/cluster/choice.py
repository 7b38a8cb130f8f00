"""Choosing the cluster, and one function over pieces that need no state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bopl.cluster.local import ThisMachine
from bopl.cluster.placement import Cluster

AT_ONCE = 256  # pieces whose answers wait for each other


@contextmanager
def using_cluster(
    cluster: Any = None, *, memory: int | str | None = None, n_threads: int | None = None
) -> Iterator[Cluster]:
    """Yield the cluster, and close it if it was created here.

    Parameters
    ----------
    cluster : Cluster, distributed.Client or str, optional
        A Dask client or the address of its scheduler; this machine by default.
    memory : int or str, optional
        Memory that the process may take on this machine, such as ``"4GB"``.
    n_threads : int, optional
        Number of threads on this machine.
    """
    if isinstance(cluster, Cluster):
        yield cluster
        return
    made: Any
    if cluster is None:
        made = ThisMachine(memory, n_threads=n_threads)
    else:
        from bopl.cluster.dask import DaskCluster

        made = DaskCluster(cluster)
    with made:
        yield made


def map_over(
    cluster: Any,
    pieces: Sequence[Any],
    function: Callable[..., Any],
    *shared: Any,
    rows: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Yield ``function(piece, *shared)`` of every piece, in their order.

    Parameters
    ----------
    cluster : Cluster, distributed.Client, str or None
        Cluster whose workers run it; None processes the pieces in this process, one at a time.
    pieces : sequence
        Any picklable records.
    function : callable
        Defined in a module.
    shared : objects
        Further arguments, sent once to each worker.
    rows : sequence of int, optional
        Rows of each piece, to distribute them evenly.
    """
    if cluster is None:
        for piece in pieces:
            yield function(piece, *shared)
        return
    with using_cluster(cluster) as workers:
        for start in range(0, len(pieces), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            with workers.place(pieces[some], _as_it_is, rows=None if rows is None else rows[some]) as placed:
                yield from placed.gather(function, *shared)


def _as_it_is(piece: Any, settled: Any, cache: Any) -> Any:
    return piece
