import math

import numpy as np
import pytest

from bopl.evaluation.bootstrap import _CUMULATIVE, PoissonBootstrap, draw_counts, unit_bits

MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def naive_count(seed, unit, key):
    """The draw of one sample in one replicate, in plain integers."""
    z = (seed + (unit + 1) * 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    z ^= z >> 31
    h = ((z & MASK32) ^ key) * 0x7FEB352D & MASK32
    h = ((h ^ (h >> 15)) + (z >> 32)) & MASK32
    h = h * 0x846CA68B & MASK32
    h ^= h >> 16
    return sum(h >= round(share * 2**32) for share in _CUMULATIVE)


def naive_sums(moments, seed, keys, first_row, group=None):
    sums = np.zeros((moments.shape[1] + 1, len(keys)))
    for i, row in enumerate(moments):
        unit = first_row + i if group is None else int(group[i])
        count = np.array([naive_count(seed, unit, int(key)) for key in keys])
        sums[0] += count
        sums[1:] += row[:, None] * count
    return sums


@pytest.mark.parametrize(("n_rows", "n_moments", "n_replicates"), [(1, 1, 10), (7, 3, 11), (40, 2, 130), (3, 5, 257)])
def test_kernel_equals_plain_loop(n_rows, n_moments, n_replicates):
    moments = np.random.default_rng(0).normal(size=(n_rows, n_moments))
    bootstrap = PoissonBootstrap(n_moments, n_replicates, seed=5)
    bootstrap.add(moments, first_row=1_000_000_007)
    np.testing.assert_allclose(bootstrap.sums, naive_sums(moments, 5, bootstrap.key, 1_000_000_007), rtol=1e-13)


def test_kernel_draws_by_group():
    moments, group = np.random.default_rng(1).normal(size=(20, 2)), np.arange(20) // 3
    bootstrap = PoissonBootstrap(2, 30, seed=3)
    bootstrap.add(moments, first_row=0, group=group)
    np.testing.assert_allclose(bootstrap.sums, naive_sums(moments, 3, bootstrap.key, 0, group), rtol=1e-13)


def test_threads_do_not_change_the_result_and_blocks_only_its_rounding():
    moments = np.random.default_rng(2).normal(size=(500, 3))
    one, two, parts = (PoissonBootstrap(3, 300, seed=1, n_jobs=n_jobs) for n_jobs in (1, 2, 2))
    one.add(moments, first_row=0)
    two.add(moments, first_row=0)
    for start in range(0, 500, 77):
        parts.add(moments[start : start + 77], first_row=start)
    np.testing.assert_array_equal(one.sums, two.sums)
    np.testing.assert_allclose(parts.sums, one.sums, rtol=1e-12, atol=1e-12)


def test_shards_merge_to_the_whole():
    moments = np.random.default_rng(3).normal(size=(400, 2))
    whole, left, right = (PoissonBootstrap(2, 50, seed=9) for _ in range(3))
    whole.add(moments, first_row=0)
    left.add(moments[:150], first_row=0)
    right.add(moments[150:], first_row=150)
    left.merge(right)
    np.testing.assert_allclose(left.means(), whole.means(), rtol=1e-12, atol=1e-12)


def test_counts_are_poisson_with_mean_one():
    counts = np.empty((2000, 500), dtype=np.int32)
    keys = np.random.SeedSequence(0).generate_state(500, np.uint32)
    for row in range(2000):
        draw_counts(np.uint64(unit_bits(np.uint64(0), row)), keys, counts[row])
    n = counts.size
    for count in range(6):
        chance = math.exp(-1.0) / math.factorial(count)
        assert abs((counts == count).mean() - chance) < 4.0 * math.sqrt(chance * (1 - chance) / n)
    # Neither samples nor replicates know of each other.
    for other in (np.roll(counts, 1, axis=0), np.roll(counts, 1, axis=1), np.roll(counts, 7, axis=1)):
        assert abs(np.corrcoef(counts.ravel(), other.ravel())[0, 1]) < 4.0 / math.sqrt(n)
    np.testing.assert_allclose(counts.mean(axis=0).var() * 2000, 1.0, atol=4.0 * math.sqrt(2 / 500))
    np.testing.assert_allclose(counts.mean(axis=1).var() * 500, 1.0, atol=4.0 * math.sqrt(2 / 2000))


def test_standard_error_of_a_mean_is_reproduced():
    values = np.random.default_rng(4).gamma(1.0, size=(3000, 1))
    bootstrap = PoissonBootstrap(1, 2000, seed=0)
    bootstrap.add(values, first_row=0)
    expected = values.std() / math.sqrt(3000)
    assert bootstrap.means()[:, 0].std() == pytest.approx(expected, rel=4.0 / math.sqrt(2 * 2000))


def test_any_sensible_number_of_threads_is_taken():
    assert PoissonBootstrap(1, 10, n_jobs=-1).n_jobs == PoissonBootstrap(1, 10).n_jobs >= 1
    for n_jobs in (0, -2):
        with pytest.raises(ValueError, match=f"n_jobs must be at least 1; got {n_jobs}"):
            PoissonBootstrap(1, 10, n_jobs=n_jobs)


def test_too_few_replicates_are_refused():
    with pytest.raises(ValueError, match="n_replicates must be at least 10; got 3"):
        PoissonBootstrap(1, 3)
