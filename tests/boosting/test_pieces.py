"""A log in pieces gives the model of the log in memory, to the last byte."""

from __future__ import annotations

import numpy as np
import pytest

import bopl
from bopl.learner.hist_tree import levels
from sliced_log import SlicedLog, cuts_of


def make_log(n_samples=1200, n_actions=4, seed=0):
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_samples, 5))
    context[:, 1] = np.round(3.0 * context[:, 1])
    action = rng.integers(0, n_actions, n_samples)
    reward = (action == (context[:, 0] > 0) + 2 * (context[:, 1] > 0)) + 0.3 * rng.normal(size=n_samples)
    propensity = rng.uniform(0.05, 0.9, n_samples)
    return bopl.BanditLog(context, action, reward, propensity, actions=list(range(n_actions)))


def settings(**changes):
    kept = {
        "objective": "ips",
        "learner": bopl.HistTree(6, min_child_weight=5.0, n_jobs=1),
        "n_rounds": 3,
        "certificate": False,
        "random_state": 0,
    }
    return kept | changes


def saved(policy, tmp_path):
    path = tmp_path / "model.bopl"
    policy.save(path)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=[0, 150, 4096])
def gather_rows(request, monkeypatch):
    """Nodes of at most so many rows are gathered: none, some, all of a small log."""
    monkeypatch.setattr(levels, "GATHER_ROWS", request.param)


PARTITIONS = {
    "one": [],
    "three": cuts_of(1200, 3),
    "seven": cuts_of(1200, 7),
    "unequal, one of one row, some empty": [0, 1, 1, 700, 1199, 1200],
}


@pytest.mark.parametrize("cuts", PARTITIONS.values(), ids=PARTITIONS)
def test_pieces_give_the_bytes_of_the_log_in_memory(cuts, gather_rows, tmp_path):
    log = make_log()
    expected = saved(bopl.BoostedPolicy(**settings()).fit(log), tmp_path)
    assert saved(bopl.BoostedPolicy(**settings()).fit(SlicedLog(log, cuts)), tmp_path) == expected
