"""Histogram kernels.

A histogram position holds one int64: the gradient sum in the high 32 bits (signed) and the weight sum in the low 32
bits (never negative), both scaled to integers. One addition updates both, and integer sums do not depend on their
order.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.prefetch import prefetch

GRADIENT_BITS = 30  # sum of |gradient| in a problem stays below 2**30, so the signed high half cannot overflow
WEIGHT_BITS = 31  # sum of weights stays below 2**31, and rounding below 2**32: it never carries into the gradient
HALF = 32
LOW_MASK = np.int64((1 << HALF) - 1)
# Rows between asking for a row's codes and using them, as measured: far enough for memory to answer, near enough for
# the line to be still there. Sparse rows ask for several lines each.
AHEAD_FIXED, AHEAD_SPARSE = 24, 4
CODES_PER_LINE = 32  # of 16 bits, in a cache line of 64 bytes


@njit(nogil=True, cache=True, inline="always")
def pack(gradient, weight):  # type: ignore[no-untyped-def]
    """Put a signed gradient and a non-negative weight into one int64."""
    # Added, not combined by bits: sums of packed numbers are packed sums, also where the gradient is negative.
    return (np.int64(gradient) << HALF) + np.int64(weight)


@njit(nogil=True, cache=True)
def power_scale(total, bits):  # type: ignore[no-untyped-def]
    """Return the largest power of two ``s`` with ``total * s <= 2**bits``.

    A power of two keeps weights such as 1 or 0.5 exact, so comparisons with ``min_child_weight`` are exact for them.
    """
    if not total > 0.0:
        return 1.0
    exponent = min(bits - int(np.ceil(np.log2(total))), 1000)  # 2**1000 is finite, whatever the total
    scale = 2.0**exponent
    # A logarithm just below an integer may round up to it or past it; the comparison settles it.
    return scale if total * scale <= 2.0**bits else scale / 2.0


@njit(nogil=True, cache=True, inline="always")
def _add_codes(codes, start, end, value, histogram_out):  # type: ignore[no-untyped-def]
    """Add one row to its positions, four at a time: the loop itself costs as much as an addition."""
    whole = start + ((end - start) & ~np.uint64(3))
    k = start
    while k < whole:
        histogram_out[codes[k]] += value
        histogram_out[codes[k + np.uint64(1)]] += value
        histogram_out[codes[k + np.uint64(2)]] += value
        histogram_out[codes[k + np.uint64(3)]] += value
        k += np.uint64(4)
    while k < end:
        histogram_out[codes[k]] += value
        k += np.uint64(1)


@njit(nogil=True, cache=True)
def _add_fixed(codes, base, width, members, packed, sign, shift, histogram_out):  # type: ignore[no-untyped-def]
    """Rows of ``width`` codes. Unsigned indices spare a test for "counted from the end" at every access."""
    last = len(members) - 1
    absolute = np.int64(0)
    for j in range(len(members)):
        ahead = np.int64(members[min(j + AHEAD_FIXED, last)])
        prefetch(codes, base + ahead * width)  # type: ignore[call-arg]
        prefetch(packed, ahead)
        row = np.uint64(members[j])
        absolute += abs(packed[row] >> shift)  # an arithmetic shift gives back the gradient, its sign included
        value = packed[row] * sign
        start = np.uint64(base) + row * np.uint64(width)
        _add_codes(codes, start, start + np.uint64(width), value, histogram_out)
    return absolute


@njit(nogil=True, cache=True)
def _add_sparse(codes, row_start, members, packed, sign, shift, histogram_out):  # type: ignore[no-untyped-def]
    last = len(members) - 1
    absolute = np.int64(0)
    for j in range(len(members)):
        ahead = members[min(j + AHEAD_SPARSE, last)]
        for k in range(row_start[ahead], row_start[ahead + 1], CODES_PER_LINE):
            prefetch(codes, k)  # type: ignore[call-arg]
        row = np.uint64(members[j])
        absolute += abs(packed[row] >> shift)
        value = packed[row] * sign
        _add_codes(codes, np.uint64(row_start[row]), np.uint64(row_start[row + np.uint64(1)]), value, histogram_out)
    return absolute


@njit(nogil=True, cache=True)
def add_rows(binned, block, members, packed, sign, shift, histogram_out):  # type: ignore[no-untyped-def]
    """Add (``sign`` 1) or take away (-1) the packed sums of some rows in one block.

    Parameters
    ----------
    binned : Binned
    block : int
    members : ndarray of int32
        Rows to add.
    packed : ndarray of int64, shape (n_samples,)
    shift : int
        32 if gradient and weight are packed, 0 if ``packed`` is one of them alone.
    histogram_out : ndarray of int64, shape (n_positions,)

    Returns
    -------
    int64
        Sum of the rows' absolute integer gradients.
    """
    own = binned.block[block]
    part, width = histogram_out[own.position_start : own.position_end], own.row_width
    if width > 0:
        return _add_fixed(binned.codes, binned.block_code[block], width, members, packed, sign, shift, part)
    return _add_sparse(binned.codes, binned.row_start[block], members, packed, sign, shift, part)


@njit(nogil=True, cache=True)
def clear_columns(binned, block, is_dead, histogram_out):  # type: ignore[no-untyped-def]
    """Set the columns of a block to zero, but for those nobody will read."""
    # Rows still add to dead columns: leaving them out of the additions would cost a branch for every code.
    for c in range(np.uint64(binned.block[block].column_start), np.uint64(binned.block[block].column_end)):
        if not is_dead[c]:
            start = np.uint64(binned.column[c].start)
            for p in range(start, start + np.uint64(binned.column[c].n_bins)):
                histogram_out[p] = 0


@njit(nogil=True, cache=True)
def subtract_columns(binned, block, is_dead, child, parent_out):  # type: ignore[no-untyped-def]
    """Turn the parent's histogram into the sibling's in one block, but for columns nobody will read."""
    for c in range(np.uint64(binned.block[block].column_start), np.uint64(binned.block[block].column_end)):
        if not is_dead[c]:
            start = np.uint64(binned.column[c].start)
            for p in range(start, start + np.uint64(binned.column[c].n_bins)):
                parent_out[p] -= child[p]
