"""Splits mean what they say: nothing of the future in training, no group in both parts, and all of it told."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import bopl
from bopl.log.log_split import divide, divide_at


def timed_log(time, group=None):
    n_samples = len(time)
    context = np.arange(n_samples, dtype=float)[:, None]
    return bopl.BanditLog(
        context,
        [0, 1] * (n_samples // 2) + [0] * (n_samples % 2),
        np.ones(n_samples),
        np.full(n_samples, 0.5),
        time=time,
        group=group,
    )


def shop_log(n_samples=20_000, seed=0, *, n_users=None):
    """Return a log whose users come on days drawn at random, as in the tutorial."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, n_users or n_samples // 2, n_samples)
    return timed_log(rng.integers(1, 29, n_samples), user)


TIMES = st.lists(st.integers(0, 12), min_size=2, max_size=40)  # few values: ties everywhere


@given(TIMES, st.floats(0.05, 0.95), st.data())
def test_no_training_sample_is_as_late_as_the_first_test_sample(times, fraction, data):
    has_groups = data.draw(st.booleans())
    group = data.draw(st.lists(st.integers(0, 8), min_size=len(times), max_size=len(times))) if has_groups else None
    log = timed_log(times, group)
    try:
        division = divide(log, fraction, by="time")
    except ValueError:
        assume(False)
    assert log.time[division.train].max() < log.time[division.test].min()
    every = np.concatenate([division.train, division.test, division.dropped])
    assert sorted(every) == list(range(len(times)))
    assert min(len(division.train), len(division.test)) > 0
    if has_groups:
        assert not set(log.group[division.train]) & set(log.group[division.test])
        assert set(log.group[division.dropped]) <= set(log.group[division.test])  # nobody was dropped without a reason
        assert len(division.dropped) == 0 or log.time[division.dropped].max() < log.time[division.test].min()
    else:
        assert len(division.dropped) == 0


@given(TIMES, st.floats(0.05, 0.95))
def test_the_held_out_part_is_as_near_to_its_share_as_ties_allow(times, fraction):
    log, n_test = timed_log(times), round(len(times) * fraction)
    assume(0 < n_test < len(times) and len(set(times)) > 1)
    found = len(divide(log, fraction, by="time").test)
    possible = [sum(time >= cut for time in times) for cut in sorted(set(times))[1:]]
    assert abs(found - n_test) == min(abs(size - n_test) for size in possible)


@given(TIMES, st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_matter(times, seed):
    assume(len(set(times)) > 1)
    order = np.random.default_rng(seed).permutation(len(times))
    log = timed_log(times)
    test, shuffled = (set(one.split(0.4, by="time").test.context[:, 0]) for one in (log, log.subset(order)))
    assert test == shuffled


@given(st.lists(st.integers(0, 8), min_size=4, max_size=40), st.integers(0, 100))
def test_a_random_split_has_no_group_in_both_parts(group, seed):
    assume(len(set(group)) > 1)
    log = timed_log(np.arange(len(group)), group)
    try:
        train, test = log.split(0.3, random_state=seed)
    except ValueError:
        assume(False)
    assert not set(train.group) & set(test.group)
    assert len(train) + len(test) == len(log)


def test_constant_times_are_refused():
    with pytest.raises(ValueError, match="all 10 samples have the same time, 7, so none is later"):
        timed_log([7] * 10).split(0.2, by="time")
    same = np.full(10, np.datetime64("2024-05-01T10:00"))
    with pytest.raises(ValueError, match="have the same time, 2024-05-01 10:00:00"):
        timed_log(same).split(0.2, by="time")


@pytest.mark.parametrize("group", [[1] * 20, [0, 1] * 10, np.arange(20) % 4])
def test_groups_that_all_straddle_the_boundary_are_refused_in_one_sentence(group):
    with pytest.raises(ValueError, match="every group with samples before 16 also has some after it"):
        timed_log(np.arange(20), group).split(0.2, by="time")


def test_the_last_fifth_of_time_is_what_is_held_out():
    # 37% of what was held out lay in the last fifth: groups were ranked by their last sample, and brought their past.
    log = shop_log()
    train, test = log.split(0.2, by="time")
    assert test.time.min() > train.time.max()
    assert set(test.time) == set(range(int(test.time.min()), 29))
    assert abs(len(test) / len(log) - 0.2) < 0.02
    held_out = log.time >= test.time.min()
    assert len(test) == held_out.sum()  # all of the last days, whoever came


def test_what_was_held_out_is_counted_and_said():
    log = shop_log(2000)
    split = log.split(0.2, by="time")
    facts = split.facts
    assert facts.n_dropped == 2000 - len(split.train) - len(split.test) > 0
    past = log.subset(log.time < split.test.time.min())
    is_dropped = np.isin(past.group, split.test.group)
    assert (facts.n_dropped, facts.n_dropped_groups) == (is_dropped.sum(), len(np.unique(past.group[is_dropped])))
    assert facts.train.to_dict() == {
        "n_samples": len(split.train),
        "n_groups": len(np.unique(split.train.group)),
        "first": 1,
        "last": int(split.train.time.max()),
    }
    assert str(split) == (
        f"Held out: {facts.test.n_samples:,} samples of {facts.test.n_groups:,} groups from {facts.test.first} to 28. "
        f"Training: {facts.train.n_samples:,} samples of {facts.train.n_groups:,} groups from 1 to {facts.train.last}. "
        f"Dropped from training: {facts.n_dropped:,} earlier samples of {facts.n_dropped_groups:,} groups that are "
        "also in the held-out part."
    )


def test_dates_are_written_as_dates():
    days = np.datetime64("2024-05-01") + np.arange(10)
    text = str(timed_log(days).split(0.2, by="time"))
    assert text == (
        "Held out: 2 samples from 2024-05-09 to 2024-05-10. Training: 8 samples from 2024-05-01 to 2024-05-08."
    )
    assert str(timed_log(days).split(0.2, random_state=0)).endswith(".")
    assert timed_log(days).split(0.2, by="time").facts.to_dict()["test"]["first"] == "2024-05-09"


def test_a_split_that_drops_most_of_its_training_samples_warns():
    log = shop_log(2000, n_users=100)
    with pytest.warns(UserWarning, match=r"\d\d% of the samples before the held-out part are not used for training"):
        log.split(0.05, by="time")


def test_a_split_is_a_pair_that_survives_pickling():
    split = timed_log(np.arange(10)).split(0.2, by="time")
    train, test = pickle.loads(pickle.dumps(split))
    assert (len(train), len(test)) == (8, 2)
    assert split.train is split[0]
    assert pickle.loads(pickle.dumps(split)).facts == split.facts


def test_a_window_and_an_end_bound_both_parts():
    log = timed_log(np.arange(20))
    division = divide_at(log, 10, stop=13, since=6)
    assert (division.train.tolist(), division.test.tolist()) == ([6, 7, 8, 9], [10, 11, 12])
    with pytest.raises(ValueError, match="no sample lies before 0"):
        divide_at(log, 0)


def test_a_group_that_makes_the_held_out_part_too_large_is_said():
    group = np.where(np.arange(1000) % 10 < 9, 0, np.arange(1000))  # user 0 is every guest
    said = str(timed_log(np.arange(1000), group).split(0.2, random_state=0))
    assert "the 200 samples asked for, as a group of 900 cannot be divided: if it stands for many users" in said
    assert "cannot be divided" not in str(shop_log().split(0.2, random_state=0))
