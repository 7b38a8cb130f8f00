"""One thread's working memory, and the slots of its histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.node import NO_SLOT
from bopl.learner.hist_tree.problem import ACTION_SUMS, ActionFloats
from bopl.learner.hist_tree.split import SplitScratch, make_split_scratch
from bopl.learner.hist_tree.storage import BinnedContext


class Slots(NamedTuple):
    """Which histograms are free: the first ``n_free[0]`` entries of ``free``, the last of them taken next."""

    free: NDArray[np.int64]  # (n_slots,)
    n_free: NDArray[np.int64]  # (1,)


class ScanScratch(NamedTuple):
    """What the search for splits needs; apart, because every array that a kernel is given costs a call some time."""

    allowed: NDArray[np.bool_]  # (2, n_features), for the smaller and the larger child
    is_dead: NDArray[np.bool_]  # (n_slots, n_histogram_columns): columns that can split neither a node nor those below
    sides: SplitScratch


class Scratch(NamedTuple):
    """One thread's working memory; arrays by row have an entry for every context."""

    members: NDArray[np.int32]  # rows of the problem, those of an open node side by side
    buffer: NDArray[np.int32]
    row_gradient: NDArray[np.float64]  # sums over the problem's actions
    row_weight: NDArray[np.float64]
    packed: NDArray[np.int64]  # the same as integers; gradients alone in a wide scale
    pairs: NDArray[np.int64]  # used if min_samples_leaf is above 1, otherwise empty
    histogram: NDArray[np.int64]  # (n_slots, n_positions)
    pair_histogram: NDArray[np.int64]  # (n_slots, n_positions), or no slots
    slots: Slots
    scan: ScanScratch
    action_sums: NDArray[Any]  # (n_slots + 1, n_actions) of ACTION_SUMS; the last slot is spare
    action_floats: ActionFloats  # those of one node


def make_scratch(binned: BinnedContext, n_rows: int, n_actions: int, *, has_count: bool) -> Scratch:
    """Allocate one thread's working memory for problems of up to ``n_rows`` contexts."""
    n_columns, n_positions = len(binned.arrays.column), binned.n_positions
    n_slots = int(np.log2(max(n_rows, 2))) + 3  # the smaller child goes first, so open histograms halve in rows
    return Scratch(
        members=np.empty(n_rows, np.int32),
        buffer=np.empty(n_rows, np.int32),
        row_gradient=np.empty(n_rows, np.float64),
        row_weight=np.empty(n_rows, np.float64),
        packed=np.empty(n_rows, np.int64),
        pairs=np.empty(n_rows if has_count else 0, np.int64),
        histogram=np.empty((n_slots, n_positions), np.int64),
        pair_histogram=np.empty((n_slots if has_count else 0, n_positions), np.int64),
        slots=Slots(np.empty(n_slots, np.int64), np.zeros(1, np.int64)),
        scan=ScanScratch(
            allowed=np.ones((2, max(len(binned.columns), 1)), np.bool_),
            is_dead=np.zeros((n_slots, n_columns), np.bool_),
            sides=make_split_scratch(binned),
        ),
        action_sums=np.zeros((n_slots + 1, n_actions), ACTION_SUMS),
        action_floats=make_action_floats(n_actions),
    )


def make_action_floats(n_actions: int) -> ActionFloats:
    """Return sums by action that are all zero."""
    return ActionFloats(np.zeros(n_actions), np.zeros(n_actions), np.zeros(n_actions))


@njit(nogil=True, cache=True)
def free_all(slots_out):  # type: ignore[no-untyped-def]
    """Free every slot; the first is taken next."""
    n_slots = len(slots_out.free)
    for k in range(n_slots):
        slots_out.free[k] = n_slots - 1 - k
    slots_out.n_free[0] = n_slots


@njit(nogil=True, cache=True)
def take_slot(slots_out):  # type: ignore[no-untyped-def]
    """Take a free slot."""
    slots_out.n_free[0] -= 1
    return slots_out.free[slots_out.n_free[0]]


@njit(nogil=True, cache=True)
def give_slot(slot, slots_out):  # type: ignore[no-untyped-def]
    """Free a slot, if it is one."""
    if slot >= 0:
        slots_out.free[slots_out.n_free[0]] = slot
        slots_out.n_free[0] += 1


@njit(nogil=True, cache=True)
def child_slots(slot, small_goes, large_goes, is_dead_out, slots_out):  # type: ignore[no-untyped-def]
    """Return a slot for each child that may split, the parent's for one of them; what is dead stays so."""
    # The larger child keeps the parent's slot, whose histogram becomes its own by subtraction.
    if large_goes and small_goes:
        small_slot = take_slot(slots_out)
        is_dead_out[small_slot] = is_dead_out[slot]
        return small_slot, slot
    if large_goes:
        return np.int64(NO_SLOT), slot
    if small_goes:
        return slot, np.int64(NO_SLOT)
    give_slot(slot, slots_out)
    return np.int64(NO_SLOT), np.int64(NO_SLOT)
