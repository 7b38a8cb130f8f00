"""A request to a worker, and its answer: partial results of pieces, which are added exactly."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

Build = Callable[..., Any]
Add = Callable[[Any, Any], Any]
_COUNTS = ("n_bytes", "n_built", "n_tasks", "n_sent")  # of answers, which are added up


@dataclass(frozen=True)
class Change:
    """An update of every piece's state: ``function(state, *shared)``."""

    function: Callable[..., Any]
    shared: tuple[Any, ...] = ()
    changes: bool = True  # returns the new state; otherwise the state stays
    answers: bool = False  # returns a partial result (with the new state, if there is one)
    zero: Callable[..., Any] | None = None  # makes the total that the function adds to in place
    by_piece: bool = False  # partial results are kept separate, by the number of their piece

    def begin(self) -> Any:
        """Return the total before the first piece."""
        return None if self.zero is None else self.zero(*self.shared)

    def apply(self, piece_idx: int, state: Any, total: Any, add: Add) -> tuple[Any, Any]:
        """Return the new state of a piece and the new total."""
        if self.zero is not None:
            made = self.function(state, *self.shared, total)
            return (made if self.changes else state), total
        made = self.function(state, *self.shared)
        if not self.answers:
            return made, None
        state, partial = made if self.changes else (state, made)
        if self.by_piece:
            partial = {piece_idx: partial}
        return state, partial if total is None else add(total, partial)

    def replay(self, state: Any) -> Any:
        """Return the new state alone."""
        if self.zero is not None:
            return self.function(state, *self.shared, self.begin())
        made = self.function(state, *self.shared)
        return made[0] if self.answers else made


@dataclass(frozen=True)
class Recipe:
    """How to make the state of any piece from its file: first ``build``, with everything settled, then the rest."""

    build: Build
    pieces: dict[int, Any]
    rows: dict[int, int]  # their sizes, to distribute them evenly
    settled: tuple[Any, ...]
    pending: tuple[Change, ...]

    def make(self, piece_idx: int, cache: Any) -> Any:
        """Return the current state of a piece."""
        state = self.build(self.pieces[piece_idx], self.settled, cache)
        for change in self.pending:
            state = change.replay(state)
        return state


@dataclass(frozen=True)
class Order:
    """One verb for some pieces.

    Attributes
    ----------
    placement : str
        Owner of the states; unique among all fits of a cluster.
    version : int
        Number of updates that the states have seen before this one.
    pieces : tuple of int
    change : Change
    add : callable
        Adds two partial results.
    recipe : Recipe, optional
        Makes states that the worker does not have; without it, they are reported as missing.
    moved : tuple of int
        Pieces that the worker had and others have now.
    """

    placement: str
    version: int
    pieces: tuple[int, ...]
    change: Change
    add: Add
    recipe: Recipe | None = None
    moved: tuple[int, ...] = ()

    def only(self, pieces: Iterable[int]) -> Order:
        """Return the order for some of the pieces."""
        some = tuple(pieces)
        if self.recipe is None:
            return replace(self, pieces=some)
        pieces_of, rows_of = self.recipe.pieces, self.recipe.rows
        recipe = replace(
            self.recipe, pieces={one: pieces_of[one] for one in some}, rows={one: rows_of[one] for one in some}
        )
        return replace(self, pieces=some, recipe=recipe)

    def without(self, moved: Iterable[int]) -> Order:
        """Return the order for a worker that no longer needs to keep some of its pieces."""
        return replace(self, moved=tuple(one for one in moved if one not in self.pieces))


@dataclass(frozen=True)
class Answer:
    """The result of an order.

    Attributes
    ----------
    total : object
        Sum of the partial results, None if there were none.
    missing : tuple of int
        Pieces whose states the worker does not have; nothing was done for them.
    busy : tuple of float
        Seconds that each worker took.
    n_bytes : int
        Bytes of partial results passed on.
    n_built : int
        Number of states made from their files.
    n_tasks : int
        Number of tasks given to workers.
    n_sent : int
        Bytes of requests to workers, if they are other processes.
    """

    total: Any = None
    missing: tuple[int, ...] = ()
    busy: tuple[float, ...] = ()
    n_bytes: int = 0
    n_built: int = 0
    n_tasks: int = 0
    n_sent: int = 0


def merge_answers(answers: Sequence[Answer], add: Add) -> Answer:
    """Return one answer for several; partial results are added."""
    totals = [answer.total for answer in answers if answer.total is not None]
    return Answer(
        reduce(add, totals) if totals else None,
        tuple(sorted(piece_idx for answer in answers for piece_idx in answer.missing)),
        tuple(seconds for answer in answers for seconds in answer.busy),
        **{name: sum(getattr(answer, name) for answer in answers) for name in _COUNTS},
    )


def add_exact(one: Any, other: Any) -> Any:
    """Return the sum of two partial results: integers, arrays of integers, or tuples, lists and dicts of these.

    Arrays of the same dtype are added into ``one``, which the caller must not use afterwards.

    Raises
    ------
    TypeError
        If something would be rounded: sums of floats depend on the order of addition.
    """
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, np.ndarray | np.generic) or isinstance(other, np.ndarray | np.generic):
        return _add_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if isinstance(one, Mapping):
        return {**other, **{key: add_exact(one[key], other[key]) if key in other else one[key] for key in one}}
    if isinstance(one, tuple | list) and len(one) == len(other):
        return type(one)(add_exact(*pair) for pair in zip(one, other, strict=True))
    raise TypeError(
        f"partial results of pieces must be integers, arrays of integers, or tuples, lists and dicts of these, not "
        f"{type(one).__name__}; pass add= to add them another way."
    )


def _add_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        raise TypeError(
            f"partial results of pieces must be integers, not {one.dtype} and {other.dtype}: sums of floats depend on "
            "the order of addition. Scale them to integers first."
        )
    if one.shape != other.shape:
        raise ValueError(f"partial results of pieces differ in shape: {one.shape} and {other.shape}.")
    if one.dtype == other.dtype and one.flags.writeable:
        one += other
        return one
    return one + other


def n_bytes(value: Any) -> int:
    """Return how many bytes a partial result takes on the network; None takes none."""
    if value is None:
        return 0
    buffers: list[pickle.PickleBuffer] = []  # of arrays, which are not copied
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
