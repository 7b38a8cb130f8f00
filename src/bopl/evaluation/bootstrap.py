"""The Poisson bootstrap: every sample is drawn Poisson(1) times in every replicate.

The draw of sample i in replicate b is a hash of (seed, i, b). So nothing is stored, a shard needs to know only the
numbers of its rows, and the result depends neither on the threads nor on the blocks. All policies and estimators see
the same draws, which is what makes their differences paired.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads
from bopl._kernel import njit
from bopl._settings import check_number
from bopl._typing import FloatArray, IntArray

LANES = 128  # replicates of a task: their draws and sums stay in the first-level cache
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MULTIPLY_1, MULTIPLY_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)  # Wellons' 32-bit finaliser
# A draw is the number of thresholds at or below a uniform 32-bit number. Nine and more, one draw in a million, count
# as eight; dividing by the sum of the draws takes out what little this changes.
_CUMULATIVE = np.cumsum([math.exp(-1.0) / math.factorial(count) for count in range(8)])
T0, T1, T2, T3, T4, T5, T6, T7 = (np.uint32(round(share * 2**32)) for share in _CUMULATIVE)


@njit(nogil=True, cache=True, inline="always")
def unit_bits(seed, unit):  # type: ignore[no-untyped-def]
    """Return 64 bits that depend on the seed and the number of a sample or group (splitmix64)."""
    z = np.uint64(seed) + (np.uint64(unit) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def draw_counts(bits, replicate_key, count_out):  # type: ignore[no-untyped-def]
    """Draw Poisson(1) counts of one sample in many replicates; plain 32-bit steps, so that they become vector code."""
    low, high = np.uint32(bits), np.uint32(bits >> np.uint64(32))
    for b in range(len(replicate_key)):
        h = np.uint32(low ^ replicate_key[b])
        h = np.uint32(h * MULTIPLY_1)
        h = np.uint32(h ^ np.uint32(h >> np.uint32(15)))
        h = np.uint32(h + high)
        h = np.uint32(h * MULTIPLY_2)
        h = np.uint32(h ^ np.uint32(h >> np.uint32(16)))
        count = np.uint32(h >= T0) + np.uint32(h >= T1) + np.uint32(h >= T2) + np.uint32(h >= T3)
        count += np.uint32(h >= T4) + np.uint32(h >= T5) + np.uint32(h >= T6) + np.uint32(h >= T7)
        count_out[b] = np.int32(count)


@njit(nogil=True, cache=True)
def add_rows(seed, first_row, group, moments, replicate_key, count, sum_out):  # type: ignore[no-untyped-def]
    """Add rows to the re-weighted sums of some replicates.

    Parameters
    ----------
    first_row : int
        Number of the first row in the whole log; samples are drawn by their number …
    group : ndarray of int64, shape (n_rows,) or (0,)
        … or, if there are groups, by the number of their group.
    moments : ndarray of shape (n_rows, n_moments)
    replicate_key : ndarray of uint32, shape (n_replicates,)
    count : ndarray of int32, shape (n_replicates,)
        Room for the draws of one row.
    sum_out : ndarray of shape (n_moments + 1, n_replicates)
        The first row counts the draws.
    """
    has_group = len(group) > 0
    n_replicates = len(replicate_key)
    for i in range(len(moments)):
        draw_counts(unit_bits(seed, group[i] if has_group else first_row + i), replicate_key, count)
        drawn = sum_out[0]
        for b in range(n_replicates):
            drawn[b] += count[b]
        for k in range(moments.shape[1]):
            moment, total = moments[i, k], sum_out[k + 1]
            for b in range(n_replicates):
                total[b] += moment * count[b]


class PoissonBootstrap:
    """Re-weighted sums of moments in many replicates, taken block by block.

    ``n_jobs`` threads, by default and for -1 all cores, do not change the result.
    """

    def __init__(self, n_moments: int, n_replicates: int = 1000, seed: int = 0, n_jobs: int | None = None) -> None:
        check_number("n_replicates", n_replicates, low=10, integer=True)
        if n_jobs not in (None, -1):
            check_number("n_jobs", n_jobs, low=1, integer=True)
        self.n_jobs = n_jobs if n_jobs not in (None, -1) else os.cpu_count() or 1
        self.seed = np.uint64(seed)
        self.key: NDArray[Any] = np.random.SeedSequence([seed, 1]).generate_state(n_replicates, np.uint32)
        self.sums = np.zeros((n_moments + 1, n_replicates))

    def add(self, moments: FloatArray, *, first_row: int, group: IntArray | None = None) -> None:
        """Add rows of moments, of shape (n_rows, n_moments); ``first_row`` is the number of the first in the log."""
        units = np.empty(0, dtype=np.int64) if group is None else group.astype(np.int64)
        columns = np.ascontiguousarray(moments, dtype=np.float64)

        def run(start: int) -> None:
            lanes = slice(start, min(start + LANES, len(self.key)))
            sums = np.zeros((len(self.sums), lanes.stop - lanes.start))
            room = np.empty(sums.shape[1], dtype=np.int32)
            add_rows(self.seed, first_row, units, columns, self.key[lanes], room, sums)
            self.sums[:, lanes] += sums  # sums of a block first: fewer additions of small to large numbers

        starts = range(0, len(self.key), LANES)
        if self.n_jobs == 1 or len(starts) == 1:
            for start in starts:
                run(start)
            return
        with Threads(self.n_jobs) as threads:
            threads.each(run, starts)

    def merge(self, other: PoissonBootstrap) -> None:
        """Add the sums of another shard with the same seed and other rows."""
        self.sums += other.sums

    def means(self) -> FloatArray:
        """Return the means of the moments in every replicate, of shape (n_replicates, n_moments)."""
        drawn = self.sums[0]
        return np.where(drawn > 0.0, self.sums[1:] / np.maximum(drawn, 1.0), np.nan).T
