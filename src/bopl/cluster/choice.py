"""Choosing the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bopl.cluster.local import ThisMachine
from bopl.cluster.seam import Cluster


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
