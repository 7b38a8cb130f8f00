"""Contexts stored in another order are the same contexts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bopl.learner.hist_tree import HistTree, locality
from bopl.learner.hist_tree.binning import fit_columns
from bopl.learner.hist_tree.codes import bin_context
from bopl.learner.hist_tree.locality import find_order, order_by
from bopl.learner.hist_tree.rows import take, take_rows
from hist_tree_naive import fit_tree, random_target


def bin_all(context):
    return bin_context(context, fit_columns(context, 256, np.zeros(context.shape[1], bool)))


def make_context(rng, n, kind):
    if kind == "dense":
        return rng.integers(0, 9, (n, 5)).astype(np.float32)
    context = (rng.integers(1, 4, (n, 12)) * (rng.random((n, 12)) < 0.2)).astype(np.float32)
    return sparse.csr_matrix(context) if kind == "csr" else context


def codes_of(arrays, block, row):
    width = arrays.block["row_width"][block]
    if width > 0:
        start = arrays.block_code[block] + row * width
        return arrays.codes[start : start + width]
    return arrays.codes[arrays.row_start[block, row] : arrays.row_start[block, row + 1]]


@pytest.mark.parametrize("kind", ["dense", "sparse", "csr"])
def test_each_place_holds_the_codes_and_bins_of_its_row(kind):
    rng = np.random.default_rng(0)
    binned = bin_all(make_context(rng, 200, kind))
    order = order_by(rng.integers(0, 10, 200))
    stored = take_rows(binned, order.row).arrays
    for place, row in enumerate(order.row):
        for block in range(len(stored.block)):
            np.testing.assert_array_equal(codes_of(stored, block, place), codes_of(binned.arrays, block, row))
    np.testing.assert_array_equal(stored.part_bins, binned.arrays.part_bins[:, order.row])


def test_place_and_row_undo_each_other():
    rng = np.random.default_rng(1)
    order = order_by(rng.integers(0, 5, 100))
    values, stored, back = rng.random(100), np.empty(100), np.empty(100)
    take(values, order.row, stored)
    take(stored, order.place, back)
    np.testing.assert_array_equal(stored, values[order.row])
    np.testing.assert_array_equal(back, values)


def test_contexts_of_one_leaf_of_the_reward_tree_lie_together(monkeypatch):
    monkeypatch.setattr(locality, "MIN_CONTEXTS", 1)
    context = np.random.default_rng(2).integers(0, 4, (2000, 2)).astype(np.float32)
    order = find_order(bin_all(context), 10.0 * context[:, 1].astype(np.float64) + context[:, 0], 1)
    assert np.all(np.diff(context[order.row, 1]) >= 0.0)
    by_group = (10.0 * context[:, 1] + context[:, 0])[order.row]
    assert np.count_nonzero(np.diff(by_group)) == 15  # 16 groups, each in one run


def test_few_contexts_stay_in_the_order_of_the_log():
    assert find_order(bin_all(np.zeros((10, 2), np.float32)), np.arange(10.0), 1) is None


@pytest.mark.parametrize("settings", [{}, {"subsample": 0.5}, {"max_leaves": 12}, {"min_samples_leaf": 20}])
def test_the_order_changes_nothing_but_the_rounding_of_leaves(settings, monkeypatch):
    rng = np.random.default_rng(3)
    context = rng.integers(0, 30, (3000, 4)).astype(np.float32)
    target = random_target(rng, 3000, 3)
    mask = rng.random((3000, 3)) < 0.8
    mask[:, 0] = True
    learner = HistTree(7, min_child_weight=5.0, **settings)
    plain = fit_tree(learner, context, *target, mask)
    monkeypatch.setattr(locality, "MIN_CONTEXTS", 1)
    ordered = fit_tree(learner, context, *target, mask)
    np.testing.assert_array_equal(ordered.predictor.tree.feature, plain.predictor.tree.feature)
    np.testing.assert_allclose(ordered.prediction, plain.prediction, rtol=1e-12, atol=1e-15)
