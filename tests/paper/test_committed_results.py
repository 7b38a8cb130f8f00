"""The committed results: complete, of today's settings, and what the texts about them say."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bopl import cli
from bopl_paper.catalogue import COLUMNS, DATASETS, DEFAULT, METHODS, NOISY, NOISY_METHODS, PAPER_METHODS, SPLITS
from bopl_paper.paper_result import paper_reward
from bopl_paper.result_line import collect, read_results
from bopl_paper.result_table import TOLERANCE
from bopl_paper.task import current_lines, figure_plan, full_plan, without_done

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
MATCHING = ("covertype", "fashion_mnist", "scene", "tmc2007_500_v1")  # the versions of the data that the paper used
HEADLINE_COLUMNS = ("covertype", "fashion_mnist", "scene", "tmc2007_500")
HEADLINE_ROWS = {
    "the policy that wrote the log": "logging",
    "XGBoost on rewards (BRR-xgb)": "brr-xgb",
    "network on rewards (DRR)": "drr",
    "network on the policy's reward (BanditNet)": "banditnet",
    "trees on the policy's reward (BOPL-S-regr)": "bopl-s-regr",
    "**`AutoPolicy()`**, no settings": "bopl",
}


@pytest.fixture(scope="module")
def cells():
    return collect(read_results(RESULTS))


@pytest.fixture(scope="module")
def lines():
    return read_results(RESULTS)


def test_nothing_is_left_to_run_of_the_papers_with_the_settings_of_today(lines):
    papers = [
        line for line in lines if line["dataset"] in DATASETS and line["method"] in {*PAPER_METHODS, "bopl-cs-regr"}
    ]
    assert len(papers) == 5 * 9 * 10 + 3
    assert without_done(full_plan(DATASETS, PAPER_METHODS, range(10)) + figure_plan(), lines) == []


# What is not of the paper: datasets, methods, trials.
ADDED = {
    "the default": (tuple(DATASETS), (DEFAULT,), range(10)),
    "Scene over splits": ((SPLITS,), tuple(METHODS), range(10)),
    "noisy rewards": (NOISY, tuple(NOISY_METHODS), range(3)),
}


@pytest.mark.parametrize("name", ADDED)
def test_what_was_added_is_complete(name, lines):
    left = [task.label for task in without_done(full_plan(*ADDED[name]), lines)]
    if left:
        pytest.skip(f"{len(left)} trials of {name} are still to be run, the first: {left[0]}")


def test_every_line_is_of_todays_settings_in_its_file_and_there_once(lines):
    assert current_lines(lines) == lines
    for path in RESULTS.glob("*.jsonl"):
        known = {name for name, column in COLUMNS.items() if column.file == path.stem} or {"covertype"}  # the figure's
        assert {line["dataset"] for line in map(json.loads, path.read_text(encoding="utf8").splitlines())} <= known
    keys = [(line["dataset"], line["method"], line["trial"]) for line in lines if "gradient_norm" not in line]
    assert len(keys) == len(set(keys))


def test_lines_of_the_default_tell_who_won_and_what_it_earns_as_it_samples(lines):
    found = [line for line in lines if line["method"] == DEFAULT]
    if not found:
        pytest.skip("the default has no lines yet")
    for line in found:
        assert line["hyper_parameters"] == {}
        assert line["winners"]
        assert all(name in line["verdict"] for name in line["winners"]) or "logging policy" in line["verdict"]
        assert 0.0 < line["value_sampled"] <= line["test_reward"] + 0.05


def test_noisy_samples_are_as_many_as_the_study_says(lines):
    found = [line for line in lines if line["dataset"] in NOISY]
    if not found:
        pytest.skip("there are no lines of noisy rewards yet")
    sizes = {
        "noisy_covertype": 50_000,
        "noisy_fashion_mnist": 48_600,
        "noisy_world_50": 20_000,
        "noisy_world_200": 20_000,
    }
    assert {line["n_train"] for line in found if line["dataset"] in sizes} <= set(sizes.values())
    for line in found:
        assert line["n_train"] == sizes.get(line["dataset"], line["n_train"])
        assert line["hyper_parameters"].get("tree_method", "hist") == "hist"


@pytest.mark.parametrize("name", ["tables.md", "tables.tex", "noisy.md"])
def test_tables_are_those_of_the_lines(name, tmp_path):
    if not (RESULTS / name).exists():
        assert not (RESULTS / name).with_suffix(".jsonl").exists(), f"{name} is missing: bopl reproduce table"
        pytest.skip(f"there is no {name} yet")
    shutil.copytree(RESULTS, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    done = CliRunner().invoke(cli.app, ["reproduce", "table", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / name).read_text(encoding="utf8") == (RESULTS / name).read_text(encoding="utf8")


@pytest.mark.parametrize("dataset", MATCHING)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_no_mean_is_far_below_the_papers(method, dataset, cells):
    assert cells[method, dataset].n_trials == 10
    assert cells[method, dataset].mean >= paper_reward(method, dataset).mean - TOLERANCE


def test_the_readmes_rewards_are_those_of_the_lines(cells):
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    for title, method in HEADLINE_ROWS.items():
        (row,) = re.findall(rf"^\| {re.escape(title)} \|(.+)\|$", readme, re.M)
        told = [float(number.strip(" *")) for number in row.split("|")]
        assert told == [round(cells[method, dataset].mean, 3) for dataset in HEADLINE_COLUMNS]
