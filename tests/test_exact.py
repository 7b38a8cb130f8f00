"""Exact sums beside ``math.fsum``, and beside themselves in other orders and divisions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl._exact import add_by_group, add_plainly, exact_mean, exact_sum, limbs_of, no_limbs, value_of, values_of

floats = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=200)


@settings(max_examples=200, deadline=None)
@given(floats)
def test_sum_is_rounded_once(values):
    try:
        expected = math.fsum(values)
    except OverflowError:
        return  # fsum gives up on sums that overflow on the way
    assert exact_sum(values) == expected


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 9000), st.floats(0.0, 30.0))
def test_neither_order_nor_division_changes_the_limbs(seed, n_values, spread):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n_values) * np.exp(spread * rng.normal(size=n_values))
    whole = limbs_of(values)
    parts = np.split(rng.permutation(values), np.sort(rng.integers(0, n_values + 1, 5)))
    assert value_of(sum((limbs_of(part) for part in parts), no_limbs())) == value_of(whole) == math.fsum(values)


def test_what_is_no_number_stays_so():
    assert math.isnan(exact_sum([1.0, np.nan]))
    assert math.isnan(exact_sum([np.inf, -np.inf]))
    assert exact_sum([np.inf, 1.0]) == np.inf
    assert exact_sum([-np.inf, 1.0]) == -np.inf
    assert exact_sum([1e308, 1e308]) == np.inf
    assert exact_sum([-1e308, -1e308]) == -np.inf
    assert exact_sum([]) == 0.0


def test_subnormal_numbers_count():
    values = [5e-324, 1e-310, -3e-320, 2.5e-308]
    assert exact_sum(values) == math.fsum(values)


def test_sums_by_group_are_those_of_each():
    rng = np.random.default_rng(0)
    values, group = rng.normal(size=500), rng.integers(0, 4, 500)
    limbs = no_limbs(4)
    add_by_group(values, group, limbs)
    assert values_of(limbs).tolist() == [math.fsum(values[group == k]) for k in range(4)]


def test_weighted_mean_is_that_of_numpy():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=100), rng.random(100)
    assert exact_mean(values) == pytest.approx(values.mean())
    assert exact_mean(values, weight) == pytest.approx(np.average(values, weights=weight))


@settings(deadline=None)
@given(st.lists(st.floats(width=64), max_size=30), st.integers(1, 4))
def test_additions_in_numpy_are_those_of_the_compiled_layer(values, n_groups):
    """They stand in where nothing can be compiled; NaN, infinities and subnormal numbers are counted alike."""
    values, group = np.array(values, np.float64), np.arange(len(values)) % n_groups
    compiled, plain = no_limbs(n_groups), no_limbs(n_groups)
    add_by_group(values, group, compiled)
    add_plainly(values, group, plain)
    np.testing.assert_array_equal(values_of(plain), values_of(compiled))
