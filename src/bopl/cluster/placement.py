"""`Placement`: pieces of a log, their states, and the verbs that work on all of them; `Cluster`: where these live."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

from bopl.cluster.memory import WorkingMemory
from bopl.cluster.order import Add, Answer, Build, Change, Order, Recipe, add_exact, merge_answers

MAX_ATTEMPTS = 8  # attempts at one verb for pieces whose workers die
STREAMED = 32  # pieces whose answers `Placement.stream` holds at once


class Placement:
    """Pieces whose states live on a cluster, wherever that is.

    The state of a piece is a function of its file and of the updates so far, so it does not matter which worker has it,
    or whether that worker dies: another one rebuilds the state in one go and carries on. Functions must be
    deterministic, change nothing but the state they are given, and be picklable (defined in a module).

    Use it in a ``with`` statement or call `close`: then the states are released.

    Parameters
    ----------
    cluster : Cluster
        Cluster that holds the pieces.
    pieces : sequence
        Any picklable records that ``build`` can read.
    build : callable
        ``build(piece, settled, cache)`` returns the state of a piece after everything settled. ``cache`` keeps arrays
        on disk for the next run.
    settled : iterable
        What is already settled: the rounds of a checkpoint.
    rows : sequence of int, optional
        Rows of each piece, to distribute them evenly; one each by default.
    """

    def __init__(
        self,
        cluster: Cluster,
        pieces: Sequence[Any],
        build: Build,
        settled: Iterable[Any] = (),
        rows: Sequence[int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._pieces = dict(enumerate(pieces))
        self._rows = dict(enumerate([1] * len(pieces) if rows is None else rows))
        self._build = build
        self._settled = list(settled)
        self._pending: list[Change] = []
        self._version = 0
        self._is_open = True
        self._is_built = False
        self.id = uuid.uuid4().hex
        self.traffic = Traffic()

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    # -- Verbs --------------------------------------------------------------------------------------------------------

    def update(self, function: Callable[..., Any], *shared: Any) -> None:
        """Let ``function(state, *shared)`` return the new state of every piece."""
        self._carry_out(Change(function, shared), add_exact)

    def reduce(
        self,
        function: Callable[..., Any],
        *shared: Any,
        zero: Callable[..., Any] | None = None,
        add: Add = add_exact,
    ) -> Any:
        """Return the sum over all pieces of ``function(state, *shared)``; the states stay as they are.

        Parameters
        ----------
        function : callable
            Returns the partial result of a piece: integers, arrays of integers, or tuples, lists and dicts of these.
        zero : callable, optional
            ``zero(*shared)`` makes an empty total; ``function(state, *shared, total)`` then adds to it in place and
            returns nothing. So a worker with many pieces needs one total, not one for each.
        add : callable, optional
            Adds two partial results of another kind. It must be exact: neither order nor grouping may matter.
        """
        return self._carry_out(Change(function, shared, changes=False, answers=True, zero=zero), add)

    def update_reduce(
        self,
        function: Callable[..., Any],
        *shared: Any,
        zero: Callable[..., Any] | None = None,
        add: Add = add_exact,
    ) -> Any:
        """Update and reduce in one pass: ``function`` returns the new state and the partial result.

        With ``zero``, ``function(state, *shared, total)`` adds to the total in place and returns the new state.
        """
        return self._carry_out(Change(function, shared, answers=True, zero=zero), add)

    def gather(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return ``function(state, *shared)`` of every piece, in order."""
        found = self._carry_out(Change(function, shared, changes=False, answers=True, by_piece=True), union) or {}
        return [found[piece_idx] for piece_idx in range(self.n_pieces)]

    def stream(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield ``function(state, *shared)`` of every piece, in order; unlike `gather`, it holds only some at once."""
        change = Change(function, shared, changes=False, answers=True, by_piece=True)
        for first in range(0, self.n_pieces, STREAMED):
            some = tuple(range(first, min(first + STREAMED, self.n_pieces)))
            found = self._carry_out(change, union, some)
            for piece_idx in some:
                yield found.pop(piece_idx)

    def settle(self, *values: Any) -> None:
        """Summarise the updates since the last time.

        A state that has to be rebuilt is ``build(piece, settled, cache)`` with all these values, and earlier updates
        are forgotten; without this they would be repeated one by one.
        """
        self._settled += values
        self._pending.clear()
        self._cluster.settle(self.id)

    # -- How ----------------------------------------------------------------------------------------------------------

    def _carry_out(self, change: Change, add: Add, some: tuple[int, ...] | None = None) -> Any:
        """Apply a change to every piece, or ask some of them; states that a worker lost are rebuilt."""
        if not self._is_open:
            raise RuntimeError("these pieces are closed; place them again.")
        began = time.perf_counter()
        try:
            answer = self._ask(change, add, tuple(self._pieces) if some is None else some)
        except BaseException:  # Ctrl-C too: the request is of no use any more
            self.close()
            raise
        self.traffic.note(answer, time.perf_counter() - began)
        if change.changes:
            self._pending.append(change)
            self._version += 1
        return change.begin() if answer.total is None else answer.total

    def _ask(self, change: Change, add: Add, pieces: tuple[int, ...]) -> Answer:
        order = Order(self.id, self._version, pieces, change, add)
        answer = self._cluster.carry_out(order if self._is_built else self._with_recipe(order, pieces))
        self._is_built = self._is_built or len(pieces) == self.n_pieces
        n_attempts = 0
        while answer.missing:
            n_attempts += 1
            self._give_up_after(n_attempts, answer.missing)
            rest = self._cluster.carry_out(self._with_recipe(order, answer.missing))
            answer = merge_answers([replace(answer, missing=()), rest], add)
        return answer

    def _give_up_after(self, n_attempts: int, missing: tuple[int, ...]) -> None:
        if n_attempts > MAX_ATTEMPTS:
            raise RuntimeError(
                f"{len(missing)} of {self.n_pieces} pieces were lost with their workers {MAX_ATTEMPTS} times in a row, "
                f"the first of them {self._pieces[missing[0]]}. Their workers probably run out of memory: give them "
                "more, or write smaller row groups."
            )

    def _with_recipe(self, order: Order, pieces: tuple[int, ...]) -> Order:
        recipe = Recipe(self._build, self._pieces, self._rows, tuple(self._settled), tuple(self._pending))
        return replace(order, recipe=recipe).only(pieces)

    def close(self) -> None:
        """Release the states, wherever they are."""
        if self._is_open:
            self._is_open = False
            self._cluster.forget(self.id)

    def __enter__(self) -> Placement:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def union(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    """Return both combined; no piece is in both."""
    return {**one, **other}


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
        """Note what a fit takes besides the states of its pieces, before it begins; by default, nothing is done."""
        return

    def carry_out(self, order: Order) -> Answer:
        """Apply an order to its pieces, on any workers; report the pieces without a state as missing."""

    def settle(self, placement: str) -> None:
        """Note that a round has ended: a good moment to use workers that have joined."""

    def forget(self, placement: str) -> None:
        """Release the states of a placement, and stop what still runs for it."""

    def close(self) -> None:
        """Release everything."""


@dataclass
class Traffic:
    """Counts since the pieces were placed.

    Attributes
    ----------
    n_passes : int
        Number of verbs over all pieces.
    n_tasks : int
        Number of tasks given to workers.
    n_bytes : int
        Bytes of partial results that workers passed on.
    n_sent : int
        Bytes of requests to workers, if they are other processes.
    n_built : int
        Number of states made from their files, including rebuilt ones.
    seconds : float
        Time spent in the verbs.
    waiting : float
        Seconds of these in which an average worker waited for the slowest one.
    """

    n_passes: int = 0
    n_tasks: int = 0
    n_bytes: int = 0
    n_sent: int = 0
    n_built: int = 0
    seconds: float = 0.0
    waiting: float = 0.0

    def note(self, answer: Answer, seconds: float) -> None:
        """Add the result of a verb."""
        self.n_passes += 1
        self.n_tasks += answer.n_tasks
        self.n_bytes += answer.n_bytes
        self.n_sent += answer.n_sent
        self.n_built += answer.n_built
        self.seconds += seconds
        if answer.busy:
            self.waiting += max(answer.busy) - sum(answer.busy) / len(answer.busy)

    @property
    def waiting_share(self) -> float:
        """Share of the time in which an average worker waited for the slowest one, between 0 and 1."""
        return min(self.waiting / self.seconds, 1.0) if self.seconds else 0.0

    def copy(self) -> Traffic:
        """Return the current counts, to subtract later."""
        return replace(self)

    def __sub__(self, before: Traffic) -> Traffic:
        """Return the counts since then."""
        return Traffic(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))
