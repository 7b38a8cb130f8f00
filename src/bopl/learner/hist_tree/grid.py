"""Sums of floats without an order, for the kernels: two grids of a round instead of limbs for every exponent.

The largest value of a round and the number of contexts are known before it begins, and neither depends on an order.
They set a coarse grid on which all sums of a round fit an int64, and below it a fine one for what rounding to the first
leaves. A value becomes two integers, at the price of a few additions that compile to vector code; integers add up to
the same in any order and any division of the rows. The fine unit is 72 bits below the largest value for twenty million
contexts, 100 bits for a thousand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bopl._kernel import njit
from bopl._limbs import TO_INTEGER

MAX_BITS = 50  # a value's integer: adding `TO_INTEGER` units must not carry
SUM_BITS = 61  # a sum's: int64 less the sign and a bit for rounding
MIN_EXPONENT, MAX_EXPONENT = -800, 900  # of the largest value: 100 bits below and 52 above must be normal floats


class Grid(NamedTuple):
    """A coarse and a fine unit, and for each the number that rounds to it when it is added: `TO_INTEGER` units."""

    high_shift: float
    low_shift: float
    high_unit: float
    low_unit: float


def make_grid(largest: float, n_terms: int) -> Grid:
    """Return the grid of sums of at most ``n_terms`` values that are at most ``largest``.

    >>> grid = make_grid(3.0, 1000)
    >>> math.log2(grid.high_unit), math.log2(grid.low_unit)
    (-48.0, -98.0)
    """
    exponent = min(max(math.frexp(largest)[1], MIN_EXPONENT), MAX_EXPONENT) if math.isfinite(largest) else MAX_EXPONENT
    # n_terms integers of so many bits add up to at most SUM_BITS: no sum overflows, in whatever order it is taken.
    bits = min(MAX_BITS, SUM_BITS - max(n_terms - 1, 1).bit_length())
    high, low = math.ldexp(1.0, exponent - bits), math.ldexp(1.0, exponent - 2 * bits)
    return Grid(TO_INTEGER * high, TO_INTEGER * low, high, low)


@njit(nogil=True, cache=True, inline="always")
def on_grid(value, grid):  # type: ignore[no-untyped-def]
    """Return a value as two integers."""
    # The sum's bits less those of the shift are the value in coarse units: an addition and a subtraction of integers,
    # where a conversion from float to int64 has no vector instruction on most processors.
    top = value + grid.high_shift
    left = (value - (top - grid.high_shift)) + grid.low_shift  # what the coarse grid leaves is exact, then rounded once
    high = np.float64(top).view(np.int64) - np.float64(grid.high_shift).view(np.int64)
    return high, np.float64(left).view(np.int64) - np.float64(grid.low_shift).view(np.int64)


@njit(nogil=True, cache=True, inline="always")
def off_grid(high, low, grid):  # type: ignore[no-untyped-def]
    """Return the value of two integers."""
    return float(high) * grid.high_unit + float(low) * grid.low_unit


@njit(nogil=True, cache=True)
def largest_of(values):  # type: ignore[no-untyped-def]
    """Return the largest absolute value of a matrix."""
    largest = 0.0
    for row in range(values.shape[0]):
        for value in values[row]:
            largest = max(largest, abs(value))
    return largest
