"""One function over pieces that need no state: each is processed once, and the answers come in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bopl.cluster.choice import using_cluster

AT_ONCE = 256  # pieces whose answers wait for each other


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
