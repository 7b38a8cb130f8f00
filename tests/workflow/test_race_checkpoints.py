"""A race that was cut short goes on, and ends in the same bytes as one that was not."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from bopl.boosting.loop import BoostingRun
from bopl.boosting.pieces.run import PlacedAscent
from bopl.race import auto, final
from bopl.race.contender import Contender
from bopl.reward import cross_fitting
from bopl.workflow import checkpoints, training
from bopl.workflow.config import TrainConfig
from bopl.workflow.training import train
from product import write_log

ROLES = {"action": "item", "reward": "click", "propensity": "p", "ignore": ("user",)}


class Cut(BaseException):
    """Something from outside."""


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Keep whatever is finished."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "COSTS", 0.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", n_samples=900)


def config_for(log, out, **settings):
    race = {"include": ("regression-logging", "ips"), "estimators": ("snips",), "n_jobs": 1}
    return TrainConfig(**{"log": log, "out": str(out), **ROLES, **race, **settings})


def contents(out):
    """Return what must not depend on whether a run was cut short."""
    run = out.with_suffix(".run")
    assert sorted(path.name for path in run.iterdir()) == sorted(
        ["config.toml", "history.csv", "policy.bopl", "report.html", "run.json", "summary.json"]
    )
    return [path.read_bytes() for path in (out, run / "policy.bopl", run / "history.csv")]


def count(patched):
    """Count the rounds that are made and the reward models that are fitted."""
    made = {"rounds": 0, "models": 0}
    add_rounds, fit = BoostingRun.add_rounds, cross_fitting._cross_fit_boosted

    def adding(self, n_rounds, callbacks=()):
        before = len(self.state.rounds)
        reason = add_rounds(self, n_rounds, callbacks)
        made["rounds"] += len(self.state.rounds) - before
        return reason

    def fitting(*args):
        made["models"] += 1
        return fit(*args)

    patched.setattr(BoostingRun, "add_rounds", adding)
    patched.setattr(cross_fitting, "_cross_fit_boosted", fitting)
    return made


@pytest.fixture(scope="module")
def uncut(log, tmp_path_factory):
    """What an uninterrupted run has written, and how much it had to do."""
    out = tmp_path_factory.mktemp("whole") / "policy.bopl"
    with pytest.MonkeyPatch.context() as patched:
        made = count(patched)
        train(config_for(log, out))
    return contents(out), made


@pytest.fixture
def whole(uncut):
    return uncut[0]


def cut_at(monkeypatch, owner, name, call):
    """Raise in the n-th call of a function."""
    function, calls = getattr(owner, name), []

    def cutting(*args, **kwargs):
        calls.append(name)
        if len(calls) == call:
            raise Cut
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, cutting)


CUTS = {
    "in the first rung": (Contender, "_add_rounds", 2),
    "between two arenas": (Contender, "_add_rounds", 8),
    "while the winner is trained": (final.InMemory, "fit", 1),
    "while it is judged": (training, "judge", 1),
}


@pytest.mark.parametrize("at", list(CUTS))
def test_the_same_command_reuses_what_was_finished_and_ends_in_the_same_bytes(
    log, uncut, tmp_path, monkeypatch, at, said
):
    config, made = config_for(log, tmp_path / "policy.bopl"), count(monkeypatch)
    with monkeypatch.context() as patched:
        cut_at(patched, *CUTS[at])
        with pytest.raises(Cut):
            train(config)
    train(replace(config, n_jobs=2))  # threads do not matter
    assert said.count(checkpoints.GOING_ON) == 1
    assert contents(tmp_path / "policy.bopl") == uncut[0]
    assert made == uncut[1]  # both runs together have done no more than one


KILLED = """
import os, signal, sys
from bopl.race.contender import Contender
from bopl.workflow import checkpoints, training
from bopl.workflow.config import make_config, read_config
from bopl.workflow.training import train

checkpoints.SECONDS = checkpoints.COSTS = 0.0
advance, calls = Contender.advance, []


def killing(self, n_rounds):
    calls.append(n_rounds)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    advance(self, n_rounds)


Contender.advance = killing
train(make_config(read_config(sys.argv[1])))
"""


def test_kill_9_in_a_race_loses_the_candidate_it_came_in_and_no_more(log, whole, tmp_path, said):
    config = config_for(log, tmp_path / "policy.bopl")
    (tmp_path / "config.toml").write_text(config.absolute().to_toml())
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "config.toml"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    train(config)
    assert checkpoints.GOING_ON in said
    assert contents(tmp_path / "policy.bopl") == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "policy.bopl", "policy.run"]


@pytest.mark.parametrize("changes", [{"random_state": 1}, {"time": "when"}])
def test_other_settings_and_another_log_start_a_race_anew(log, tmp_path, monkeypatch, changes, said):
    config = config_for(log, tmp_path / "policy.bopl")
    with monkeypatch.context() as patched:
        cut_at(patched, auto.Race, "_decide", 1)
        with pytest.raises(Cut):
            train(config)
    changed = replace(config, **changes)
    train(changed)
    assert checkpoints.GOING_ON not in said
    train(replace(changed, out=str(tmp_path / "other.bopl")))
    assert contents(tmp_path / "policy.bopl") == contents(tmp_path / "other.bopl")


def test_damaged_files_of_a_race_are_passed_over(log, whole, tmp_path, monkeypatch, said):
    config = config_for(log, tmp_path / "policy.bopl")
    with monkeypatch.context() as patched:
        cut_at(patched, auto.Race, "_decide", 1)
        with pytest.raises(Cut):
            train(config)
    files = list((tmp_path / "policy.run").glob(".fit-*"))
    assert len(files) > 6
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    train(config)
    assert checkpoints.GOING_ON not in said
    assert contents(tmp_path / "policy.bopl") == whole


def test_a_race_without_room_for_its_files_goes_on(log, whole, tmp_path, monkeypatch, said):
    def fail(path, archive):
        raise OSError("no room.")

    for module in ("bopl.boosting.checkpoint", "bopl.reward.kept_models"):
        monkeypatch.setattr(f"{module}.write_archive", fail)
    train(config_for(log, tmp_path / "policy.bopl"))
    assert said.count(checkpoints.NO_ROOM.format("no room.")) == 1
    assert contents(tmp_path / "policy.bopl") == whole


def test_what_is_made_again_as_quickly_is_not_kept(log, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 1e6)
    with monkeypatch.context() as patched:
        cut_at(patched, auto.Race, "_decide", 1)
        with pytest.raises(Cut):
            train(config_for(log, tmp_path / "policy.bopl"))
    assert not (tmp_path / "policy.run").exists()


@pytest.fixture
def few_race(monkeypatch, tmp_path):
    """A log of 900 samples is a large one."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(auto, "MAX_WHOLE", 400)
    monkeypatch.setattr(final, "MAX_RACED", 300)


PIECES_CUTS = {
    "in the race": (Contender, "_add_rounds", 2),
    "while the winner is trained": (PlacedAscent, "move", 3),
    "while it is judged": (training, "judge", 1),
}


@pytest.mark.filterwarnings("ignore:a memory budget")  # which is the smallest on purpose
@pytest.mark.parametrize("at", list(PIECES_CUTS))
def test_race_over_pieces_goes_on_to_the_same_bytes(log, few_race, tmp_path, monkeypatch, said, at):
    settings = {"include": ("ips",), "memory": "1"}
    config, made = config_for(log, tmp_path / "policy.bopl", **settings), count(monkeypatch)
    train(config_for(log, tmp_path / "whole.bopl", **settings))
    n_whole = made["rounds"]
    with monkeypatch.context() as patched:
        cut_at(patched, *PIECES_CUTS[at])
        with pytest.raises(Cut):
            train(config)
    train(config)
    assert any("Read in 1 piece" in str(sentence) for sentence in said)
    assert said.count(checkpoints.GOING_ON) == 1
    assert made["rounds"] <= 2 * n_whole  # both runs together have done no more than the one that was not cut
    assert contents(tmp_path / "policy.bopl") == contents(tmp_path / "whole.bopl")
