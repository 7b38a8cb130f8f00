"""A race on a log in pieces: a drawn part races, and the winner learns from everything."""

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl._errors import PartTrainedWarning, UsageError
from bopl.race import auto as auto_module
from bopl.race import final as part_module
from pieces_logs import write

ROLES = {"action": "item", "reward": "click", "propensity": "p"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))


def a_log(folder, n_rows=900):
    rng = np.random.default_rng(0)
    age, action = rng.normal(size=n_rows), rng.integers(0, 2, n_rows)
    reward = (rng.random(n_rows) < 0.1 + 0.8 * (action == (age > 0))).astype(int)
    frame = pd.DataFrame({"age": age, "item": action, "click": reward, "p": np.full(n_rows, 0.5)})
    return bopl.BanditLog.scan_parquet(write(folder, frame, (400, 0, n_rows - 400), 250), **ROLES)


def fit(log, include=("ips",), **words):
    return bopl.AutoPolicy(include, progress=False, random_state=0).fit(log, **words)


def same_policy(one, other):
    context = np.linspace(-2, 2, 50)[:, None].astype(np.float32)
    return np.array_equal(one.predict_proba(context), other.predict_proba(context))


def test_a_small_log_in_pieces_races_as_in_memory(tmp_path):
    log = a_log(tmp_path)
    assert same_policy(fit(log), fit(log.to_log()))


def test_a_large_log_races_on_the_part_it_races_on_in_memory_and_the_winner_learns_from_all(tmp_path, monkeypatch):
    monkeypatch.setattr(auto_module, "MAX_WHOLE", 600)
    monkeypatch.setattr(part_module, "MAX_RACED", 500)
    log = a_log(tmp_path)
    pieces, whole = fit(log), fit(log.to_log())
    assert pieces.leaderboard_.to_dict()["n_judged"] == whole.leaderboard_.to_dict()["n_judged"]
    assert [one.uplift for one in pieces.leaderboard_] == [one.uplift for one in whole.leaderboard_]
    assert pieces.best_policy_.training_rows_.n_samples == 900
    assert pieces.training_rows_.digest == whole.training_rows_.digest
    assert same_policy(pieces, whole)
    assert pieces.schema_ == log.schema


def test_a_winner_that_needs_its_samples_in_memory_is_trained_on_a_part_and_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(auto_module, "MAX_WHOLE", 600)
    monkeypatch.setattr(part_module, "MAX_RACED", 500)
    plain = bopl.BoostedPolicy.fit

    def only_in_memory(self, log, *args, cluster=None, memory=None, **words):
        if isinstance(log, bopl.PartitionedLog):
            raise TypeError("this one needs it in memory.")
        return plain(self, log, *args, **words)

    monkeypatch.setattr(bopl.BoostedPolicy, "fit", only_in_memory)
    with pytest.warns(PartTrainedWarning, match="on 500 of 900 samples, drawn at random: this one needs it in memory"):
        policy = fit(a_log(tmp_path), memory="1kB")
    assert policy.best_policy_.training_rows_.n_samples == 500


def test_memory_and_cluster_are_for_logs_in_pieces(tmp_path):
    with pytest.raises(UsageError, match="are for logs in pieces"):
        fit(a_log(tmp_path).to_log(), memory="1GB")
