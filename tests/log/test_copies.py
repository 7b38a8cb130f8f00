"""Decisions that were delivered twice are found where contexts are few, and clean logs are not blamed."""

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl.log.duplicate import find_copies


def coarse_log(seed, n_samples=1000, *, n_values=8, share=0.2, delay=0.0, drift=0.0):
    """Return a log of few contexts and a column that differs between copies, which come some rows later."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, n_values, (n_samples, 2)).astype(float)
    score = (context / n_values - 0.5) @ rng.normal(size=(2, 5)) * 2.0
    score += drift * np.linspace(0.0, 1.0, n_samples)[:, None] * rng.normal(size=5)
    prob = 0.9 * np.exp(score) / np.exp(score).sum(axis=1, keepdims=True) + 0.02
    action = (prob.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1)
    twice = np.flatnonzero(rng.random(n_samples) < share)
    place = np.concatenate([np.arange(n_samples), twice + 0.5 + rng.exponential(delay, len(twice))])
    row = np.concatenate([np.arange(n_samples), twice])[np.argsort(place)]
    return bopl.BanditLog(
        np.column_stack([context[row], rng.random(len(row))]),
        action[row],
        (rng.random(n_samples) < 0.1)[row],
        prob[np.arange(n_samples), action][row],
        actions=range(5),
    )


@pytest.mark.parametrize(("n_values", "delay"), [(3, 0.0), (8, 0.0), (8, 10.0)])
def test_copies_are_found_where_contexts_are_few(n_values, delay):
    found = [find_copies(coarse_log(seed, 2000, n_values=n_values, delay=delay)) for seed in range(10)]
    assert sum(one is not None for one in found) >= 9
    assert {one.column for one in found if one is not None} == {"column 2"}
    n_copies = [one.n_copies for one in found if one is not None]
    assert 200 < np.mean(n_copies) < 480  # of 400; with a delay other samples come between


@pytest.mark.parametrize("drift", [0.0, 2.0])
def test_logs_of_few_contexts_are_not_blamed_for_copies(drift):
    clean = [
        coarse_log(seed, n, n_values=k, share=0.0, drift=drift)
        for seed in range(10)
        for n in (300, 2000)
        for k in (3, 30)
    ]
    assert sum(find_copies(log) is not None for log in clean) == 0


def test_the_audit_says_how_copies_among_few_contexts_show():
    found = coarse_log(0, 2000).audit()["duplicated_rows"]
    assert found.status == "problem"
    assert "share the action of the one before them with the same context but for 'column 2'" in found.sentence


@pytest.mark.parametrize("seed", range(3))
def test_an_audit_by_several_threads_says_the_same(seed, monkeypatch):
    log = coarse_log(seed, 2000)
    expected = log.audit()
    monkeypatch.setattr("bopl._interrupt.MIN_ENTRIES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert repr(log.audit()) == repr(expected)


def visits(seed=0, n_samples=1500):
    """Return decisions of users, who come about three times each."""
    rng = np.random.default_rng(seed)
    prob = rng.dirichlet(np.full(3, 5.0), n_samples)
    action = (prob.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1)
    return pd.DataFrame(
        {
            "basket": rng.gamma(2.0, 20.0, n_samples).round(2),
            "device": rng.choice(["ios", "web"], n_samples),
            "offer": np.array(["none at all", "5% off", "free shipping"])[action],
            "p": prob[np.arange(n_samples), action],
            "click": (rng.random(n_samples) < 0.1).astype(int),
            "user": rng.integers(0, n_samples // 3, n_samples),
        }
    )


def duplicated_rows(frame, **settings):
    log = bopl.BanditLog.from_frame(frame, action="offer", reward="click", propensity="p", **settings)
    return log.audit()["duplicated_rows"]


def joined_with_clicks(frame):
    return frame.loc[frame.index.repeat(np.where(frame["click"] == 1, 2, 1))]


def joined_with_every_state(frame):
    return pd.concat([frame, frame[frame["click"] == 1].assign(click=0)])


@pytest.mark.parametrize("join", [joined_with_clicks, joined_with_every_state])
def test_rows_that_a_join_multiplied_where_there_was_a_reward_are_a_problem_also_within_groups(join):
    frame = join(visits())
    for settings, whose in (({"ignore": ["user"]}, "copies:"), ({"group": "user"}, "copies of others of their group:")):
        found = duplicated_rows(frame, **settings)
        assert found.status == "problem"
        assert f"samples are {whose}" in found.sentence
        assert "every value is wrong: give each decision one row" in found.sentence
        assert "too narrow" not in found.sentence


def test_copies_within_groups_that_do_not_follow_the_reward_are_a_note():
    frame = visits()
    found = duplicated_rows(pd.concat([frame, frame]), group="user")
    assert found.status == "note"
    assert found.sentence.startswith("About 1,500 of 3,000 samples are copies of others of their group:")
    assert "drop the copies with drop_duplicates." in found.sentence


def test_groups_whose_samples_share_no_draw_have_no_copies():
    few = [visits(seed, 600).assign(basket=1.0, user=np.arange(600) // 20) for seed in range(10)]
    assert all("can be chance" in duplicated_rows(frame, group="user").sentence for frame in few)


@pytest.mark.parametrize("seed", range(3))
def test_propensities_that_are_too_small_are_not_taken_for_copies(seed):
    """Those of two arms of six are not those with which one of the two was drawn."""
    frame = visits(seed, 4000).query("offer != '5% off'")
    frame = frame.assign(basket=np.arange(len(frame)) % 700, p=0.5 * frame["p"])
    log = bopl.BanditLog.from_frame(frame, action="offer", reward="click", propensity="p", ignore=["user"])
    audit = log.audit()
    assert {finding.check for finding in audit.problems} == {
        "mean_weight_uniform",
        "mean_weight_logging",
        "sum_inverse_propensity",
    }
