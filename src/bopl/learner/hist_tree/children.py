"""Histograms of a node's two children, and the best splits they show.

Only the smaller child's rows are added up: the larger one's histogram is what is left of the parent's. All of it is
done block by block, while the block's histograms are in cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, add_rows, clear_columns, subtract_columns
from bopl.learner.hist_tree.node import NodeSums
from bopl.learner.hist_tree.split import Histogram, scan_block

SMALLER, LARGER = 0, 1  # places of the children in what is kept for both
PACKED, WIDE, PAIRS = 0, 1, 2  # tables of a `Histogram`, and the values of rows that are added to them


class RowIntegers(NamedTuple):
    """The integers of each row, (n_samples,); ``wide`` and ``pairs`` as in `Histogram`."""

    packed: NDArray[np.int64]
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]


class Child(NamedTuple):
    """A child of a node that is being split on its contexts; its rows are ``Scratch.members[start:end]``."""

    start: Any  # int64
    end: Any
    path: Any
    node: Any  # its place in the table of nodes
    slot: Any  # of its histogram; `NO_SLOT` if it is a leaf
    sums: NodeSums


@njit(nogil=True, cache=True)
def _sum_block(binned, block, rows, values, shift, slots, is_dead, table_out):  # type: ignore[no-untyped-def]
    """Sum one block of one table for both children; return the sum of the smaller child's absolute values.

    ``table_out`` is (n_slots, n_positions); the larger child's slot has the parent's histogram before. A child without
    a slot is a leaf and needs none, so that the smaller child's rows are then taken off the parent's in place.
    """
    small_slot, large_slot = slots
    if small_slot < 0:
        return add_rows(binned, block, rows, values, -1, shift, table_out[large_slot])
    clear_columns(binned, block, is_dead[small_slot], table_out[small_slot])
    absolute = add_rows(binned, block, rows, values, 1, shift, table_out[small_slot])
    if large_slot >= 0:
        subtract_columns(binned, block, is_dead[large_slot], table_out[small_slot], table_out[large_slot])
    return absolute


@njit(nogil=True, cache=True, inline="always")
def _scan_child(binned, block, child, rule, allowed, tables, scratch, is_dead_out, split_out):  # type: ignore[no-untyped-def]
    slot = child.slot
    if slot >= 0:
        packed = tables.packed[slot]
        wide = tables.wide[slot] if rule.is_wide else packed
        pairs = tables.pairs[slot] if rule.min_pairs > 1 else packed
        histogram = Histogram(packed, wide, pairs)
        scan_block(binned, block, child.sums, rule, histogram, allowed, scratch, is_dead_out[slot], split_out)


@njit(nogil=True, cache=True)
def scan_children(binned, rule, rows, integers, small, large, scratch, tables_out, splits_out):  # type: ignore[no-untyped-def]
    """Sum up both children's histograms and look for their splits.

    Parameters
    ----------
    binned : Binned
    rule : SplitRule
    rows : ndarray of int32
        Those of the smaller child.
    integers : RowIntegers
    small, large : Child
    scratch : ScanScratch
        ``is_dead`` is brought up to date.
    tables_out : Histogram of ndarray of int64, shape (n_slots, n_positions)
        The larger child's slot has the parent's histogram before.
    splits_out : ndarray of SPLIT, shape (2,)
        The best split so far of the smaller and of the larger child.

    Returns
    -------
    int64
        Sum of the smaller child's absolute gradients.
    """
    absolute = np.int64(0)
    slots, is_dead, allowed, sides = (small.slot, large.slot), scratch.is_dead, scratch.allowed, scratch.sides
    for block in range(len(binned.block)):
        for table in range(len(tables_out)):  # a single call for all: three of them would not be inlined
            if (table == WIDE and not rule.is_wide) or (table == PAIRS and rule.min_pairs <= 1):
                continue
            shift = HALF if table == PACKED and not rule.is_wide else 0
            summed = _sum_block(binned, block, rows, integers[table], shift, slots, is_dead, tables_out[table])
            absolute = summed if table == PACKED else absolute
        _scan_child(binned, block, small, rule, allowed[SMALLER], tables_out, sides, is_dead, splits_out[SMALLER])
        _scan_child(binned, block, large, rule, allowed[LARGER], tables_out, sides, is_dead, splits_out[LARGER])
    return absolute


@njit(nogil=True, cache=True)
def scan_node(binned, sums, rule, histogram, allowed, scratch, is_dead_out, splits_out):  # type: ignore[no-untyped-def]
    """Look for the best split of a single node from its histogram; it is written to ``splits_out[0]``."""
    for block in range(len(binned.block)):
        scan_block(binned, block, sums, rule, histogram, allowed, scratch, is_dead_out, splits_out[0])
