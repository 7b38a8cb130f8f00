"""The committed results: complete, of today's settings, and what the texts about them say."""

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bopl import cli
from bopl.experiment.config import DATASETS, METHODS
from bopl.experiment.paper import paper_reward
from bopl.experiment.plan import figure_plan, full_plan, without_done
from bopl.experiment.result import collect, read_results
from bopl.experiment.table import TOLERANCE

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
}


@pytest.fixture(scope="module")
def cells():
    return collect(read_results(RESULTS))


def test_nothing_is_left_to_run_with_the_settings_of_today():
    lines = read_results(RESULTS)
    assert len(lines) == 5 * 9 * 10 + 3
    assert without_done(full_plan(DATASETS, METHODS, range(10)) + figure_plan(), lines) == []


@pytest.mark.parametrize("name", ["tables.md", "tables.tex"])
def test_tables_are_those_of_the_lines(name, tmp_path):
    shutil.copytree(RESULTS, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    done = CliRunner().invoke(cli.app, ["reproduce", "table", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / name).read_text(encoding="utf8") == (RESULTS / name).read_text(encoding="utf8")


@pytest.mark.parametrize("dataset", MATCHING)
@pytest.mark.parametrize("method", METHODS)
def test_no_mean_is_far_below_the_papers(method, dataset, cells):
    assert cells[method, dataset].n_trials == 10
    assert cells[method, dataset].mean >= paper_reward(method, dataset).mean - TOLERANCE


def test_the_readmes_rewards_are_those_of_the_lines(cells):
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    for title, method in HEADLINE_ROWS.items():
        (row,) = re.findall(rf"^\| {re.escape(title)} \|(.+)\|$", readme, re.M)
        told = [float(number.strip(" *")) for number in row.split("|")]
        assert told == [round(cells[method, dataset].mean, 3) for dataset in HEADLINE_COLUMNS]
