"""Dividing a node's rows between its children.

Indices are unsigned: a signed one costs a test for "counted from the end" at every access.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit

NONE_EXEMPT = 1 << 20  # instead of a bin that goes left whatever the split: no column has so many


@njit(nogil=True, cache=True)
def _find_bin(codes, start, end, part):  # type: ignore[no-untyped-def]
    """Return the bin of one column in a row of ascending codes, the common bin if it has none."""
    # Halving without a branch to mispredict: both selections compile to conditional moves.
    first = part.first_code
    size = end - start
    while size > 0:
        half = size >> 1
        is_below = codes[start + half] < first
        start = start + half + 1 if is_below else start
        size = size - half - 1 if is_below else half
    if start < end and codes[start] < first + part.n_codes:
        return np.int64(codes[start]) - first + part.first_bin
    return part.common


@njit(nogil=True, cache=True)
def split_members(binned, position, default_left, members_out, buffer_out):  # type: ignore[no-untyped-def]
    """Reorder rows so that the left child's come first, each side in its old order; return how many they are.

    A split compares one bin: equal goes right (one against the rest), or above it goes right. Missing
    values have the last bin, so they go right unless ``default_left``.
    """
    # Stable on both sides, so that rows of a node stay ascending: memory is read in order, and `are_neighbours` can
    # tell a run of rows by its ends. One loop for each kind of test: a test inside would be a branch for every row.
    split = binned.position[position]
    part, bin_idx, is_equal = split.part, np.int64(split.bin), split.is_equal
    exempt = binned.part[part].missing if default_left else np.int64(NONE_EXEMPT)
    if len(binned.part_bins) == 0:
        n_right = _split_searched(binned, part, bin_idx, is_equal, exempt, members_out, buffer_out)
    elif exempt >= 0 and exempt != NONE_EXEMPT:
        n_right = _split_exempt(binned.part_bins[part], bin_idx, exempt, members_out, buffer_out)
    elif is_equal:
        n_right = _split_equal(binned.part_bins[part], bin_idx, members_out, buffer_out)
    else:
        n_right = _split_above(binned.part_bins[part], bin_idx, members_out, buffer_out)
    n_left = len(members_out) - np.int64(n_right)
    members_out[n_left:] = buffer_out[: np.int64(n_right)]
    return n_left


@njit(nogil=True, cache=True)
def _split_above(bins, bin_idx, members_out, buffer_out):  # type: ignore[no-untyped-def]
    """Close the left side up in place and put the right side into the buffer, without a branch per row."""
    # Every row is written to both sides and one of the two ends moves on: what the other side wrote is overwritten by
    # the next row. In place it is safe because the left end, j - n_right, is never ahead of j.
    n_right = np.uint64(0)
    last_left = np.uint8(bin_idx)
    for j in range(np.uint64(len(members_out))):
        row = members_out[j]
        members_out[j - n_right] = row
        buffer_out[n_right] = row
        n_right += np.uint64(bins[np.uint64(row)] > last_left)
    return n_right


@njit(nogil=True, cache=True)
def _split_exempt(bins, bin_idx, exempt, members_out, buffer_out):  # type: ignore[no-untyped-def]
    """As ``_split_above``, with the missing bin going left."""
    n_right = np.uint64(0)
    for j in range(np.uint64(len(members_out))):
        row = members_out[j]
        value = np.int64(bins[np.uint64(row)])
        members_out[j - n_right] = row
        buffer_out[n_right] = row
        n_right += np.uint64((value > bin_idx) & (value != exempt))
    return n_right


@njit(nogil=True, cache=True)
def _split_equal(bins, bin_idx, members_out, buffer_out):  # type: ignore[no-untyped-def]
    n_right = np.uint64(0)
    for j in range(np.uint64(len(members_out))):
        row = members_out[j]
        members_out[j - n_right] = row
        buffer_out[n_right] = row
        n_right += np.uint64(np.int64(bins[np.uint64(row)]) == bin_idx)
    return n_right


@njit(nogil=True, cache=True)
def _split_searched(binned, part, bin_idx, is_equal, exempt, members_out, buffer_out):  # type: ignore[no-untyped-def]
    """As above for CSR contexts, whose bins are found in the codes of the row."""
    column = binned.part[part]
    starts = binned.row_start[column.block]
    n_right = np.uint64(0)
    for j in range(np.uint64(len(members_out))):
        row = members_out[j]
        value = _find_bin(binned.codes, starts[row], starts[row + 1], column)
        members_out[j - n_right] = row
        buffer_out[n_right] = row
        n_right += np.uint64(value == bin_idx if is_equal else (value > bin_idx) & (value != exempt))
    return n_right
