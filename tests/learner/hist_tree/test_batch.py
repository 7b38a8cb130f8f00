"""Scoring by blocks beside single traversals, and the 64-lane operations beside loops."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from bopl.learner.hist_tree import HistTree, batch, compact, predict
from bopl.learner.hist_tree.lanes import (
    LANES,
    count_bits,
    is_below,
    is_below_or_missing,
    is_equal,
    is_equal_or_missing,
    put,
)
from bopl.learner.hist_tree.predictor import stack_trees
from bopl.learner.hist_tree.traversal import score_rows
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, Tree, pack_actions
from bopl.objective import StepTarget
from hist_tree_naive import make_log, random_target


@njit
def compare_lanes(values, start, threshold):
    return (
        is_below(values, start, threshold),
        is_below_or_missing(values, start, threshold),
        is_equal(values, start, threshold),
        is_equal_or_missing(values, start, threshold),
    )


@njit
def put_lanes(values, start, value, bits):
    put(values, start, value, bits)
    return count_bits(bits)


def test_lanes_compare_like_numpy():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, 200).astype(np.float32)
    values[rng.random(200) < 0.2] = np.nan
    for start in (0, 7, 136):
        x = values[start : start + LANES]
        missing = np.isnan(x)
        expected = (x < 2, (x < 2) | missing, x == 2, (x == 2) | missing)
        for bits, truth in zip(compare_lanes(values, start, np.float32(2.0)), expected, strict=True):
            assert [int(bits) >> i & 1 for i in range(LANES)] == truth.astype(int).tolist()


def test_put_stores_where_bits_are_set():
    stored = np.arange(100, dtype=np.uint16)
    bits = np.uint64(0x8000_0000_0000_0005)
    assert put_lanes(stored, 10, np.uint16(999), bits) == 3
    expected = np.arange(100)
    expected[[10, 12, 73]] = 999
    np.testing.assert_array_equal(stored, expected)


def make_ensemble(rng, context, n_actions, n_trees=4, **settings):
    n = context.shape[0]
    bound = HistTree(7, min_child_weight=2.0, n_jobs=1, **settings).bind(make_log(context, n_actions), seed=0)
    fitted = []
    for round_idx in range(n_trees):
        gradient, weight = random_target(rng, n, n_actions)
        target = StepTarget(gradient=gradient, weight=weight)
        fitted.append(bound.fit(target, round_idx).predictor)
    return stack_trees(fitted, rng.normal(size=n_trees))


def one_by_one(ensemble, context):
    with mock.patch.object(predict, "MIN_BATCH", context.shape[0] + 1):
        return ensemble.score(context)


@pytest.mark.parametrize("n_actions", [1, 3, 70])
@pytest.mark.parametrize("n", [33, 256, 700])
def test_blocks_score_exactly_like_single_traversals(n_actions, n):
    rng = np.random.default_rng(n + n_actions)
    context = rng.normal(size=(700, 5)).astype(np.float32)
    context[:, 3] = rng.integers(0, 6, 700)
    context[rng.random(context.shape) < 0.1] = np.nan
    ensemble = make_ensemble(rng, context, n_actions, categorical=[3])
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(ensemble.score(context[:n], n_jobs=n_jobs), one_by_one(ensemble, context[:n]))


@pytest.mark.parametrize("n_actions", [1, 3, 64])
def test_compact_nodes_score_exactly_like_the_trees_they_are_made_from(n_actions):
    rng = np.random.default_rng(n_actions)
    context = rng.normal(size=(200, 5)).astype(np.float32)
    context[:, 3] = rng.integers(0, 6, 200)
    context[rng.random(context.shape) < 0.2] = np.nan
    ensemble = make_ensemble(rng, context, n_actions, n_trees=compact.MIN_TREES, categorical=[3])
    expected = np.zeros((200, n_actions))
    score_rows(context, ensemble.trees, ensemble.depth, 0, 200, expected)
    assert ensemble._compact is not None
    assert one_by_one(ensemble, context).tobytes() == expected.tobytes()


def random_tree(rng, n_features, n_actions, n_splits):
    """Return a tree that no learner would grow: splits that divide nothing, repeat each other or stand at infinity."""
    rows = []

    def grow(n_left):
        place = len(rows)
        kind = rng.integers(0, 3) if n_left else -1
        number = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, 1.5, np.inf])
        is_equal = bool(kind == 1)
        threshold = np.nan if is_equal and rng.random() < 0.3 else 0.0 if is_equal and np.isinf(number) else number
        feature = {-1: LEAF_FEATURE, 2: ACTION_SPLIT}.get(int(kind), int(rng.integers(0, n_features)))
        is_member = rng.random(n_actions) < rng.choice([0.0, 0.3, 1.0])
        row = {"feature": feature, "threshold": threshold, "is_equal": is_equal, "default_left": rng.random() < 0.5}
        rows.append(row | {"left": -1, "right": -1, "right_actions": pack_actions(is_member), "value": rng.normal()})
        if n_left:
            n_first = int(rng.integers(0, n_left))
            rows[place]["left"] = grow(n_first)
            rows[place]["right"] = grow(n_left - 1 - n_first)
        return place

    grow(n_splits)
    types = {"left": np.int32, "right": np.int32, "feature": np.int32, "threshold": np.float32}
    columns = {name: np.array([row[name] for row in rows], types.get(name)) for name in rows[0]}
    unused = dict.fromkeys(("action_feature", "action", "gain", "sum_weight"), np.zeros(len(rows)))
    return Tree(**columns, **unused, n_actions=n_actions, n_features=n_features)


@pytest.mark.parametrize("n_actions", [1, 2, 7, 8, 9, 33, 64])
def test_compact_trees_score_exactly_like_the_trees_they_are_made_from_whatever_the_trees(n_actions):
    rng = np.random.default_rng(n_actions)
    trees = [random_tree(rng, 4, n_actions, int(rng.integers(0, 25))) for _ in range(1100 // n_actions + 20)]
    ensemble = predict.flatten(trees, rng.normal(size=len(trees)))
    context = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.5, -7.0], np.float32), size=(20, 4))
    expected = np.zeros((20, n_actions))
    score_rows(context, ensemble.trees, ensemble.depth + 30, 0, 20, expected)
    assert one_by_one(ensemble, context).tobytes() == expected.tobytes()


def test_blocks_of_a_sparse_context_score_like_the_dense_one():
    rng = np.random.default_rng(1)
    context = (rng.normal(size=(500, 9)) * (rng.random((500, 9)) < 0.3)).astype(np.float32)
    ensemble = make_ensemble(rng, context, 4)
    np.testing.assert_array_equal(ensemble.score(sparse.csr_matrix(context)), ensemble.score(context))
    np.testing.assert_array_equal(ensemble.score(context), one_by_one(ensemble, context))


def test_trees_with_more_leaves_than_a_lane_can_number_are_traversed_one_by_one():
    rng = np.random.default_rng(2)
    context = rng.normal(size=(300, 3)).astype(np.float32)
    ensemble = make_ensemble(rng, context, 2)
    expected = ensemble.score(context)
    with mock.patch.object(batch, "MAX_LEAVES", 3):
        again = predict.FlatEnsemble(ensemble.trees, ensemble.n_actions, ensemble.n_features, ensemble.depth)
        assert again._batch is None
        np.testing.assert_array_equal(again.score(context), expected)


def test_a_tree_that_is_one_leaf_scores_its_value():
    context = np.zeros((40, 2), np.float32)
    bound = HistTree(3, n_jobs=1).bind(make_log(context, 1), seed=0)
    fitted = bound.fit(StepTarget(gradient=np.ones((40, 1)), weight=np.full(40, 2.0)), 0)
    np.testing.assert_array_equal(fitted.predictor.predict(context), np.full((40, 1), 0.5))
