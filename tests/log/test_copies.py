"""Decisions that were delivered twice are found where contexts are few, and clean logs are not blamed."""

import numpy as np
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
