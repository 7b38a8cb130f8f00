"""SIGTERM ends commands in an orderly way: what there is is kept, and the exit code says why it is not more."""

import os
import signal
import subprocess
import sys

import pytest
from typer.core import TyperGroup

import bopl
from bopl.boosting.loop import BoostingRun
from bopl.search import CrossValidatedScorer
from bopl.workflow.training import boost as boost_really
from product import ROLES, SMALL, click_table, run_bopl, run_json, write_log


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "log.parquet", n_samples=900)


def terminate(*ignored, **named):
    """Send SIGTERM to this very process."""
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("the signal is handled before the next line")


def test_ctrl_c_while_the_command_is_loaded_is_one_sentence():
    script = """
import importlib.abc, runpy, sys
class Ctrl(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "bopl.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Ctrl())
runpy.run_module("bopl", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bopl: interrupted.\n")


def test_a_single_objective_keeps_the_rounds_so_far_and_judges_them(log, tmp_path, monkeypatch, capsys):
    add_rounds = BoostingRun.add_rounds
    monkeypatch.setattr(BoostingRun, "add_rounds", lambda run, n, callbacks: add_rounds(run, 3, ()) or terminate())
    code, result = run_json(capsys, "train", log, *ROLES, *SMALL, "--ignore", "user", "--out", tmp_path / "p.bopl")
    assert code == result["exit_code"] == 143
    assert result["verdict"]
    assert 0 < bopl.load(tmp_path / "p.bopl").history_.n_rounds <= 3
    assert bopl.load(tmp_path / "p.run" / "policy.bopl").predict(click_table(20)).shape == (20,)


def test_a_race_keeps_the_best_so_far(log, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bopl.race.contender.Contender.advance", terminate)
    call = ("train", log, *ROLES, "--include", "dr", "--n-jobs", 1, "--ignore", "user", "--out", tmp_path / "p.bopl")
    code, result = run_json(capsys, *call)
    assert code == result["exit_code"] == 143
    assert bopl.load(tmp_path / "p.bopl").is_interrupted_


@pytest.mark.parametrize("moment", ["bopl.workflow.training.read_training_log", "bopl.workflow.training.split_log"])
def test_before_anything_was_learned_the_old_policy_stays(log, tmp_path, monkeypatch, capsys, moment):
    call = ("train", log, *ROLES, *SMALL, "--ignore", "user", "--out", tmp_path / "p.bopl")
    assert run_bopl(*call) in (0, 4)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(moment, terminate)
    capsys.readouterr()
    assert run_bopl(*call) == 143
    assert capsys.readouterr().err == "bopl: terminated.\n"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_while_the_line_is_read_it_is_the_same_code(log, monkeypatch):
    monkeypatch.setattr(TyperGroup, "parse_args", terminate)
    assert run_bopl("train", log) == 143


def test_a_module_whose_import_it_stops_is_not_missing(log, monkeypatch, capsys):
    def half_imported(*ignored, **named):
        try:
            terminate()
        except KeyboardInterrupt:  # as extension modules have it
            raise ImportError("numpy is not there") from None

    monkeypatch.setattr("bopl.workflow.training.read_training_log", half_imported)
    assert run_bopl("train", log, *ROLES, "--ignore", "user") == 143
    assert capsys.readouterr().err == "bopl: terminated.\n"


def test_while_it_is_judged_the_policy_is_there_without_a_verdict(log, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bopl.workflow.training.judge", terminate)
    assert run_bopl("train", log, *ROLES, *SMALL, "--ignore", "user", "--out", tmp_path / "p.bopl") == 143
    assert "There is no verdict, but the policy is trained and saved" in capsys.readouterr().out
    bopl.load(tmp_path / "p.bopl")


def test_a_search_writes_the_best_so_far(log, tmp_path, monkeypatch, capsys):
    scored = []

    class Ended(CrossValidatedScorer):
        def __call__(self, policy):
            scored.append(policy)
            return terminate() if len(scored) == 2 else super().__call__(policy)

    monkeypatch.setattr("bopl.workflow.tuning.CrossValidatedScorer", Ended)
    out = tmp_path / "tuned.toml"
    call = ("tune", log, *ROLES, "--ignore", "user", "--n-rounds", 20, "--folds", 2, "--trials", 3, "--out", out)
    code, result = run_json(capsys, *call)
    assert code == result["exit_code"] == 143
    assert len(result["configurations"]) == 1
    assert out.is_file()


def test_a_backtest_judges_the_periods_so_far(log, monkeypatch, capsys):
    calls = []

    def boost(*given, **named):
        calls.append(given)
        return terminate() if len(calls) == 2 else boost_really(*given, **named)

    monkeypatch.setattr("bopl.workflow.backtest.boost", boost)
    monkeypatch.setattr("bopl.cli.backtest._period_table", len)
    call = ("backtest", log, *ROLES, *SMALL, "--ignore", "user,when", "--time", "when", "--periods", 3)
    code, result = run_json(capsys, *call)
    assert code == result["exit_code"] == 143
    assert len(result["periods"]) == 1
