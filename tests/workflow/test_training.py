"""Runs: what they choose, what Ctrl-C leaves, and what they write down."""

import json
import signal
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.boosting.loop import INTERRUPTED
from bopl.workflow.config import TrainConfig
from bopl.workflow.step import StepClock
from bopl.workflow.training import train
from bopl.workflow.translation import SHARES, candidates
from product import click_table, write_log


def config_for(folder, **settings):
    roles = {"action": "item", "reward": "click", "propensity": "p"}
    small = {"rounds": 10, "max_depth": 3, "threads": 1, "ignore": ("user",)}
    log = write_log(folder / "log.parquet", n_samples=1500)
    return TrainConfig(**{"log": log, "out": str(folder / "policy.bopl"), **roles, **small, **settings})


@pytest.mark.parametrize("reward", [[0, 0, 0, 1], [-1, 0], [3, 5, 10], [-2.5, 7.0]])
def test_candidates_put_zero_between_the_least_reward_and_beyond_the_mean(reward):
    values = np.array(reward, dtype=float)
    found = candidates(values)
    assert len(found) == len(SHARES)
    low, mean = values.min(), values.mean()
    np.testing.assert_allclose([-low, -mean], [found[0], found[SHARES.index(1.0)]], rtol=1e-3)


def test_equal_rewards_leave_nothing_to_choose_by():
    with pytest.raises(ValueError, match="all 4 rewards are 2: there is nothing to choose"):
        candidates(np.full(4, 2.0))


def test_the_chosen_translation_has_the_best_bound_and_is_said(tmp_path):
    said = []
    result = train(config_for(tmp_path), say=lambda text: said.append(str(text)))
    sentence = next(text for text in said if text.startswith("Reward translation"))
    bounds = {
        float(part.split(" gives ")[0]): float(part.split(" gives ")[1].rstrip("."))
        for part in sentence.split(": ")[1].split(", ")
    }
    assert result.policy.reward_translation == max(bounds, key=bounds.get)
    assert len(bounds) == len(SHARES)


def test_what_a_log_is_worth_to_the_uniform_policy_is_told_and_forbids_nothing(tmp_path):
    said = []
    small = write_log(tmp_path / "small.parquet", n_samples=40)
    train(config_for(tmp_path, log=small), say=lambda text: said.append(str(text)))
    assert any(text.startswith("Note: To the uniform policy the log is worth") for text in said)
    assert "Audit: 15 checks, no problem that forbids training." in said


def test_a_policy_without_a_round_is_said_to_be_uniform(tmp_path):
    said = []
    train(config_for(tmp_path, min_leaf_samples=1e9), say=lambda text: said.append(str(text)))
    assert any(text.startswith("No round was made (the base learner found nothing to predict)") for text in said)


def test_large_logs_choose_on_a_part_and_train_on_all(tmp_path, monkeypatch):
    for module in ("translation", "training"):
        monkeypatch.setattr(f"bopl.workflow.{module}.MAX_SAMPLES", 300)
    monkeypatch.setattr("bopl.workflow.translation.MAX_VALIDATION", 100)
    result = train(config_for(tmp_path))
    assert [step["step"] for step in result.steps][3:5] == ["choose", "train"]


def test_the_latest_samples_are_held_out_where_a_time_is_named(tmp_path):
    seen = {}

    def watch(state):
        seen["train"] = state.log
        return bopl.CallbackAction.CONTINUE

    result = train(config_for(tmp_path, time="when", reward_translation=-0.4), callbacks=[watch])
    table = click_table(1500)
    cut = np.sort(np.array(table["when"]))[round(0.8 * 1500)]
    assert seen["train"].time.max() < cut
    assert result.evaluation.rows[0]["n"] == 300
    assert "when (day)" not in result.policy.feature_names_in_


class Interrupt(bopl.Callback):
    """Press Ctrl-C in a round of the n-th fit."""

    def __init__(self, fit, at_round):
        self.fit, self.at_round, self.n_fits = fit, at_round, 0

    def on_start(self, state):
        self.n_fits += 1

    def __call__(self, state):
        if self.n_fits == self.fit and len(state.rounds) == self.at_round:
            signal.raise_signal(signal.SIGINT)
        return bopl.CallbackAction.CONTINUE


@pytest.fixture
def ctrl_c():
    """Let SIGINT interrupt, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("settings", "fit"), [({"reward_translation": -0.4}, 1), ({}, 1), ({}, 3)])
def test_ctrl_c_leaves_a_usable_policy_with_a_verdict(tmp_path, settings, fit):
    result = train(config_for(tmp_path, **settings), callbacks=[Interrupt(fit, 4)])
    policy = bopl.load(tmp_path / "policy.bopl")
    assert policy.predict(click_table(20)).shape == (20,)
    assert result.evaluation.rows
    assert (tmp_path / "policy.run" / "report.html").is_file()
    assert result.is_interrupted
    if fit == 1:
        assert (policy.stop_reason_, policy.history_.n_rounds) == (INTERRUPTED, 4)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_the_first_round_leaves_no_policy(tmp_path):
    class AtStart(bopl.Callback):
        def on_start(self, state):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(config_for(tmp_path), callbacks=[AtStart()])
    assert not (tmp_path / "policy.bopl").exists()


def test_a_run_that_fails_after_the_training_leaves_no_verdict_on_another_policy(tmp_path, monkeypatch):
    config = config_for(tmp_path)
    train(config)
    monkeypatch.setattr("bopl.workflow.training.judge", lambda *given: 1 / 0)
    said = []
    with pytest.raises(ZeroDivisionError):
        train(replace(config, max_depth=1), say=said.append)
    assert said[-1] == f"There is no verdict, but the policy is trained and saved: {tmp_path / 'policy.bopl'}"
    left = {file.name for file in (tmp_path / "policy.run").iterdir()}
    assert left == {"config.toml", "history.csv", "policy.bopl", "run.json"}
    assert "max_depth = 1\n" in (tmp_path / "policy.run" / "config.toml").read_text()


def test_the_run_folder_tells_versions_fingerprint_steps_and_history(tmp_path):
    result = train(config_for(tmp_path))
    facts = json.loads((tmp_path / "policy.run" / "run.json").read_text())
    log = bopl.BanditLog.read(tmp_path / "log.parquet", action="item", reward="click", propensity="p", ignore=["user"])
    assert facts["log"]["fingerprint"] == log.fingerprint() == result.policy.trained_on_
    assert {"python", "numpy", "numba"} <= set(facts["versions"])
    assert [step["step"] for step in facts["steps"]] == [step["step"] for step in result.steps]
    assert facts["peak_mib"] == max(step["peak_mib"] for step in facts["steps"])
    lines = (tmp_path / "policy.run" / "history.csv").read_text().splitlines()
    assert len(lines) == 1 + result.policy.history_.n_rounds
    summary = json.loads((tmp_path / "policy.run" / "summary.json").read_text())
    assert summary["steps"] == facts["steps"]
    assert summary["config"]["rounds"] == 10


def test_a_clock_knows_the_memory_of_each_step():
    clock = StepClock()
    with clock.step("small"):
        pass
    with clock.step("large"):
        np.ones(20_000_000).sum()
    with clock.step("after"):
        pass
    small, large, after = (step["peak_mib"] for step in clock.steps)
    assert large > small + 100
    assert clock.peak_mib == large
    assert after <= large


@pytest.mark.parametrize("assumption", ["estimate", "uniform"])
def test_logs_without_propensities_are_learned_from_only_if_told_how(tmp_path, assumption):
    table = click_table(600).drop_columns(["p"])
    pq.write_table(table, tmp_path / "bare.parquet")
    config = config_for(tmp_path, log=str(tmp_path / "bare.parquet"), propensity=None, assume_propensity=assumption)
    result = train(config)
    source = {"estimate": "estimated", "uniform": "uniform"}[assumption]
    assert {row["propensity_source"] for row in result.evaluation.rows} == {source}
    assert source in result.evaluation.rows[0]["reason"]


def test_a_time_limit_ends_the_boosting_after_the_round_in_which_it_passes(tmp_path):
    result = train(config_for(tmp_path, minutes=1e-9))
    assert result.policy.stop_reason_ == "the time limit was reached"
    assert result.policy.history_.n_rounds == 1
