"""Bins: in the order of the values, cut where XGBoost's ``hist`` cuts."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl.learner.hist_tree.binning import Summary, bin_values, fit_column, fit_columns, pruned, sketch_size

NORMAL, ROUNDED, FEW, SKEWED, HEAVY = "normal", "rounded", "few values", "skewed counts", "heavy tails"


def make_column(rng, kind, n, missing):
    values = {
        NORMAL: lambda: rng.normal(size=n),
        ROUNDED: lambda: np.round(rng.normal(size=n), 2),
        FEW: lambda: rng.integers(0, rng.choice([1, 2, 255, 256, 257, 258, 400]), n),
        SKEWED: lambda: np.floor(1000 * rng.random(n) ** 8),
        HEAVY: lambda: np.exp(5 * rng.normal(size=n)),
    }[kind]().astype(np.float32)
    values[rng.random(n) < missing] = np.nan
    return values


def xgboost_cuts(values, max_bins, n_actions):
    """Return XGBoost's cuts of a column of the expanded matrix, without its sentinels below and above all data."""
    expanded = np.repeat(values, n_actions)[:, None]
    matrix = xgb.QuantileDMatrix(expanded, np.zeros(len(expanded)), max_bin=max_bins, nthread=1)
    return matrix.get_quantile_cut()[1][1:-1]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from([NORMAL, ROUNDED, FEW, SKEWED, HEAVY]),
    n=st.sampled_from([1, 2, 3, 50, 300, 1000, 2100, 4000]),
    n_actions=st.sampled_from([1, 2, 7]),
    max_bins=st.sampled_from([2, 3, 16, 64, 255, 256]),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_cuts_are_those_of_xgboost_wherever_its_sketch_is_exact(seed, kind, n, n_actions, max_bins, missing):
    values = make_column(np.random.default_rng(seed), kind, n, missing)
    present = values[~np.isnan(values)]
    if len(present) == 0:
        return  # XGBoost makes a cut of nothing there
    room = min(max_bins, 256 - int(len(present) < n))  # a missing value has a bin of its own here
    column = fit_column(values, max_bins, n_actions=n_actions)
    held = sketch_size(n_actions * len(present), room)
    if len(present) <= 2 * held or len(np.unique(present)) <= held:
        np.testing.assert_array_equal(column.edges, xgboost_cuts(values, room, n_actions))


@pytest.mark.parametrize("n_values", [300, 5000])
def test_cuts_of_many_rows_are_those_of_xgboost_while_the_distinct_values_fit_its_sketch(n_values):
    rng = np.random.default_rng(n_values)
    values = np.floor(n_values * rng.beta(2.0, 5.0, size=40_000)).astype(np.float32)
    np.testing.assert_array_equal(fit_column(values, 256, n_actions=7).edges, xgboost_cuts(values, 256, 7))


def test_cuts_beyond_xgboosts_exact_sketch_are_at_most_its_error_apart():
    values = np.random.default_rng(1).normal(size=60_000).astype(np.float32)
    ours, theirs = fit_column(values, 256).edges, xgboost_cuts(values, 256, 1)
    rank = np.sort(values).searchsorted
    assert len(ours) == len(theirs) == 255
    # Both take the nearest of candidates 1/2048 of the rows apart, whose ranks the sketch knows as well as that.
    assert np.abs(rank(ours) - rank(theirs)).max() <= 2 * len(values) / 2048


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(1, 50), min_size=3, max_size=60),
    gaps=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    size=st.integers(3, 30),
)
def test_pruning_keeps_the_value_nearest_in_rank_to_each_goal(counts, gaps, size):
    """The naive twin: walk through the summary once for each goal."""
    start, rank = [], 0
    for count, gap in zip(counts, gaps, strict=False):  # a summary that was pruned before has gaps between its ranks
        start.append(rank)
        rank += count + gap
    end = [s + count for s, count in zip(start, counts, strict=True)]
    n = len(counts)
    kept = {0, n - 1} if n > size else set(range(n))
    for k in range(1, size - 1) if n > size else ():
        goal = np.float32(k) * np.float32(start[-1] - end[0]) / np.float32(size - 1) + np.float32(end[0])
        i = 1
        while i < n - 1 and 2 * goal >= start[i + 1] + end[i + 1]:
            i += 1
        if i < n - 1:
            kept.add(i if 2 * goal < end[i] + start[i + 1] else i + 1)
    arrays = [np.array(a, np.float32) for a in (range(n), start, end)]
    assert pruned(Summary(*arrays), size).value.tolist() == sorted(kept)


def test_every_column_of_a_matrix_is_cut_by_itself():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(900, 3)).astype(np.float32)
    for j, column in enumerate(fit_columns(context, 32, np.zeros(3, bool), n_actions=4)):
        np.testing.assert_array_equal(column.edges, fit_column(context[:, j], 32, n_actions=4).edges)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32) | st.just(float("nan")), min_size=1, max_size=60),
    max_bins=st.integers(2, 20),
)
def test_bins_are_ordered_as_the_values_are(values, max_bins):
    values = np.array(values, np.float32)
    column = fit_column(values, max_bins)
    bins = bin_values(values, column)
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    assert np.all(np.diff(bins[present][order].astype(int)) >= 0)
    assert column.n_bins <= max_bins + int(column.has_missing)
    assert np.all(bins[~present] == column.n_bins - 1)
    if len(np.unique(values[present])) <= max_bins:
        assert len(np.unique(bins[present])) == len(np.unique(values[present]))


def test_quantile_bins_hold_about_the_same_number_of_samples():
    values = np.random.default_rng(0).normal(size=20000).astype(np.float32)
    counts = np.bincount(bin_values(values, fit_column(values, 64)))
    assert len(counts) == 64
    assert counts.max() < 2 * counts.min()


def test_bin_edges_separate_neighbouring_floats():
    below = np.float32(1.0)
    above = np.nextafter(below, np.float32(2.0))
    values = np.array([below, above], np.float32)
    assert list(bin_values(values, fit_column(values, 256))) == [0, 1]


def test_too_many_categories_are_refused():
    with pytest.raises(ValueError, match="300 distinct categories"):
        fit_column(np.arange(300, dtype=np.float32), 256, is_categorical=True, name="3")
