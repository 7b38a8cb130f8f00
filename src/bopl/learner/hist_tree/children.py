"""Histograms of a node's two children, and the best splits they show.

Only the smaller child's rows are added up: the larger one's histogram is what is left of the parent's. All of it is
done block by block, while the block's histograms are in cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, add_rows, clear_columns, subtract_columns
from bopl.learner.hist_tree.split import Histogram, ScannedNode, scan_block

SMALLER, LARGER = 0, 1  # places of the children in what is kept for both
PACKED, WIDE, PAIRS = 0, 1, 2  # tables of a `Histogram`, and the values of rows that are added to them


class RowIntegers(NamedTuple):
    """The integers of each row, (n_samples,); ``wide`` and ``pairs`` as in `Histogram`."""

    packed: NDArray[np.int64]
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _sum_block(binned, block, rows, values, shift, slots, is_dead, table_out):  # type: ignore[no-untyped-def]
    """Sum one block of one table for both children; return the sum of the smaller child's absolute values.

    ``table_out`` is (n_slots, n_positions); the larger child's slot has the parent's histogram before. A child without
    a slot is a leaf and needs none, so that the smaller child's rows are then taken off the parent's in place.
    """
    small_slot, large_slot = slots
    if small_slot < 0:  # one pass over the rows where there would be a sum and a subtraction
        return add_rows(binned, block, rows, values, -1, shift, table_out[large_slot])
    clear_columns(binned, block, is_dead[small_slot], table_out[small_slot])
    absolute = add_rows(binned, block, rows, values, 1, shift, table_out[small_slot])
    if large_slot >= 0:
        subtract_columns(binned, block, is_dead[large_slot], table_out[small_slot], table_out[large_slot])
    return absolute


@njit(nogil=True, cache=True, inline="always")
def _scan_child(binned, block, rule, child, which, tables, scratch_out, splits_out):  # type: ignore[no-untyped-def]
    """Look for a better split of one child, `SMALLER` or `LARGER`, in one block; a leaf has no slot and needs none."""
    slot = child.slot
    if slot >= 0:
        # Rules that do not read a table get ``packed`` in its place: the tables they would index are empty.
        packed = tables.packed[slot]
        wide = tables.wide[slot] if rule.is_wide else packed
        pairs = tables.pairs[slot] if rule.min_pairs > 1 else packed
        node = ScannedNode(child.sums, Histogram(packed, wide, pairs), scratch_out.allowed[which])
        scan_block(binned, block, rule, node, scratch_out.sides, scratch_out.is_dead[slot], splits_out[which])


@njit(nogil=True, cache=True)
def scan_children(binned, rule, rows, integers, children, scratch_out, tables_out, splits_out):  # type: ignore[no-untyped-def]
    """Sum up both children's histograms and look for their splits.

    Parameters
    ----------
    binned : Binned
    rule : SplitRule
    rows : ndarray of int32
        Those of the smaller child.
    integers : RowIntegers
    children : tuple of Child
        The smaller and the larger one.
    scratch_out : ScanScratch
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
    small, large = children
    slots, is_dead = (small.slot, large.slot), scratch_out.is_dead
    # Blocks outside, children inside: a block's histograms of both children are still in cache when they are scanned.
    for block in range(len(binned.block)):
        for table in range(len(tables_out)):  # a single call for all: three of them would not be inlined
            if (table == WIDE and not rule.is_wide) or (table == PAIRS and rule.min_pairs <= 1):
                continue
            shift = HALF if table == PACKED and not rule.is_wide else 0
            summed = _sum_block(binned, block, rows, integers[table], shift, slots, is_dead, tables_out[table])
            absolute = (
                summed if table == PACKED else absolute
            )  # every block counts the same rows: the last one's will do
        _scan_child(binned, block, rule, small, SMALLER, tables_out, scratch_out, splits_out)
        _scan_child(binned, block, rule, large, LARGER, tables_out, scratch_out, splits_out)
    return absolute


@njit(nogil=True, cache=True)
def scan_node(binned, sums, rule, histogram, allowed, scratch, is_dead_out, splits_out):  # type: ignore[no-untyped-def]
    """Look for the best split of a single node from its histogram; it is written to ``splits_out[0]``."""
    node = ScannedNode(sums, histogram, allowed)
    for block in range(len(binned.block)):
        scan_block(binned, block, rule, node, scratch, is_dead_out, splits_out[0])
