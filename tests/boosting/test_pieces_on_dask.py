"""The model does not depend on how many workers there are, nor on which of them it was begun."""

from __future__ import annotations

import numpy as np
import pytest

import bopl
from bopl.learner.hist_tree import levels

pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

from cluster.processes import scale, some_workers  # noqa: E402

N = 900


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(levels, "GATHER_ROWS", 100)


@pytest.fixture
def pieces(tmp_path):
    rng = np.random.default_rng(0)
    context = rng.normal(size=(N, 4))
    action = rng.integers(0, 3, N)
    frame = pandas.DataFrame(context, columns=list("abcd"))
    frame["kind"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, N)]
    frame["action"], frame["p"] = action, 0.2 + 0.6 * rng.random(N)
    frame["reward"] = (action == (context[:, 0] > 0)) + 0.3 * rng.normal(size=N)
    for number, (start, end) in enumerate([(0, 1), (1, 400), (400, 900)]):
        frame.iloc[start:end].to_parquet(tmp_path / f"{number}.parquet", row_group_size=200)
    return bopl.BanditLog.scan_parquet(str(tmp_path / "*.parquet"), action="action", reward="reward", propensity="p")


def fit(log, start, n_rounds=3, **more):
    learner = bopl.HistTree(5, min_child_weight=5.0, subsample=0.8, colsample=0.7, n_jobs=1)
    policy = bopl.BoostedPolicy("ips", learner, n_rounds=n_rounds, random_state=0, start=start)
    policy.reward_model = bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=20.0, n_jobs=1), n_rounds=2)
    return policy.fit(log, **more)


def saved(policy, tmp_path):
    path = tmp_path / "model.bopl"
    policy.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("start", ["uniform", pytest.param("reward_model", marks=pytest.mark.slow)])
def test_one_two_and_three_workers_give_the_bytes_of_the_log_in_memory(start, pieces, tmp_path):
    expected = saved(fit(pieces.to_log(), start), tmp_path)
    checkpoint = tmp_path / "fit.ckpt"
    with some_workers(1) as (cluster, client):
        fit(pieces, start, 1, cluster=client, callbacks=[bopl.Checkpoint(checkpoint)])
        assert saved(fit(pieces, start, cluster=client), tmp_path) == expected
        scale(cluster, client, 2)
        assert saved(fit(pieces, start, cluster=client), tmp_path) == expected
        scale(cluster, client, 3)
        assert saved(fit(pieces, start, cluster=client, resume_from=checkpoint), tmp_path) == expected
