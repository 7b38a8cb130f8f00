"""Columns that the held-out part holds otherwise than the training part are named; chance is not."""

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl.log.drift import drift_finding, find_drift

ROLES = {"action": "action", "reward": "reward", "propensity": "p"}


def make_frame(n_samples=3000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.round(rng.normal(40.0, 12.0, n_samples)),
            "spent": np.where(rng.random(n_samples) < 0.9, 0.0, np.exp(rng.normal(size=n_samples))),
            "country": rng.choice(["at", "br", "fr", "ke"], n_samples, p=[0.6, 0.3, 0.09, 0.01]),
            "score": np.where(rng.random(n_samples) < 0.3, np.nan, rng.normal(size=n_samples)),
            "is_member": rng.random(n_samples) < 0.02,
            "action": rng.choice(["left", "right", "none"], n_samples),
            "reward": (rng.random(n_samples) < 0.05).astype(float),
            "p": 1 / 3,
            "when": np.arange(n_samples),
        }
    )


def drift_of(frame, **more):
    split = bopl.BanditLog.from_frame(frame, **ROLES, time="when", context=list(frame)[:5], **more).split(
        0.2, by="time"
    )
    return {one.column: one for one in split.drift()}


def is_late(frame):
    return np.arange(len(frame)) >= 0.8 * len(frame)


def test_of_200_logs_without_drift_at_most_two_are_said_to_have_any():
    frame = make_frame(200 * 600)
    log = bopl.BanditLog.from_frame(frame, **ROLES, time="when", context=list(frame)[:5])
    parts = (log.subset(slice(start, start + 600)).split(0.2, by="time") for start in range(0, len(log), 600))
    assert sum(bool(part.drift()) for part in parts) <= 2


def test_of_200_logs_with_groups_at_most_two_are_said_to_have_drift():
    frame = make_frame(200 * 60)
    user = np.arange(200).repeat(600) * 60 + np.random.default_rng(0).integers(60, size=200 * 600)  # all rows alike
    log = bopl.BanditLog.from_frame(frame.iloc[user].assign(user=user), **ROLES, group="user", context=list(frame)[:5])
    parts = (log.subset(slice(600 * seed, 600 * seed + 600)).split(0.3, random_state=seed) for seed in range(200))
    assert sum(bool(part.drift()) for part in parts) <= 2


def test_groups_that_count_as_samples_would_be_said_to_have_drift():
    frame = make_frame(60, 1)
    user = np.random.default_rng(1).integers(60, size=6000)
    log = bopl.BanditLog.from_frame(frame.iloc[user].assign(user=user), **ROLES, group="user", context=list(frame)[:5])
    split = log.split(0.3, random_state=1)
    assert split.drift() == ()
    alone = [
        bopl.BanditLog(part.context, part.action, part.reward, part.propensity, actions=log.actions) for part in split
    ]
    assert find_drift(*alone)


@pytest.mark.parametrize(
    ("column", "change", "text"),
    [
        ("age", lambda frame: frame["age"] + 5.0, "'age' is at most"),
        ("country", lambda frame: frame["country"].where(np.arange(len(frame)) % 7 > 0, "ke"), "'country' is 'ke'"),
        ("score", lambda frame: frame["score"].where(np.arange(len(frame)) % 4 > 0), "'score' is missing"),
        ("is_member", lambda frame: np.arange(len(frame)) % 9 == 0, "'is_member' is"),
        ("action", lambda frame: frame["action"].where(np.arange(len(frame)) % 4 > 0, "left"), "the action is 'left'"),
        ("reward", lambda frame: frame["reward"].where(np.arange(len(frame)) % 9 > 0, 1.0), "the reward is 0"),
    ],
)
def test_a_column_that_has_changed_is_named_and_no_other(column, change, text):
    frame = make_frame()
    frame[column] = frame[column].where(~is_late(frame), change(frame))
    found = drift_of(frame)
    assert set(found) == {column}
    assert found[column].where.startswith(text)
    assert found[column].train != pytest.approx(found[column].test, rel=0.05)


def test_the_most_different_columns_are_named_first_and_the_rest_counted():
    frame = make_frame()
    for place, column in enumerate(["spent", "age", "score"]):
        frame[column] += np.where(is_late(frame), 10.0 * (place + 1), 0.0)
    frame["is_member"] |= is_late(frame)
    found = list(drift_of(frame).values())
    assert [one.distance for one in found] == sorted((one.distance for one in found), reverse=True)
    sentence = drift_finding(found).sentence
    assert sentence.count("training samples") == 3
    assert sentence.endswith("and 1 more columns. The verdict applies to samples like those held out.")
    assert drift_finding(()).status == "ok"


def test_the_presence_of_a_sparse_column_is_compared():
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    context = random_array((2000, 50), density=0.05, rng=rng, format="lil")
    context[1700:, [7]] = 1.0
    log = bopl.BanditLog(
        context.tocsr(), rng.integers(2, size=2000), rng.random(2000), np.full(2000, 0.5), time=np.arange(2000)
    )
    for group in (None, np.arange(2000) // 2):
        with_group = (
            log
            if group is None
            else bopl.BanditLog(log.context, log.action, log.reward, log.propensity, time=log.time, group=group)
        )
        assert [one.column for one in with_group.split(0.2, by="time").drift()] == [7]


def test_tiny_parts_say_nothing():
    assert drift_of(make_frame(10)) == {}
