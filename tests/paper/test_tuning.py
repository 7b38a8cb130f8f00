import json

import pytest
from typer.testing import CliRunner

from bopl import cli
from bopl.search import Float, Int
from bopl_paper.catalogue import DATASETS, PAPER_METHODS, read_config
from bopl_paper.paper_search import paper_space, tune
from bopl_paper.task import Task
from bopl_paper.task_run import run_task


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("method", [method for method in PAPER_METHODS if method != "logging"])
def test_ranges_of_the_paper_make_a_space(dataset, method):
    space = paper_space(dataset, method)
    assert set(space) == set(read_config(dataset, method).search)
    assert all(isinstance(each, Int | Float) for each in space.values())


def test_a_dataset_the_paper_does_not_know_has_no_ranges():
    with pytest.raises(ValueError, match="the paper has no search for drr on digits"):
        paper_space("digits", "drr")
    with pytest.raises(ValueError, match="the paper has no search for bopl on scene"):
        paper_space("scene", "bopl")


@pytest.mark.usefixtures("paper_data")
def test_tiny_search_on_scene_scores_by_validation_reward(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    narrow = {"n_rounds": Int(2, 5), "max_depth": Int(2, 4)}
    monkeypatch.setattr("bopl_paper.paper_search.paper_space", lambda dataset, method: narrow)
    settings = {"trials": (0,), "study": tmp_path / "study.log", "n_samples": 600}
    result = tune("scene", "bopl-s-regr", n_configurations=2, **settings)
    assert 0.3 < result.value < 1.0
    assert result.policy.reward_translation == read_config("scene", "bopl-s-regr").policy["reward_translation"]
    assert len(tune("scene", "bopl-s-regr", n_configurations=3, **settings).configurations) == 3


def narrow_digits(monkeypatch):
    """Search the digits, which need no download, in ranges that take no time."""
    pytest.importorskip("optuna")
    narrow = {"n_rounds": Int(2, 4), "max_depth": Int(2, 3)}
    monkeypatch.setattr("bopl_paper.paper_search.paper_space", lambda dataset, method: narrow)


def test_one_methods_study_is_not_anothers(tmp_path, monkeypatch):
    narrow_digits(monkeypatch)
    settings = {"study": tmp_path / "study.log", "n_configurations": 1}
    value = tune("digits", "bopl-s-regr", trials=(0,), **settings).value
    assert tune("digits", "bopl-s-regr", trials=(0,), **settings).value == value
    with pytest.raises(ValueError, match="another method; use another file"):
        tune("digits", "bopl-regr", trials=(0,), **settings)
    with pytest.raises(ValueError, match="another trials; use another file"):
        tune("digits", "bopl-s-regr", trials=(0, 1), **settings)
    with pytest.raises(ValueError, match="another n_samples; use another file"):
        tune("digits", "bopl-s-regr", trials=(0,), n_samples=600, **settings)


def test_command_keeps_a_study_for_each_dataset_and_method(tmp_path, monkeypatch):
    narrow_digits(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for method in ("bopl-regr", "bopl-s-regr"):
        arguments = ["--dataset", "digits", "--method", method, "--configurations", "1", "--trials", "1", "--jobs", "1"]
        result = CliRunner().invoke(cli.app, ["reproduce", "search", *arguments])
        assert result.exit_code == 0, result.exception
        assert "best of 1" in result.output
    told = json.loads(CliRunner().invoke(cli.app, ["reproduce", "search", *arguments, "--json"]).output)
    assert (told["n_configurations"], told["exit_code"]) == (1, 0)
    assert set(told["settings"]) == {"n_rounds", "max_depth"}
    found = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert found == ["study-digits-bopl-regr.log", "study-digits-bopl-s-regr.log"]


def test_a_search_scores_what_the_runner_would_measure(monkeypatch):
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    narrow = {"n_epochs": Int(1, 2)}
    monkeypatch.setattr("bopl_paper.paper_search.paper_space", lambda dataset, method: narrow)
    settings = {"trials": (2, 3), "n_samples": 600, "device": "cpu"}
    result = tune("digits", "drr", n_configurations=1, **settings)
    known = read_config("digits", "drr").policy | result.settings
    tasks = [Task("digits", "drr", (trial,), known, 600, device="cpu") for trial in (2, 3)]
    lines = [line for task in tasks for line in run_task(task)]
    assert result.value == pytest.approx(sum(line["validation_reward"] for line in lines) / 2, abs=1e-12)
