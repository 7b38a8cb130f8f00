"""Compiled additions of floats to limbs; see `bopl._exact`, which needs them only once something is added."""

from __future__ import annotations

import math

import numpy as np

from bopl._kernel import njit

NAN, INF, MINUS_INF = 67, 68, 69  # places of the counts, as in `bopl._exact`
BLOCK = 4096  # values that `add_block` takes at once: so many of 50 bits fit an int64
_MIN_FAST, _MAX_FAST = 200, 1900  # biased exponents with room for three limbs below and the shift above


@njit(nogil=True, cache=True, inline="always")
def add_to(limbs_out, value):  # type: ignore[no-untyped-def]
    """Add one float to its limbs."""
    bits = np.float64(value).view(np.uint64)
    exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
    if exponent == np.uint64(0x7FF):
        add_special(limbs_out, value)
        return
    mantissa = bits & np.uint64(0xFFFFFFFFFFFFF)
    if exponent == np.uint64(0):
        exponent = np.uint64(1)  # subnormal: no hidden bit
    else:
        mantissa |= np.uint64(0x10000000000000)
    at, shift = exponent >> np.uint64(5), exponent & np.uint64(31)
    low = np.int64((mantissa << shift) & np.uint64(0xFFFFFFFF))
    above = mantissa >> (np.uint64(32) - shift)
    middle, high = np.int64(above & np.uint64(0xFFFFFFFF)), np.int64(above >> np.uint64(32))
    sign = np.int64(1) - np.int64(bits >> np.uint64(63)) * np.int64(2)
    limbs_out[at] += sign * low
    limbs_out[at + np.uint64(1)] += sign * middle
    limbs_out[at + np.uint64(2)] += sign * high


@njit(nogil=True, cache=True)
def add_special(limbs_out, value):  # type: ignore[no-untyped-def]
    """Count what is no number."""
    limbs_out[NAN if np.isnan(value) else INF if value > 0.0 else MINUS_INF] += 1


@njit(nogil=True, cache=True)
def add_block(values, limbs_out):  # type: ignore[no-untyped-def]
    """Add at most ``BLOCK`` floats, which are overwritten, to limbs: several at a time where exponents allow it.

    Adding ``1.5 · 2^52`` units of a limb rounds a value to that limb's units and leaves their number in the low bits.
    What is left over goes to the limb below, and after three limbs, where it is not zero, to its limbs one by one.
    """
    largest = np.int64(0)
    bits = values.view(np.int64)
    for i in range(len(bits)):
        largest = max(largest, bits[i] & np.int64(0x7FFFFFFFFFFFFFFF))
    exponent = largest >> 52
    if exponent < _MIN_FAST or exponent > _MAX_FAST:
        for i in range(len(values)):
            add_to(limbs_out, values[i])
        return
    top = (exponent + 3 + 31) >> 5  # the least limb in which every value is below 2^50 units
    for at in range(top, top - 3, -1):
        shift = math.ldexp(1.5, 32 * at - 1023)
        total = np.int64(0)
        for i in range(len(values)):
            shifted = values[i] + shift
            total += np.float64(shifted).view(np.int64)
            values[i] -= shifted - shift
        total -= np.int64(len(values)) * np.float64(shift).view(np.int64)
        limbs_out[at] += total & np.int64(0xFFFFFFFF)
        limbs_out[at + 1] += total >> 32
    for i in range(len(values)):
        if values[i] != 0.0:
            add_to(limbs_out, values[i])


@njit(nogil=True, cache=True)
def add_values(values, limbs_out):  # type: ignore[no-untyped-def]
    """Add floats to limbs."""
    for start in range(0, len(values), BLOCK):
        add_block(values[start : start + BLOCK].copy(), limbs_out)


@njit(nogil=True, cache=True)
def add_by_group(values, group, limbs_out):  # type: ignore[no-untyped-def]
    """Add each float to the limbs of its group."""
    for i in range(len(values)):
        add_to(limbs_out[group[i]], values[i])
