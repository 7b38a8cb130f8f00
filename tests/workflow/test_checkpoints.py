"""A run that was cut short goes on, and ends in the same bytes as one that was not."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

import bopl
from bopl import _files
from bopl.workflow import checkpoints
from bopl.workflow.config import TrainConfig
from bopl.workflow.training import train
from product import write_log

GOING_ON = "Resuming from the checkpoint of an earlier run with the same log and settings."
SETTINGS = {
    "ips": {"objective": "ips"},  # a fit for every candidate of the reward translation
    "early": {"objective": "ips", "reward_translation": -0.4, "early_stopping_rounds": 2, "n_rounds": 60},
    "dr": {"objective": "dr", "estimators": ("snips",)},
}


class Cut(BaseException):
    """Something from outside."""


class CutAt(bopl.boosting.Callback):
    """Cut the run short after some round of some fit."""

    def __init__(self, fit, at_round):
        self.fit, self.at_round, self.n_fits = fit, at_round, 0

    def on_start(self, state):
        self.n_fits += 1

    def __call__(self, state):
        if self.n_fits == self.fit and len(state.rounds) == self.at_round:
            raise Cut
        return bopl.CallbackAction.CONTINUE


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Write after every round."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "COSTS", 0.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", n_samples=900)


def config_for(log, out, **settings):
    roles = {"action": "item", "reward": "click", "propensity": "p", "ignore": ("user",)}
    return TrainConfig(**{"log": log, "out": str(out), **roles, "n_rounds": 8, "max_depth": 3, "n_jobs": 1, **settings})


def contents(out):
    """Return what must not depend on whether a run was cut short."""
    run = out.with_suffix(".run")
    assert sorted(path.name for path in run.iterdir()) == sorted(
        ["config.toml", "history.csv", "policy.bopl", "report.html", "run.json", "summary.json"]
    )
    return [path.read_bytes() for path in (out, run / "policy.bopl", run / "history.csv")]


@pytest.fixture(scope="module")
def whole(log, tmp_path_factory):
    """What uninterrupted runs have written."""
    found = {}
    for name, settings in SETTINGS.items():
        out = tmp_path_factory.mktemp("whole") / "policy.bopl"
        train(config_for(log, out, **settings))
        found[name] = contents(out)
    return found


@pytest.mark.parametrize(("name", "fit", "at_round"), [("ips", 1, 3), ("ips", 3, 1), ("early", 1, 5), ("dr", 1, 4)])
def test_the_same_command_goes_on_and_ends_in_the_same_bytes(log, whole, tmp_path, name, fit, at_round, said):
    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS[name])
    with pytest.raises(Cut):
        train(config, callbacks=[CutAt(fit, at_round)])
    assert len(list((tmp_path / "policy.run").glob(".fit-*"))) == fit
    made = []
    train(config, callbacks=[lambda state: made.append(len(state.rounds)) or CONTINUE])
    assert said.count(GOING_ON) == 1
    assert made[0] == at_round + 1
    assert contents(tmp_path / "policy.bopl") == whole[name]


CONTINUE = bopl.CallbackAction.CONTINUE


@pytest.mark.parametrize("name", ["early", "dr"])
def test_a_run_that_was_cut_short_while_it_was_judged_trains_nothing_again(log, whole, tmp_path, monkeypatch, name):
    def cut(*ignored, **named):
        raise Cut

    config, made = config_for(log, tmp_path / "policy.bopl", **SETTINGS[name]), []
    with monkeypatch.context() as patched:
        patched.setattr("bopl.workflow.training.judge", cut)
        with pytest.raises(Cut):
            train(config)
    train(config, callbacks=[lambda state: made.append(state) or CONTINUE])
    assert made == []
    assert contents(tmp_path / "policy.bopl") == whole[name]


KILLED = """
import os, signal, sys
import bopl
from bopl import _files
from bopl.workflow import checkpoints
from bopl.workflow.config import read_config, TrainConfig, make_config
from bopl.workflow.training import train

checkpoints.SECONDS = checkpoints.COSTS = 0.0


def kill(state):
    if len(state.rounds) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return bopl.CallbackAction.CONTINUE


train(make_config(read_config(sys.argv[1])), callbacks=[kill])
"""


def test_kill_9_loses_the_round_it_came_in_and_no_more(log, whole, tmp_path, said):
    config, made = config_for(log, tmp_path / "policy.bopl", **SETTINGS["dr"]), []
    (tmp_path / "config.toml").write_text(config.absolute().to_toml())
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "config.toml"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    train(config, callbacks=[lambda state: made.append(len(state.rounds)) or CONTINUE])
    assert made == [5, 6, 7, 8]
    assert GOING_ON in said
    assert contents(tmp_path / "policy.bopl") == whole["dr"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "policy.bopl", "policy.run"]


@pytest.mark.parametrize(
    "changes", [{"n_rounds": 2}, {"max_depth": 2}, {"random_state": 1}, {"ignore": ("user", "age")}]
)
def test_other_settings_and_another_log_start_anew(log, tmp_path, changes, said):
    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS["early"])
    with pytest.raises(Cut):
        train(config, callbacks=[CutAt(1, 4)])
    changed = replace(config, **changes)
    train(changed)
    assert GOING_ON not in said
    train(replace(changed, out=str(tmp_path / "other.bopl")))
    assert contents(tmp_path / "policy.bopl") == contents(tmp_path / "other.bopl")


def test_another_version_starts_anew(log, whole, tmp_path, monkeypatch, said):
    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS["early"])
    with pytest.raises(Cut):
        train(config, callbacks=[CutAt(1, 4)])
    monkeypatch.setattr(checkpoints, "versions", lambda: {"bopl": "0.1.0"})
    train(config)
    assert GOING_ON not in said
    assert contents(tmp_path / "policy.bopl") == whole["early"]


def test_half_a_checkpoint_of_a_killed_run_goes_as_well(log, whole, tmp_path):
    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS["dr"])
    half = tmp_path / "policy.run" / "..fit-1-0123.01234567.part.checkpoint"
    half.parent.mkdir()
    half.write_text("half")
    with _files.replaced_file(half.parent / ".fit-1-0123.checkpoint") as temporary:
        assert fnmatch(temporary.name, checkpoints.HALF)
    train(config)
    assert contents(tmp_path / "policy.bopl") == whole["dr"]


def test_a_damaged_checkpoint_is_passed_over(log, whole, tmp_path, said):
    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS["dr"])
    with pytest.raises(Cut):
        train(config, callbacks=[CutAt(1, 4)])
    (file,) = Path(tmp_path / "policy.run").glob(".fit-*")
    file.write_bytes(file.read_bytes()[:-100])
    train(config)
    assert GOING_ON not in said
    assert contents(tmp_path / "policy.bopl") == whole["dr"]


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(log, whole, tmp_path, monkeypatch, said):
    def fail(path, archive):
        raise OSError("no room.")

    monkeypatch.setattr("bopl.boosting.checkpoint.write_archive", fail)
    train(config_for(log, tmp_path / "policy.bopl", **SETTINGS["dr"]))
    assert said.count("There is no checkpoint, so a killed run would start from the beginning: no room.") == 1
    assert contents(tmp_path / "policy.bopl") == whole["dr"]


def test_an_interrupted_run_says_that_it_can_go_on(log, whole, tmp_path, said):
    def interrupt(state):
        if len(state.rounds) == 4:
            raise KeyboardInterrupt
        return CONTINUE

    config = config_for(log, tmp_path / "policy.bopl", **SETTINGS["dr"])
    assert train(config, callbacks=[interrupt]).is_interrupted
    assert said[-1] == "Run the same command again to resume from here."
    assert bopl.load(tmp_path / "policy.bopl").history_.n_rounds == 4
    assert not train(config).is_interrupted
    assert contents(tmp_path / "policy.bopl") == whole["dr"]
