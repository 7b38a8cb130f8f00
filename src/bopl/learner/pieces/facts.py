"""What is found out about a log in pieces before a tree is grown: bins, layout, a few numbers, hashes of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bopl._typing import AnyArray, BoolArray
from bopl.cluster import Placement
from bopl.learner.hist_tree.binning import ColumnBins, ColumnCounts, count_values
from bopl.learner.hist_tree.codes import store_context
from bopl.learner.hist_tree.cuts import Blocks, ColumnTally, CountedKeys, Finer, find_bins
from bopl.learner.hist_tree.inputs import as_context
from bopl.learner.hist_tree.layout import BinFacts, Layout, bin_facts, choose_layout
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.pieces.part import Loader, Part
from bopl.log import BanditLog
from bopl.log.concatenation import join_parts
from bopl.log.identical import Keys
from bopl.log.row_sketch import KeyCounts

COLUMNS_AT_ONCE = 8  # columns that one pass counts
KEYS_AT_ONCE = 1 << 22  # hashes that the owner holds, beside three arrays of the same size while it counts them

#: Contexts that trees are fitted to; a reward model's have the action as one more column.
ReadContext = Callable[[BanditLog], Any]
HashRows = Callable[[BanditLog], Keys]


@dataclass(frozen=True)
class LoadedPiece:
    """The state of a piece before it is binned: the piece itself; an empty one has no log.

    While bins are found, it has the values of some columns by their number, sorted once for all passes.
    """

    part: Part
    log: BanditLog | None
    counted: dict[int, CountedKeys] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadLog:
    """Makes the `LoadedPiece` of a piece."""

    loader: Loader

    def __call__(self, part: Part, settled: Any, cache: Any) -> LoadedPiece:
        """Return the piece, loaded."""
        return LoadedPiece(part, self.loader.load(part.piece) if part.n_rows else None)


def plain_context(log: BanditLog) -> Any:
    """Return a log's own contexts."""
    return as_context(log.context)


@dataclass(frozen=True)
class LogNumbers:
    """Numbers of a whole log; those of several pieces are joined by ``+``."""

    least_propensity: float = float("inf")
    # size, minus the number of the sample, and reward of the first of the largest ones
    largest_reward: tuple[float, int, float] = (-1.0, 0, 0.0)
    has_reward: bool = False  # whether a reward is not zero after the translation
    is_sparse: bool = False

    def __add__(self, other: LogNumbers) -> LogNumbers:
        return LogNumbers(
            min(self.least_propensity, other.least_propensity),
            max(self.largest_reward, other.largest_reward),
            self.has_reward or other.has_reward,
            self.is_sparse or other.is_sparse,
        )


def find_numbers(placed: Placement, translation: float) -> LogNumbers:
    """Return the numbers of a log."""
    found: LogNumbers = placed.reduce(_numbers, translation, add=operator.add)
    return found


def _numbers(state: LoadedPiece, translation: float) -> LogNumbers:
    log = state.log
    if log is None:
        return LogNumbers()
    row = int(np.argmax(np.abs(log.reward)))
    reward = float(log.reward[row])
    return LogNumbers(
        float(log.propensity.min()),
        (abs(reward), -state.part.first - row, reward),
        bool(np.any(log.translated(translation).reward)),
        hasattr(log.context, "indptr"),
    )


def find_layout(placed: Placement, read: ReadContext, max_bins: int, categorical: BoolArray, n_actions: int) -> Layout:
    """Return the bins of all columns and how rows are stored, as for a log in memory."""
    columns: list[ColumnBins] = []
    for first in range(0, len(categorical), COLUMNS_AT_ONCE):
        some = range(first, min(first + COLUMNS_AT_ONCE, len(categorical)))
        tallies = placed.update_reduce(_count, read, some, add=_add_each)
        searches = {
            j: find_bins(tally, max_bins, n_actions=n_actions, is_categorical=bool(categorical[j]), name=str(j))
            for j, tally in zip(some, tallies, strict=True)
        }
        found = _search(searches, lambda asked: placed.reduce(_refined, asked, add=_add_each))
        columns += [found[j] for j in some]
    facts = placed.update_reduce(_facts, read, tuple(columns), add=add_some)
    assert facts is not None
    return choose_layout(tuple(columns), facts)


def _search(
    searches: Mapping[int, Generator[Finer, Blocks, ColumnBins]],
    refine: Callable[[list[tuple[int, Finer]]], list[Blocks]],
) -> dict[int, ColumnBins]:
    """Run the searches of several columns side by side: what all of them ask for is counted in one pass."""
    found: dict[int, ColumnBins] = {}
    answers: dict[int, Blocks | None] = dict.fromkeys(searches)
    while answers:
        asked = []
        for j, answer in answers.items():
            try:
                asked.append((j, searches[j].send(answer)))  # type: ignore[arg-type]  # None begins a generator
            except StopIteration as end:
                found[j] = end.value
        answers = dict(zip([j for j, _ in asked], refine(asked) if asked else (), strict=True))
    return found


def without_rows(layout: Layout, *, is_sparse: bool) -> BinnedContext:
    """Return what the positions of a layout mean."""
    nothing: Any = np.zeros((0, len(layout.columns)), np.float32)
    if is_sparse:
        from scipy.sparse import csr_array

        nothing = csr_array(nothing)
    return store_context(nothing, layout)


def _count(state: LoadedPiece, read: ReadContext, columns: Sequence[int]) -> tuple[LoadedPiece, list[ColumnTally]]:
    context = None if state.log is None else read(state.log)
    counted, tallies = {}, []
    for j in columns:
        counts = (
            ColumnCounts(np.zeros(0, np.float32), np.zeros(0, np.int64))
            if context is None
            else count_values(context, j)
        )
        counted[j] = CountedKeys.of(counts)
        tallies.append(ColumnTally.of(counts))
    return replace(state, counted=counted), tallies


def _refined(state: LoadedPiece, asked: list[tuple[int, Finer]]) -> list[Blocks]:
    return [state.counted[j].refined(finer) for j, finer in asked]


def _add_each(one: list[Any], other: list[Any]) -> list[Any]:
    return [mine + theirs for mine, theirs in zip(one, other, strict=True)]


def _facts(
    state: LoadedPiece, read: ReadContext, columns: tuple[ColumnBins, ...]
) -> tuple[LoadedPiece, BinFacts | None]:
    """Return the facts, and the piece without what was counted."""
    return replace(state, counted={}), None if state.log is None else bin_facts(read(state.log), columns)


def add_some(one: Any, other: Any) -> Any:
    """Add two partial results; that of an empty piece is None."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def gather_values(placed: Placement, function: Callable[[BanditLog], AnyArray]) -> AnyArray:
    """Return an array by sample of a log, made of each piece's."""
    found = [values for values in placed.gather(_values, function) if values is not None]
    return np.concatenate(found)


def stream_values(placed: Placement, function: Callable[[BanditLog], AnyArray]) -> Iterator[AnyArray]:
    """Yield an array by sample of each piece, in order; `gather_values` holds all of them."""
    return (values for values in placed.stream(_values, function) if values is not None)


def _values(state: LoadedPiece, function: Callable[[BanditLog], AnyArray]) -> AnyArray | None:
    return None if state.log is None else function(state.log)


def gather_log(placed: Placement, is_taken: BoolArray) -> BanditLog:
    """Return some samples as a log in memory, in their order."""
    found = [log for log in placed.gather(_some, np.packbits(is_taken)) if log is not None]
    return join_parts(found)


def _some(state: LoadedPiece, bits: AnyArray) -> BanditLog | None:
    rows = taken_rows(state.part, bits)
    return None if state.log is None or not len(rows) else state.log.subset(rows)


def taken_rows(part: Part, bits: AnyArray) -> AnyArray:
    """Return the rows of a piece whose bits are set; there is one for each sample of the log."""
    own = np.unpackbits(bits[part.first // 8 : (part.first + part.n_rows + 7) // 8])
    return np.flatnonzero(own[part.first % 8 :][: part.n_rows])


def rewards(log: BanditLog) -> AnyArray:
    """Return a log's rewards."""
    return log.reward


def count_keys(sources: Sequence[tuple[Placement | BanditLog, HashRows]], n_samples: int) -> Iterator[KeyCounts]:
    """Yield the hashes of all rows with their counts, the lowest first; not all may fit into the owner's memory.

    Hashes are spread evenly over 64 bits, so equal ranges of them hold about equally many rows. Each range takes a
    pass, in which pieces hash their rows again: that costs less than keeping the hashes of all rows. ``sources`` are
    loaded pieces or a log in memory, with the hash of their rows; ``n_samples`` are the rows of all.
    """
    n_ranges = max(-(-n_samples // KEYS_AT_ONCE), 1)
    for low, end in pairwise([(idx << 64) // n_ranges for idx in range(n_ranges + 1)]):
        parts: list[KeyCounts] = []
        for source, hash_rows in sources:
            if isinstance(source, Placement):
                parts += source.gather(_counts_between, hash_rows, low, end - 1)
            else:
                parts.append(KeyCounts.of(hash_rows(source)).between(low, end - 1))
        yield KeyCounts.join(parts)


def _counts_between(state: LoadedPiece, hash_rows: HashRows, low: int, high: int) -> KeyCounts:
    if state.log is None:
        return KeyCounts.join([])
    return KeyCounts.of(hash_rows(state.log)).between(low, high)


def is_among(keys: Keys, known: Keys) -> BoolArray:
    """Return which hashes are among known ones, which are ascending."""
    at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    return known[at] == keys if len(known) else np.zeros(len(keys), bool)
