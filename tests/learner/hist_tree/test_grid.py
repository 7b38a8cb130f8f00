"""Sums on a grid: as good as exact, and the same in every order."""

import math

import numpy as np
import pytest
from numba import njit

from bopl.learner.hist_tree.grid import largest_of, make_grid, off_grid, on_grid


@njit
def sum_on(values, grid):
    total_high, total_low = np.int64(0), np.int64(0)
    for value in values:
        high, low = on_grid(value, grid)
        total_high += high
        total_low += low
    return total_high, total_low, off_grid(total_high, total_low, grid)


@pytest.mark.parametrize("size", [1e-200, 1e-3, 1.0, 1e50])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_neither_order_nor_division_changes_a_sum_of_full_precision(size, spread):
    rng = np.random.default_rng(0)
    values = size * rng.normal(size=3000) * np.exp(spread * rng.normal(size=3000))
    grid = make_grid(float(np.abs(values).max()), len(values))
    high, low, total = sum_on(values, grid)
    assert sum_on(rng.permutation(values), grid) == (high, low, total)
    parts = [sum_on(part, grid) for part in np.split(values, [0, 1, 1700])]
    assert (sum(part[0] for part in parts), sum(part[1] for part in parts)) == (high, low)
    assert total == pytest.approx(math.fsum(values), rel=1e-14, abs=1e-16 * np.abs(values).sum())


def test_values_a_million_million_times_smaller_than_the_largest_are_not_lost():
    grid = make_grid(1.0, 20_000_000)
    values = 1e-12 * np.random.default_rng(0).random(1000)
    assert sum_on(values, grid)[2] == pytest.approx(math.fsum(values), rel=1e-6)


def test_as_many_of_the_largest_as_there_may_be_fit():
    grid = make_grid(3.0, 1 << 20)
    assert sum_on(np.full(1 << 20, -3.0), grid)[2] == -3.0 * (1 << 20)


def test_largest_is_that_of_absolute_values():
    assert largest_of(np.array([[1.0, -5.0], [2.0, 0.0]])) == 5.0
    assert largest_of(np.zeros((2, 0))) == 0.0
