"""The unit in which rewards are summed up: sums of fourth powers of rewards neither overflow nor vanish in it."""

from __future__ import annotations

import math

import numpy as np

from bopl._typing import FloatArray

STEP = 100  # units are powers of 2**STEP, so that nearly all logs, and shards of one log, have the unit 1
MAX_EXPONENT = 1000


def reward_unit(reward: FloatArray) -> float:
    """Return the power of ``2**100`` (about 1e30) that is nearest to the largest reward; 1 for rewards of usual size.

    A power of two: dividing by it rounds nothing, so that rewards of any size give the same verdict and the same
    interval, but for the factor.
    """
    largest = float(np.abs(reward).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    exponent = STEP * round(math.log2(largest) / STEP)
    return math.ldexp(1.0, max(-MAX_EXPONENT, min(exponent, MAX_EXPONENT)))


def in_unit(reward: FloatArray, unit: float) -> FloatArray:
    """Return rewards in a unit."""
    return reward if unit == 1.0 else reward / unit


def check_unit(largest: float, unit: float, what: str) -> None:
    """Raise one sentence if rewards that came later, up to ``largest`` in units, are far from the first ones."""
    if largest > 0.0 and not 2.0**-STEP <= largest <= 2.0**STEP:
        raise ValueError(
            f"{what} of the parts of the log differ in size by a factor of more than 1e30: the largest is "
            f"{largest * unit:g}, while the first part has rewards of about {unit:g}. Are all of them in one unit?"
        )
