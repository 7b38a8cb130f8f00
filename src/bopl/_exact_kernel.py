"""Compiled additions of floats to limbs; see `bopl._exact`, which needs them only once something is added."""

from __future__ import annotations

import math

import numpy as np

from bopl._kernel import njit
from bopl._limbs import INF, MINUS_INF, NAN

BLOCK = 4096  # values that `add_block` takes at once: so many of 50 bits fit an int64
_MIN_FAST, _MAX_FAST = 200, 1900  # biased exponents with room for three limbs below and the shift above
# Fields of a float64: the sign in bit 63, the exponent in bits 52 to 62, the mantissa below.
_EXPONENT, _MANTISSA, _HIDDEN_BIT = np.uint64(0x7FF), np.uint64((1 << 52) - 1), np.uint64(1 << 52)
_LOW = np.uint64((1 << 32) - 1)  # mask of a limb


@njit(nogil=True, cache=True, inline="always")
def add_to(value, limbs_out):  # type: ignore[no-untyped-def]
    """Add one float to its limbs."""
    bits = np.float64(value).view(np.uint64)
    exponent = (bits >> np.uint64(52)) & _EXPONENT
    if exponent == _EXPONENT:
        add_special(value, limbs_out)
        return
    mantissa = bits & _MANTISSA
    if exponent == np.uint64(0):
        exponent = np.uint64(1)  # subnormal: no hidden bit
    else:
        mantissa |= _HIDDEN_BIT
    # A biased exponent e means mantissa · 2^(e - 1075), and limb 0 counts units of 2^-1075: e is the shift, 32 a limb.
    at, shift = exponent >> np.uint64(5), exponent & np.uint64(31)
    low = np.int64((mantissa << shift) & _LOW)
    above = mantissa >> (np.uint64(32) - shift)  # not (mantissa << shift) >> 32, which loses bits above the 64th
    middle, high = np.int64(above & _LOW), np.int64(above >> np.uint64(32))
    sign = np.int64(1) - np.int64(bits >> np.uint64(63)) * np.int64(2)
    limbs_out[at] += sign * low
    limbs_out[at + np.uint64(1)] += sign * middle
    limbs_out[at + np.uint64(2)] += sign * high


@njit(nogil=True, cache=True)
def add_special(value, limbs_out):  # type: ignore[no-untyped-def]
    """Count what is not a number."""
    limbs_out[NAN if np.isnan(value) else INF if value > 0.0 else MINUS_INF] += 1


@njit(nogil=True, cache=True)
def add_block(values, limbs_out):  # type: ignore[no-untyped-def]
    """Add at most ``BLOCK`` floats, which are overwritten, to limbs: several at a time where exponents allow it.

    Adding ``1.5 · 2^52`` units of a limb rounds a value to that limb's units and leaves their number in the low bits.
    What is left over goes to the limb below, and after three limbs, where it is not zero, to its limbs one by one.
    """
    # Bits of absolute values order as the values do, and NaN and infinities come last: they leave by the slow way, too.
    largest = np.int64(0)
    bits = values.view(np.int64)
    for i in range(len(bits)):
        largest = max(largest, bits[i] & np.int64(0x7FFFFFFFFFFFFFFF))
    exponent = largest >> 52
    if exponent < _MIN_FAST or exponent > _MAX_FAST:
        for i in range(len(values)):
            add_to(values[i], limbs_out)
        return
    top = (exponent + 3 + 31) >> 5  # the least limb in which every value is below 2^50 units
    for at in range(top, top - 3, -1):
        # 1.5 · 2^52 units of this limb, the unit being 2^(32 at - 1075); see `bopl._limbs.TO_INTEGER`.
        shift = math.ldexp(1.5, 32 * at - 1023)
        total = np.int64(0)
        for i in range(len(values)):
            shifted = values[i] + shift
            total += np.float64(shifted).view(np.int64)
            values[i] -= shifted - shift  # exact: at most half a unit is left
        total -= np.int64(len(values)) * np.float64(shift).view(np.int64)
        # The sum of 4096 numbers of 50 bits has up to 62; divided over two limbs it leaves each room for 2^31 blocks.
        limbs_out[at] += total & np.int64(0xFFFFFFFF)
        limbs_out[at + 1] += total >> 32
    for i in range(len(values)):
        if values[i] != 0.0:
            add_to(values[i], limbs_out)


@njit(nogil=True, cache=True)
def add_values(values, limbs_out):  # type: ignore[no-untyped-def]
    """Add floats to limbs."""
    for start in range(0, len(values), BLOCK):
        add_block(values[start : start + BLOCK].copy(), limbs_out)


@njit(nogil=True, cache=True)
def add_by_group(values, group, limbs_out):  # type: ignore[no-untyped-def]
    """Add each float to the limbs of its group."""
    for i in range(len(values)):
        add_to(values[i], limbs_out[group[i]])
