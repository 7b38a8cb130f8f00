"""Cuts of columns in pieces beside those of the whole column."""

from collections import Counter

import numpy as np
import pytest

from bopl.learner.hist_tree import cuts
from bopl.learner.hist_tree.binning import ColumnCounts, fit_column
from bopl.learner.hist_tree.cuts import ColumnTally, CountedKeys, Finer, find_bins, key_values, order_keys


def bins_of(parts, max_bins, n_actions):
    counts = [ColumnCounts.of(part) for part in parts]
    tally = sum((ColumnTally.of(one) for one in counts[1:]), ColumnTally.of(counts[0]))

    search, answer = find_bins(tally, max_bins, n_actions=n_actions), None
    while True:
        try:
            asked = search.send(answer)
        except StopIteration as end:
            return end.value, tally.listed is None
        found = [CountedKeys.of(one).refined(asked) for one in counts]
        answer = sum(found[1:], found[0])


def columns(rng):
    yield rng.normal(size=20_000)
    yield np.exp(5.0 * rng.normal(size=20_000))
    yield np.round(rng.normal(size=20_000), 3)
    yield np.concatenate([np.zeros(15_000), rng.normal(size=5_000)])
    yield np.where(rng.random(20_000) < 0.1, np.nan, rng.uniform(-1e-3, 1e6, 20_000))
    yield np.repeat(rng.normal(size=9_000), 2)


@pytest.mark.parametrize(("max_bins", "n_actions"), [(2, 1), (16, 10), (256, 1), (256, 10), (16, 3000)])
def test_pieces_are_cut_like_the_whole(max_bins, n_actions, monkeypatch):
    """With 3000 actions there are more than 2^24 pairs, and ranks lose units."""
    monkeypatch.setattr(cuts, "MAX_LISTED", 10_500)  # above what any of these sketches holds
    rng = np.random.default_rng(0)
    n_narrowed = 0
    for column in columns(rng):
        values = column.astype(np.float32)
        expected = fit_column(values, max_bins, n_actions=n_actions)
        found, is_narrowed = bins_of(np.split(rng.permutation(values), [0, 1, 5_000, 12_345]), max_bins, n_actions)
        np.testing.assert_array_equal(found.edges, expected.edges)
        assert (found.has_missing, found.low, found.high) == (expected.has_missing, expected.low, expected.high)
        n_narrowed += is_narrowed
    assert n_narrowed == 3


def test_keys_are_in_the_order_of_the_values():
    values = np.array([-np.inf, -3e38, -1.0, -1e-45, 0.0, 1e-45, 1.0, 3e38, np.inf], np.float32)
    keys = order_keys(values)
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(key_values(keys), values)
    assert order_keys(np.array([-0.0], np.float32)) == order_keys(np.array([0.0], np.float32))


def test_a_pass_answers_with_a_fraction_of_the_values_however_many_there_are():
    counts = ColumnCounts.of(np.random.default_rng(5).normal(size=1_000_000).astype(np.float32))
    search = find_bins(ColumnTally.of(counts), 256, n_actions=10)
    asked, n_blocks = next(search), []
    while asked is not None:
        answer = CountedKeys.of(counts).refined(asked)
        n_blocks.append(len(answer.first))
        try:
            asked = search.send(answer)
        except StopIteration:
            asked = None
    assert max(n_blocks) < 250_000, "a pass over many pieces holds this many blocks of every column"


@pytest.mark.parametrize("is_rounded", [False, True])
def test_blocks_of_parts_add_up_to_what_a_plain_count_finds(is_rounded):
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=n).astype(np.float32) for n in (400, 1, 0, 90)]
    if is_rounded:  # values that occur several times, and a missing one
        parts = [np.append(np.round(part, 1), np.float32(np.nan)) for part in parts]
    kept = [CountedKeys.of(ColumnCounts.of(part)) for part in parts]
    assert all((one.count is None) == (not is_rounded) or len(one.keys) < 2 for one in kept)
    keys = order_keys(np.concatenate(parts)[~np.isnan(np.concatenate(parts))])
    needed = np.unique(keys >> np.uint32(20) << np.uint32(20))[::2]
    found = sum((one.refined(Finer(needed, 20, 16)) for one in kept[1:]), kept[0].refined(Finer(needed, 20, 16)))
    expected = Counter((key >> 16 << 16) for key in keys.tolist() if key >> 20 << 20 in set(needed.tolist()))
    assert dict(zip(found.first.tolist(), found.count.tolist(), strict=True)) == expected
    assert (np.diff(found.first.astype(np.int64)) > 0).all()
