"""Sums of floats that depend on no order: every float is added, whole, to limbs of integers.

A float64 is an integer of 53 bits times a power of two, so it falls into at most three of 67 limbs of 32 bits each,
which together span all exponents. Integer additions have no order: however values are divided among blocks, threads,
pieces or machines, the limbs add up to the same, and their value is the exact sum, rounded once, as ``math.fsum`` has
it. An int64 holds a limb of two thousand million values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._limbs import INF, LIMB_BITS, LOWEST, MINUS_INF, N_LIMBS, NAN

_LOW = (1 << LIMB_BITS) - 1  # mask of a limb

Limbs = NDArray[np.int64]


def no_limbs(*shape: int) -> Limbs:
    """Return the limbs of empty sums."""
    return np.zeros((*shape, N_LIMBS), np.int64)


def limbs_of(values: Any) -> Limbs:
    """Return the sum of floats as limbs; those of several parts are added with ``+``."""
    flat = np.require(np.ravel(values), np.float64, ["C", "W"])
    limbs = no_limbs()
    try:
        from bopl._exact_kernel import add_values
    except ImportError:  # networks run without the compiled layer, too
        add_plainly(flat, np.zeros(len(flat), np.intp), limbs[None])
    else:
        add_values(flat, limbs)
    return limbs


def add_by_group(values: Any, group: Any, limbs_out: Limbs) -> None:
    """Add each float to the limbs of its group."""
    try:
        from bopl import _exact_kernel
    except ImportError:
        add_plainly(values, group, limbs_out)
    else:
        _exact_kernel.add_by_group(values, group, limbs_out)


def add_plainly(values: Any, group: Any, limbs_out: Limbs) -> None:
    """Add each float to the limbs of its group, in numpy: what the compiled additions do, several times slower."""
    values = np.asarray(values, np.float64)
    for place, is_such in ((NAN, np.isnan(values)), (INF, np.isposinf(values)), (MINUS_INF, np.isneginf(values))):
        np.add.at(limbs_out, (group[is_such], place), 1)
    is_number = np.isfinite(values)
    fraction, exponent = np.frexp(values[is_number])
    mantissa = np.ldexp(fraction, 53).astype(np.int64)  # times 2^(exponent - 53), exactly
    unit = exponent.astype(np.int64) - 53 + LOWEST
    mantissa >>= np.maximum(-unit, 0)  # subnormal numbers end in as many zeros
    at, shift = np.divmod(np.maximum(unit, 0), LIMB_BITS)
    sign, size = np.sign(mantissa), np.abs(mantissa)
    # 53 bits shifted by up to 31 span three limbs; in halves of 32 and 21 bits no shift leaves an int64.
    low, high = (size & _LOW) << shift, (size >> LIMB_BITS) << shift
    rows = group[is_number]
    np.add.at(limbs_out, (rows, at), sign * (low & _LOW))
    np.add.at(limbs_out, (rows, at + 1), sign * ((low >> LIMB_BITS) + (high & _LOW)))
    np.add.at(limbs_out, (rows, at + 2), sign * (high >> LIMB_BITS))


def value_of(limbs: Limbs) -> float:
    """Return the sum that limbs hold, rounded once."""
    if limbs[NAN] or (limbs[INF] and limbs[MINUS_INF]):
        return math.nan
    if limbs[INF] or limbs[MINUS_INF]:
        return math.inf if limbs[INF] else -math.inf
    total = 0
    # Limbs may be negative, or longer than 32 bits: carries are settled here alone, by Python's integers of any length.
    for limb in reversed(limbs[:NAN].tolist()):
        total = (total << LIMB_BITS) + limb
    try:
        return total / (1 << LOWEST)  # integers divide with one correct rounding, to nearest even
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def values_of(limbs: Limbs) -> NDArray[np.float64]:
    """Return the sums of several rows of limbs."""
    return np.array([value_of(row) for row in limbs.reshape(-1, N_LIMBS)]).reshape(limbs.shape[:-1])


def exact_sum(values: Any) -> float:
    """Return the sum of floats, rounded once: it does not depend on their order.

    >>> exact_sum(np.array([1e100, 1.0, -1e100]))
    1.0
    """
    return value_of(limbs_of(values))


def exact_mean(values: Any, weight: Any = None) -> float:
    """Return the mean of floats, or their weighted mean; a constant's is that constant, as good as."""
    if weight is None:
        return exact_sum(values) / np.size(values)
    return exact_sum(np.multiply(values, weight)) / exact_sum(weight)
