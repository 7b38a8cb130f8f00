"""Compiled hashes of contexts; see `bopl.log.identical`, which says the same in numpy."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.log.identical import MULTIPLIER

_ABSOLUTE, _INFINITE, _NAN = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x7FC00000)  # bits of float32


@njit(nogil=True, cache=True)
def add_entry_keys(words, columns, salts, keys_out):  # type: ignore[no-untyped-def]
    """Add the hashes of some columns' entries to the key of every row.

    Parameters
    ----------
    words : ndarray of uint32, shape (n_samples, n_features)
        Bits of the contexts.
    columns : ndarray of int64
    salts : ndarray of uint64
        Hash of each of these columns.
    keys_out : ndarray of uint64, shape (n_samples,)
    """
    for i in range(len(words)):
        keys_out[i] += row_key(words[i], columns, salts)


@njit(nogil=True, cache=True)
def write_keys_without(words, columns, salts, total, keys_out):  # type: ignore[no-untyped-def]
    """Write the keys of rows without some of their columns; ``total`` is the sum of the hashes of all entries."""
    for i in range(len(words)):
        keys_out[i] = mix(total[i] - row_key(words[i], columns, salts))


@njit(nogil=True, cache=True, inline="always")
def row_key(row, columns, salts):  # type: ignore[no-untyped-def]
    """Return the sum of the hashes of a row's entries in some columns."""
    total = np.uint64(0)
    for k in range(len(columns)):
        bits = row[columns[k]]
        if bits & _ABSOLUTE != np.uint32(0):  # zeros of both signs have none
            total += mix(salts[k] + np.uint64(_NAN if bits & _ABSOLUTE > _INFINITE else bits))
    return total


@njit(nogil=True, cache=True, inline="always")
def mix(key):  # type: ignore[no-untyped-def]
    """Return a number that is spread over all 64 bits."""
    key = (key ^ (key >> np.uint64(31))) * MULTIPLIER
    return key ^ (key >> np.uint64(29))
