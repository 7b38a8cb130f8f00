"""Sums of moments: merged they are the whole, and what they say of the spread is what the influences say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kurtosis, skew

from bopl.evaluation.moments import GroupSum, MomentSum


def draw_moments(seed, n=80):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.5, size=(n, 1 + seed % 5)) * 10.0 ** (seed % 7) + seed


def plain_products(moments):
    """Centred products of one to four columns, as full arrays."""
    c = moments - moments.mean(axis=0)
    return (
        np.einsum("ni,nj->ij", c, c),
        np.einsum("ni,nj,nk->ijk", c, c, c),
        np.einsum("ni,nj,nk,nl->ijkl", c, c, c, c),
    )


@pytest.mark.parametrize("seed", range(5))
def test_products_of_pairs_are_the_plain_products(seed):
    moments = draw_moments(seed)
    whole = MomentSum.of(moments)
    scatter, third, fourth = plain_products(moments)
    pairs = [(i, j) for i in range(moments.shape[1]) for j in range(i, moments.shape[1])]
    np.testing.assert_allclose(whole.scatter, scatter, rtol=1e-10, atol=1e-10 * np.abs(scatter).max())
    for row, (i, j) in enumerate(pairs):
        np.testing.assert_allclose(whole.third[row], third[i, j], atol=1e-10 * np.abs(third).max())
        for column, (k, l) in enumerate(pairs):  # noqa: E741
            assert whole.fourth[row, column] == pytest.approx(fourth[i, j, k, l], abs=1e-10 * np.abs(fourth).max())


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 79), max_size=4))
def test_shards_merge_to_the_whole(seed, cuts):
    moments = draw_moments(seed)
    whole, merged = MomentSum.of(moments), MomentSum.empty(moments.shape[1])
    for part in np.split(moments, sorted(set(cuts))):
        merged = merged + MomentSum.of(part)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    for name in ("scatter", "third", "fourth"):
        mine, theirs = getattr(merged, name), getattr(whole, name)
        np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=1e-11 * np.abs(theirs).max())


def test_empty_shard_changes_nothing():
    whole = MomentSum.of(np.random.default_rng(0).normal(size=(9, 2)))
    for merged in (whole + MomentSum.empty(2), MomentSum.empty(2) + whole):
        np.testing.assert_array_equal(merged.fourth, whole.fourth)


@given(seed=st.integers(0, 1000))
def test_spread_is_that_of_the_influences(seed):
    moments = draw_moments(seed, n=60)
    gradient = np.random.default_rng(seed).normal(size=moments.shape[1])
    influence = (moments - moments.mean(axis=0)) @ gradient
    spread = MomentSum.of(moments).spread(gradient)
    assert spread.std_err == pytest.approx(influence.std(ddof=1) / np.sqrt(60), rel=1e-9)
    assert spread.skewness == pytest.approx(skew(influence) / np.sqrt(60), rel=1e-6, abs=1e-9)
    assert spread.kurtosis == pytest.approx(kurtosis(influence, fisher=False) / 60, rel=1e-6)


@given(
    values=st.lists(st.sampled_from([0.0, 1.0, -1.0, 1e-8, 3.7, 1e6]), min_size=2, max_size=30),
    gradient=st.sampled_from([1.0, -2.0, 1e-9, 1e9]),
)
def test_spread_stays_in_its_range_whatever_the_samples(values, gradient):
    spread = MomentSum.of(np.array(values)[:, None]).spread(np.array([gradient]))
    assert spread.std_err >= 0.0
    assert -1.0 <= spread.skewness <= 1.0
    assert 1.0 / len(values) <= spread.kurtosis <= 1.0
    assert 0.0 < spread.degrees_of_freedom <= spread.residual_degrees_of_freedom <= len(values) - 1


def test_degrees_of_freedom_are_n_less_one_for_normal_samples_and_few_for_few_rewards():
    rng = np.random.default_rng(0)
    normal = MomentSum.of(rng.normal(size=(4000, 1))).spread(np.ones(1))
    assert normal.degrees_of_freedom == pytest.approx(3999, rel=0.1)
    rare = MomentSum.of((np.arange(4000) < 25).astype(float)[:, None]).spread(np.ones(1))
    assert rare.degrees_of_freedom == pytest.approx(2 * 25, rel=0.05)
    assert 1.0 / rare.kurtosis == pytest.approx(25, rel=0.05)


def test_degrees_of_freedom_match_the_scatter_of_the_variance():
    """A variance with d degrees of freedom has relative variance 2/d."""
    rng = np.random.default_rng(1)
    logs = rng.exponential(size=(2000, 1000))
    relative = logs.var(axis=1, ddof=1).var() / logs.var() ** 2
    found = [MomentSum.of(log[:, None]).spread(np.ones(1)).degrees_of_freedom for log in logs[:300]]
    assert np.median(found) == pytest.approx(2.0 / relative, rel=0.25)


def test_residual_degrees_of_freedom_match_the_scatter_of_the_variance_about_its_regression_on_the_mean():
    rng = np.random.default_rng(2)
    logs = rng.exponential(size=(4000, 1000))
    mean, variance = logs.mean(axis=1), logs.var(axis=1, ddof=1)
    residual = variance - np.polyval(np.polyfit(mean, variance, 1), mean)
    found = [MomentSum.of(log[:, None]).spread(np.ones(1)).residual_degrees_of_freedom for log in logs[:300]]
    assert np.median(found) == pytest.approx(2.0 / (residual.var() / logs.var() ** 2), rel=0.25)


def test_all_of_the_variance_of_zeros_and_ones_moves_with_their_mean():
    spread = MomentSum.of((np.arange(4000) < 25).astype(float)[:, None]).spread(np.ones(1))
    assert spread.residual_degrees_of_freedom == pytest.approx(3999)


def test_groups_of_one_sample_give_the_spread_of_independent_samples():
    moments = np.random.default_rng(1).normal(size=(50, 3))
    gradient = np.array([1.0, -2.0, 0.5])
    groups = GroupSum(3)
    groups.add(moments[:20], np.arange(20))
    groups.add(moments[20:], np.arange(20, 50))
    whole = MomentSum.of(moments)
    grouped, alone = groups.spread(gradient, whole.mean), whole.spread(gradient)
    for name in ("std_err", "skewness", "kurtosis", "n_units"):
        assert getattr(grouped, name) == pytest.approx(getattr(alone, name), rel=1e-12)


def test_copies_in_a_group_count_once():
    rows = np.random.default_rng(2).normal(size=(40, 1))
    copied, group = np.repeat(rows, 5, axis=0), np.repeat(np.arange(40), 5)
    groups = GroupSum(1)
    groups.add(copied, group)
    once = MomentSum.of(rows).spread(np.ones(1))
    grouped = groups.spread(np.ones(1), copied.mean(axis=0))
    assert grouped.std_err == pytest.approx(once.std_err, rel=1e-12)
    assert grouped.degrees_of_freedom == pytest.approx(once.degrees_of_freedom, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_terms_that_cancel_but_for_rounding_do_not_look_certain(seed):
    rng = np.random.default_rng(seed)
    weight, noise = rng.gamma(2.0, size=2000), rng.normal(size=2000)
    for offset in (1e6, 1e8, 1e10):
        total = MomentSum.of(np.column_stack([weight * (offset + noise), weight]))
        least = np.std(weight * noise) / np.sqrt(2000.0)
        assert total.spread(np.array([1.0, -offset])).std_err > 0.9 * least
