import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bopl
from bopl.log.identical import decision_keys
from bopl.log.row_sketch import SIZE, KeyCounts, RowSketch


def draw_log(seed, n=20_000, distinct=None):
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 3)) if distinct is None else rng.integers(distinct, size=(n, 3)).astype(float)
    return bopl.BanditLog(context, rng.integers(4, size=n), rng.random(n), np.full(n, 0.25), actions=range(4))


def joined(left, right):
    return bopl.BanditLog(
        np.vstack([left.context, right.context]),
        np.append(left.action, right.action),
        np.append(left.reward, right.reward),
        np.append(left.propensity, right.propensity),
    )


def share(sketch, log):
    return sketch.shared_share(*sketch.count_shared(log, np.arange(4)))


@pytest.mark.parametrize("size", [1000, 20_000, 200_000])
def test_share_of_known_rows_is_found_from_a_few_hashes(size):
    seen, other = draw_log(0, n=size), draw_log(1, n=size)
    sketch = RowSketch.of(seen)
    assert len(sketch.lowest) <= SIZE
    assert share(sketch, other) == 0.0
    assert share(sketch, seen) == 1.0
    assert share(sketch, joined(seen, other)) == pytest.approx(0.5, abs=0.06)
    assert share(sketch, seen.subset(np.arange(0, size, 10))) == 1.0


def test_rows_that_are_alike_by_chance_are_not_taken_for_known_ones():
    for distinct in (2, 4, 12, 30):
        for seed in range(5):
            assert share(RowSketch.of(draw_log(seed, distinct=distinct)), draw_log(seed + 50, distinct=distinct)) == 0.0


def test_the_very_same_log_is_known_even_if_all_rows_are_alike():
    log = bopl.BanditLog(np.ones((300, 1)), np.arange(300) % 2, np.arange(300) % 3, np.full(300, 0.5))
    sketch = RowSketch.of(log)
    assert sketch.alike == 1.0
    assert sketch.is_same(log)
    assert not sketch.is_same(log.subset(np.arange(300)[::-1]))
    assert not sketch.is_same(log.translated(1.0))


def test_rows_are_known_whether_they_are_stored_sparse_or_dense():
    log = draw_log(3, n=5000, distinct=40)
    log = bopl.BanditLog(np.where(log.context > 20, log.context, 0.0), log.action, log.reward, log.propensity)
    sparse = bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity)
    np.testing.assert_array_equal(decision_keys(log), decision_keys(sparse))
    assert RowSketch.of(sparse).is_same(log)


def test_logs_that_were_watched_are_part_of_the_sketch():
    train, watched, other = (draw_log(seed, n=3000) for seed in (4, 5, 6))
    sketch = RowSketch.of(train, watched)
    assert share(sketch, train) == share(sketch, watched) == 1.0
    assert share(sketch, other) == 0.0


KEYS = st.lists(st.sampled_from([0, 1, 7, 1 << 63, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(st.lists(KEYS, max_size=4), st.integers(0, (1 << 64) - 1))
def test_parts_and_ranges_count_like_the_whole(parts, middle):
    keys = [np.array(part, np.uint64) for part in parts]
    whole = KeyCounts.of(np.concatenate([np.zeros(0, np.uint64), *keys]))
    joined = KeyCounts.join([KeyCounts.of(part) for part in keys])
    ranges = (
        [joined.between(0, middle), joined.between(middle + 1, (1 << 64) - 1)] if middle < (1 << 64) - 1 else [joined]
    )
    for name in ("distinct", "count"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in ranges]), getattr(whole, name))
    assert sum(one.n_rows for one in ranges) == sum(map(len, parts))
    assert whole.n_repeated == sum(whole.count[whole.distinct == key].sum() for key in whole.repeated)
