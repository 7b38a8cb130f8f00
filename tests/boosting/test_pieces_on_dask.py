"""The model does not depend on how many workers there are, nor on which of them it was begun."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import bopl
from bopl.learner.hist_tree import levels

pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

from cluster.processes import scale, some_workers  # noqa: E402
from sliced_log import SlicedLog  # noqa: E402

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


def a_log(rng, **columns):
    context, action = rng.normal(size=(N, 4)), rng.integers(0, 3, N)
    made = {"context": context, "action": action, "reward": (action == (context[:, 0] > 0)) + 0.3 * rng.normal(size=N)}
    return bopl.BanditLog(**(made | {"propensity": 0.2 + 0.6 * rng.random(N), "actions": [0, 1, 2]} | columns))


def with_gaps(rng):
    context = rng.normal(size=(N, 4))
    context[rng.random(context.shape) < 0.2] = np.nan
    return a_log(rng, context=context)


def mostly_zero(rng):
    return a_log(rng, context=sparse.csr_array((rng.random((N, 12)) < 0.1) * rng.integers(1, 4, (N, 12)).astype(float)))


def with_masks(rng):
    log = a_log(rng)
    mask = (rng.random((N, 3)) < 0.7) | (np.arange(3) == log.action_idx[:, None])
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=[0, 1, 2], action_mask=mask)


EVERYTHING = {
    "missing values, subsample": (with_gaps, {"learner": bopl.HistTree(4, min_child_weight=5.0, subsample=0.7)}),
    "sparse, few leaves": (mostly_zero, {"learner": bopl.HistTree(4, min_child_weight=5.0, max_leaves=6)}),
    "masks, colsample": (with_masks, {"learner": bopl.HistTree(4, min_child_weight=5.0, colsample=0.5)}),
    "features of actions, surrogate": (
        lambda rng: a_log(rng, action_features=rng.normal(size=(3, 2))),
        {"objective": "surrogate", "reward_translation": -0.2},
    ),
    "doubly robust, start from rewards": (a_log, {"objective": "dr", "start": "reward_model"}),
    "early stopping": (a_log, {"validation_fraction": 0.3, "n_rounds": 6, "early_stopping_rounds": 1}),
    "classifier": (a_log, {"learner": bopl.HistTreeClassifier(4, min_child_weight=5.0)}),
}


@pytest.mark.parametrize("n_workers", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 5))])
def test_kind_of_log_and_settings_do_not_matter_on_any_number_of_workers(n_workers, tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.learner.hist_tree.locality.MIN_CONTEXTS", 200)  # rows of the larger pieces are sorted
    model = bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=20.0, n_jobs=1), n_rounds=2)
    plain = {"learner": bopl.HistTree(4, min_child_weight=5.0), "n_rounds": 2, "random_state": 0, "reward_model": model}
    with some_workers(n_workers) as (_, client):
        for name, (make, changes) in EVERYTHING.items():
            log = make(np.random.default_rng(1))
            whole, placed = (bopl.BoostedPolicy(**({"objective": "ips"} | plain | changes)) for _ in range(2))
            expected = saved(whole.fit(log), tmp_path)
            pieces = SlicedLog(log, [1, 1, 300, 350, N - 1])
            assert saved(placed.fit(pieces, cluster=client), tmp_path) == expected, name
