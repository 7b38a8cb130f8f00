"""Kernels beside their plain-loop twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bopl.learner.hist_tree.binning import fit_columns
from bopl.learner.hist_tree.codes import bin_context
from bopl.learner.hist_tree.histogram import (
    HALF,
    LOW_MASK,
    add_rows,
    clear_columns,
    pack,
    power_scale,
    subtract_columns,
)
from bopl.learner.hist_tree.partition import split_members
from bopl.learner.hist_tree.storage import ORDERED


def make_context(rng, n, kind):
    if kind == "dense":
        context = rng.integers(0, 9, (n, 5)).astype(np.float32)
        context[rng.random(context.shape) < 0.1] = np.nan
    elif kind == "indicators":
        context = np.hstack([np.eye(4)[rng.integers(0, 4, n)], rng.normal(size=(n, 2))]).astype(np.float32)
    else:
        context = (rng.integers(1, 4, (n, 12)) * (rng.random((n, 12)) < 0.2)).astype(np.float32)
    return sparse.csr_matrix(context) if kind == "csr" else context


def bind(rng, n, kind):
    context = make_context(rng, n, kind)
    return bin_context(context, fit_columns(context, 256, np.zeros(context.shape[1], bool)))


@given(gradient=st.integers(-(2**30), 2**30), weight=st.integers(0, 2**32 - 1))
def test_packing_keeps_both_halves(gradient, weight):
    packed = int(pack(gradient, weight))
    assert packed >> HALF == gradient
    assert packed & int(LOW_MASK) == weight


@given(total=st.floats(1e-250, 1e250), bits=st.integers(20, 62))
def test_power_scale_is_the_largest_power_of_two_that_fits(total, bits):
    scale = power_scale(total, bits)
    assert total * scale <= 2.0**bits
    assert total * scale > 2.0 ** (bits - 2) or scale >= 2.0**999


@pytest.mark.parametrize("kind", ["dense", "indicators", "sparse", "csr"])
def test_histogram_equals_a_loop_over_the_codes_and_siblings_add_up(kind):
    rng = np.random.default_rng(1)
    n = 300
    binned = bind(rng, n, kind)
    arrays = binned.arrays
    packed = (rng.integers(-50, 50, n) << HALF) + rng.integers(0, 50, n)
    rows = np.sort(rng.permutation(n)[:200]).astype(np.int32)
    child, parent, direct = (np.zeros(binned.n_positions, np.int64) for _ in range(3))
    for block in range(len(arrays.block)):
        add_rows(arrays, block, rows, packed, 1, HALF, parent)
        add_rows(arrays, block, rows[:80], packed, 1, HALF, child)
        add_rows(arrays, block, rows[80:], packed, 1, HALF, direct)
    naive = np.zeros_like(parent)
    for row in rows:
        if arrays.block["row_width"][0] > 0:
            start = row * arrays.block["row_width"][0]
            codes = arrays.codes[start : start + arrays.block["row_width"][0]]
        else:
            codes = arrays.codes[arrays.row_start[0, row] : arrays.row_start[0, row + 1]]
        for code in codes:
            naive[code] += packed[row]
    np.testing.assert_array_equal(parent, naive)
    is_dead = np.zeros(len(arrays.column), bool)
    is_dead[0] = True
    before = parent.copy()
    for block in range(len(arrays.block)):
        subtract_columns(arrays, block, is_dead, child, parent)
        clear_columns(arrays, block, is_dead, child)
    dead = slice(arrays.column[0]["start"], arrays.column[0]["start"] + arrays.column[0]["n_bins"])
    np.testing.assert_array_equal(parent[dead], before[dead])  # a column nobody reads is left as it is
    assert not np.delete(child, np.arange(dead.start, dead.stop)).any()
    direct[dead] = parent[dead]
    np.testing.assert_array_equal(parent, direct)


@pytest.mark.parametrize("kind", ["dense", "indicators", "sparse", "csr"])
def test_rows_go_to_the_side_that_the_raw_split_sends_them_to(kind):
    rng = np.random.default_rng(2)
    n = 200
    context = make_context(np.random.default_rng(3), n, kind)
    binned = bin_context(context, fit_columns(context, 256, np.zeros(context.shape[1], bool)))
    dense = context.toarray() if kind == "csr" else context
    arrays, splits = binned.arrays, binned.splits
    rows = np.sort(rng.permutation(n)[:150]).astype(np.int32)
    for column in arrays.column:
        first = column["start"] + column["first"]
        has_missing = column["missing"] >= 0  # the missing bin itself is no split
        for position in range(first, column["start"] + column["n_bins"] - has_missing):
            for default_left in (False, True):
                if default_left and column["kind"] != ORDERED:
                    continue
                members = rows.copy()
                n_left = split_members(arrays, position, default_left, members, np.empty_like(rows))
                x = dense[rows, splits.feature[position]]
                expected = np.where(np.isnan(x), default_left, x < splits.threshold[position])
                np.testing.assert_array_equal(members[:n_left], rows[expected])
                np.testing.assert_array_equal(members[n_left:], rows[~expected])


def test_mutually_exclusive_indicators_share_one_column():
    binned = bind(np.random.default_rng(4), 100, "indicators")
    assert len(binned.arrays.column) == 3
    assert set(binned.splits.feature) == {0, 1, 2, 3, 4, 5}
