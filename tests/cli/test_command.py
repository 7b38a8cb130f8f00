import json
import re
import sys
from functools import partial

import pytest
from typer.testing import CliRunner

import bopl
from bopl import cli


@pytest.mark.parametrize("include", [["dr"], pytest.param(None, marks=pytest.mark.slow)], ids=["two", "all"])
def test_demo_shows_logging_reward_learned_reward_and_estimate_side_by_side(tmp_path, monkeypatch, include):
    monkeypatch.setattr("bopl.demo.AutoPolicy", partial(bopl.AutoPolicy, include))
    result = CliRunner().invoke(cli.app, ["demo", "--n-rounds", "20", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert f"Report: {tmp_path / 'report.html'}" in result.output
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf8"))["verdict"]["verdict"] == "better"
    assert bopl.BanditLog.read(tmp_path / "log.parquet").n_actions == 10
    for text in ("logging", "BOPL-regr", "BOPL-S-regr", "AutoPolicy", "true reward", "estimate from the log"):
        assert text in result.output
    learned = [float(value) for value in re.findall(r"BOPL-S?-?regr\s+│\s+([0-9.]+)", result.output)]
    assert len(learned) == 2
    assert min(learned) > 0.7
    (raced,) = re.findall(r"AutoPolicy\s+│\s+([0-9.]+)", result.output)
    assert float(raced) > max(0.9, *learned)
    assert "candidates race." in result.output


def test_help_has_an_example():
    assert "Example: bopl demo" in CliRunner().invoke(cli.app, ["demo", "--help"]).output


def test_errors_are_one_sentence_without_a_traceback(monkeypatch, capsys):
    def fail(**settings):
        raise ValueError("the log is empty.")

    monkeypatch.setattr("bopl.demo.run_demo", fail)
    monkeypatch.setattr(sys, "argv", ["bopl", "demo"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "bopl: the log is empty.\n"
