"""The bins of a column whose values are spread over pieces, from counts alone, as they are in memory.

A column of few distinct values is counted value by value. One of many is narrowed down: floats are turned into integers
of the same order, counted by their leading bits, and of the blocks of values only those are counted more finely in
which a rank lies that the cuts are chosen by. After a few passes these ranks are known to the value, and the rest was
never listed. A piece sorts its values once, and keeps them for all passes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl._typing import AnyArray
from bopl.learner.hist_tree.binning import (
    MAX_BINS,
    RANK_DTYPE,
    SKETCH_FACTOR,
    ColumnBins,
    ColumnCounts,
    Summary,
    bins_from,
    prune,
    pruned,
    sketch_size,
)

MAX_LISTED = 1 << 16  # distinct values that are counted one by one; no sketch holds as many
#: Trailing bits that the values of a block have in common, pass by pass. A sketch of a large log looks for tens of
#: thousands of ranks, and so for most blocks of the first pass: two bits at a time, a pass never lists more than four
#: times the blocks that are needed, where five bits would list nearly every value of the log.
SHIFTS = (10, 8, 6, 4, 2, 0)

Keys = NDArray[np.uint32]


def order_keys(values: NDArray[np.float32]) -> Keys:
    """Return integers in the order of the values, none of which is NaN."""
    # Bits of positive floats order as the floats do, those of negative ones the other way round: flip all bits of the
    # latter, and the sign bit of the former. Adding zero makes the two zeros one value.
    bits = (values + np.float32(0.0)).view(np.uint32)
    return np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))


def key_values(keys: Keys) -> NDArray[np.float32]:
    """Return the values of `order_keys`."""
    bits = np.where(keys >> np.uint32(31), keys & np.uint32((1 << 31) - 1), ~keys)
    return bits.astype(np.uint32).view(np.float32)


@dataclass(frozen=True)
class Blocks:
    """Values in blocks of neighbours: the first key of each block, ascending, and how many values it holds."""

    first: Keys
    count: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Keys, count: NDArray[np.int64], shift: int) -> Blocks:
        """Return ascending keys, with their counts, in blocks that agree in all but some trailing bits."""
        first = keys >> np.uint32(shift) << np.uint32(shift)
        if len(first) == 0:
            return cls(first, count.astype(np.int64))
        begin = np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1]]))
        return cls(first[begin], np.add.reduceat(count, begin, dtype=np.int64))

    def __add__(self, other: Blocks) -> Blocks:
        n = len(self.first) + len(other.first)
        first, count = np.empty(n, np.uint32), np.empty(n, np.int64)
        both = (_read_only(array) for array in (self.first, self.count, other.first, other.count))
        n = _merge(*both, first, count)
        return Blocks(first[:n].copy(), count[:n].copy())  # as long as they are


@njit(nogil=True, cache=True)
def _merge(first, count, other_first, other_count, first_out, count_out):  # type: ignore[no-untyped-def]
    """Merge ascending blocks, and return how many there are."""
    i, j, n = 0, 0, 0
    while i < len(first) or j < len(other_first):
        is_first = j >= len(other_first) or (i < len(first) and first[i] <= other_first[j])
        block, number = (first[i], count[i]) if is_first else (other_first[j], other_count[j])
        if n > 0 and first_out[n - 1] == block:
            count_out[n - 1] += number
        else:
            first_out[n], count_out[n] = block, number
            n += 1
        if is_first:
            i += 1
        else:
            j += 1
    return n


@dataclass(frozen=True)
class ColumnTally:
    """What a first pass finds of a column: all values with their counts, or blocks of them; parts are added."""

    listed: ColumnCounts | None
    blocks: Blocks | None = None
    n_missing: int = 0
    # Lowest and highest value, each with its count.
    ends: tuple[tuple[float, int], tuple[float, int]] = ((np.inf, 0), (-np.inf, 0))

    @classmethod
    def of(cls, counts: ColumnCounts) -> ColumnTally:
        """Return the tally of counted values."""
        if len(counts.distinct) <= MAX_LISTED:
            return cls(counts)
        value, count, n_missing = _present(counts)
        ends = ((float(value[0]), int(count[0])), (float(value[-1]), int(count[-1])))
        return cls(None, Blocks.of(order_keys(value), count, SHIFTS[0]), n_missing, ends)

    def __add__(self, other: ColumnTally) -> ColumnTally:
        if self.listed is not None and other.listed is not None:
            return ColumnTally.of(self.listed + other.listed)
        one, two = self._in_blocks(), other._in_blocks()
        assert one.blocks is not None
        assert two.blocks is not None
        ends = (_joined(one.ends[0], two.ends[0], min), _joined(one.ends[1], two.ends[1], max))
        return ColumnTally(None, one.blocks + two.blocks, one.n_missing + two.n_missing, ends)

    def _in_blocks(self) -> ColumnTally:
        if self.listed is None:
            return self
        value, count, n_missing = _present(self.listed)
        blocks = Blocks.of(order_keys(value), count, SHIFTS[0])
        if not len(value):
            return ColumnTally(None, blocks, n_missing)
        ends = ((float(value[0]), int(count[0])), (float(value[-1]), int(count[-1])))
        return ColumnTally(None, blocks, n_missing, ends)


def _present(counts: ColumnCounts) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    has_missing = bool(len(counts.distinct)) and bool(np.isnan(counts.distinct[-1]))
    if not has_missing:
        return counts.distinct, counts.count, 0
    return counts.distinct[:-1], counts.count[:-1], int(counts.count[-1])


def _joined(one: tuple[float, int], other: tuple[float, int], choose: Any) -> tuple[float, int]:
    value = choose(one[0], other[0])
    return value, sum(count for end, count in (one, other) if end == value)


@dataclass(frozen=True)
class Finer:
    """The blocks of a column that are to be counted more finely."""

    needed: Keys  # first keys of the blocks, ascending
    shift: int  # trailing bits in which the values of a block may differ now
    finer: int  # the same of the finer blocks


@dataclass(frozen=True)
class CountedKeys:
    """The distinct values of a piece's column as ascending keys, missing ones left out, and how often each occurs.

    It is kept from pass to pass, so that values are sorted once: ``count`` is None if no value occurs twice.
    """

    keys: Keys
    count: NDArray[np.uint32] | None

    @classmethod
    def of(cls, counts: ColumnCounts) -> CountedKeys:
        """Return counted values as keys."""
        value, count, _ = _present(counts)
        return cls(order_keys(value), None if count.max(initial=1) == 1 else count.astype(np.uint32))

    def refined(self, asked: Finer) -> Blocks:
        """Return the values of some blocks of one shift in the blocks of a finer one."""
        n = len(self.keys)
        first, found = np.empty(n, np.uint32), np.empty(n, np.int64)
        count = np.zeros(0, np.uint32) if self.count is None else self.count
        arrays = (_read_only(array) for array in (self.keys, count, asked.needed))
        n = _refine(*arrays, np.uint32(asked.shift), np.uint32(asked.finer), first, found)
        return Blocks(first[:n].copy(), found[:n].copy())


@njit(nogil=True, cache=True)
def _refine(keys, count, needed, shift, finer, first_out, count_out):  # type: ignore[no-untyped-def]
    """Count the values of the needed blocks in finer ones, and return how many there are."""
    at, n = 0, 0
    for i in range(len(keys)):
        block = keys[i] >> shift << shift
        while at < len(needed) and needed[at] < block:
            at += 1
        if at == len(needed):
            break
        if needed[at] != block:
            continue
        first, number = keys[i] >> finer << finer, np.int64(1) if len(count) == 0 else np.int64(count[i])
        if n > 0 and first_out[n - 1] == first:
            count_out[n - 1] += number
        else:
            first_out[n], count_out[n] = first, number
            n += 1
    return n


def _read_only(array: AnyArray) -> AnyArray:
    view = array.view()  # arrays of both kinds come, and each would be compiled for
    view.flags.writeable = False
    return view


def find_bins(
    tally: ColumnTally, max_bins: int, *, n_actions: int = 1, is_categorical: bool = False, name: str = ""
) -> Generator[Finer, Blocks, ColumnBins]:
    """Find the bins of a column; see `fit_column`.

    A generator: it asks for refined blocks (see `CountedKeys`), is sent them added up over all pieces, and returns the
    bins, so that one pass over the pieces serves many columns.

    Parameters
    ----------
    tally : ColumnTally
        Of all values.
    max_bins, n_actions, is_categorical, name
        As for `fit_column`.
    """
    if tally.listed is not None or is_categorical:
        if tally.listed is None:
            raise ValueError(
                f"categorical column {name} has more than {MAX_LISTED:,} distinct categories; merge rare categories or "
                "pass the column as an ordered one."
            )
        return bins_from(tally.listed, max_bins, n_actions=n_actions, is_categorical=is_categorical, name=name)
    has_missing = tally.n_missing > 0
    max_values = min(max_bins, MAX_BINS - int(has_missing))
    low, high = tally.ends[0][0], tally.ends[1][0]
    cuts = yield from _narrowed_cuts(tally, max_values, n_actions)
    return ColumnBins(cuts, False, has_missing, low, high)


def _narrowed_cuts(tally: ColumnTally, max_bins: int, n_actions: int) -> Generator[Finer, Blocks, NDArray[np.float32]]:
    assert tally.blocks is not None
    blocks, n_pairs = tally.blocks, n_actions * int(tally.blocks.count.sum())
    size = sketch_size(n_pairs, max_bins)
    goal = _goals(tally, size, n_pairs, n_actions)
    is_fine = np.ones(len(blocks.first), bool)  # blocks of the finest shift so far
    # Each pass divides the blocks in which a goal may lie by 32, so two more passes reach single values. Blocks that
    # are left coarse keep their counts: they move ranks of later ones, but none of their own values is ever looked at.
    for shift, finer in zip(SHIFTS, (*SHIFTS[1:], None), strict=True):
        is_needed = _needed(blocks, n_actions, goal) & is_fine
        if finer is None:
            is_fine = is_needed
            break
        found = yield Finer(blocks.first[is_needed], shift, finer)
        first = np.concatenate([blocks.first[~is_needed], found.first])
        count = np.concatenate([blocks.count[~is_needed], found.count])
        fine = np.concatenate([np.zeros(len(first) - len(found.first), bool), np.ones(len(found.first), bool)])
        order = np.argsort(first, kind="stable")
        blocks, is_fine = Blocks(first[order], count[order]), fine[order]
    end = np.cumsum(n_actions * blocks.count)
    start = end - n_actions * blocks.count
    summary = Summary(
        key_values(blocks.first[is_fine]), start[is_fine].astype(RANK_DTYPE), end[is_fine].astype(RANK_DTYPE)
    )
    summary = prune(summary, size)  # the whole summary is longer than that
    for size in (min(n_pairs, SKETCH_FACTOR * max_bins), max_bins + 1):
        summary = pruned(summary, size)
    return summary.value[1:max_bins].astype(np.float32)


def _goals(tally: ColumnTally, size: int, n_pairs: int, n_actions: int) -> NDArray[np.float32]:
    """Return twice the ranks that `prune` looks for."""
    first_end = RANK_DTYPE(n_actions * tally.ends[0][1])
    last_start = RANK_DTYPE(n_pairs - n_actions * tally.ends[1][1])
    step = np.arange(1, size - 1).astype(RANK_DTYPE)
    # The very expression of `prune`, in the same precision: a goal that rounds otherwise would pick another value.
    goal = step * (last_start - first_end) / RANK_DTYPE(size - 1) + first_end
    return goal + goal


def _needed(blocks: Blocks, n_actions: int, doubled: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the blocks with values that `prune` may look at: ranks are rounded, so more than one for each goal."""
    end = np.cumsum(n_actions * blocks.count)
    highest = end.astype(RANK_DTYPE) + end.astype(RANK_DTYPE)
    start = (end - n_actions * blocks.count).astype(RANK_DTYPE)
    first = np.maximum(np.searchsorted(highest, doubled, side="right") - 1, 0)
    last = np.minimum(np.searchsorted(start + start, doubled, side="right"), len(end) - 1)
    # Ranges [first, last] of all goals at once: +1 where one begins, -1 behind its end, and a running sum.
    change = np.zeros(len(end) + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    needed = np.cumsum(change[:-1]) > 0
    needed[:2] = needed[-2:] = True  # the ends, and their neighbours
    return needed
