"""The runner: one trial to the last digit, resuming, kills, failures. All on the digits, which need no download."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from bopl import cli
from bopl_paper.dataset import load_dataset, paper_split
from bopl_paper.method import resolve_device
from bopl_paper.result_line import append_lines, read_results
from bopl_paper.runner import Clock, Outcome, run_plan
from bopl_paper.task import Task, without_done
from bopl_paper.task_run import _describe_race, make_problem, run_task

SETTINGS = {"n_rounds": 5, "max_depth": 4, "min_child_weight": 5, "reward_translation": -0.2}
TASK = Task("digits", "bopl-s-regr", (0,), SETTINGS)
FIELDS = {
    "dataset", "method", "trial", "test_reward", "validation_reward", "seed", "hyper_parameters", "versions",
    "duration", "memory",
}  # fmt: skip


def without_measurements(line):
    return {name: value for name, value in line.items() if name not in ("duration", "memory")}


def test_a_line_has_every_field_and_a_second_run_gives_it_again_to_the_last_digit():
    (one,), (two,) = run_task(TASK), run_task(TASK)
    assert set(one) >= FIELDS
    assert without_measurements(one) == without_measurements(two)
    assert one["memory"] > 10
    assert json.loads(json.dumps(one)) == one


@pytest.mark.parametrize("method", ["drr", "banditnet"])
def test_networks_repeat_their_line_and_train_in_lockstep(method):
    pytest.importorskip("torch")
    settings = {"n_hidden_layers": 1, "first_layer_width": 16, "n_epochs": 2, "scaling": "max"}
    (one,), (two,) = (run_task(Task("digits", method, (1,), settings, device="cpu")) for _ in range(2))
    assert without_measurements(one) == without_measurements(two)
    together = run_task(Task("digits", method, (0, 1), settings, device="cpu"))
    assert [line["trial"] for line in together] == [0, 1]
    assert {line["together"] for line in together} == {2}


def test_a_line_tells_the_device_that_was_used_and_is_found_again_whatever_it_is():
    (line,) = run_task(TASK)
    assert (TASK.device, line["device"]) == ("auto", "cpu")
    assert without_done([TASK], [line]) == without_done([TASK], [line | {"device": "cuda"}]) == []
    pytest.importorskip("torch")
    settings = {"n_hidden_layers": 1, "first_layer_width": 8, "n_epochs": 1}
    (line,) = run_task(Task("digits", "drr", (0,), settings))
    assert line["device"] == ("cuda" if has_gpu() else "cpu")


def has_gpu():
    import torch

    return torch.cuda.is_available()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_defaults_device_is_that_of_the_network_it_may_train(monkeypatch, is_there):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    assert resolve_device("bopl", "auto") == ("cuda" if is_there else "cpu")
    assert resolve_device("bopl-regr", "auto") == "cpu"
    monkeypatch.setattr("bopl_paper.method.find_spec", lambda package: None)
    assert resolve_device("bopl", "auto") == "cpu"


@pytest.mark.parametrize(("is_there", "size"), [(True, 10), (False, 1)])
def test_trials_of_networks_train_together_where_auto_means_a_gpu(tmp_path, monkeypatch, is_there, size):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    planned = []
    monkeypatch.setattr("bopl_paper.runner.run_plan", lambda tasks, *args, **more: planned.extend(tasks) or Outcome())
    arguments = ["run", "--datasets", "digits", "--methods", "drr,bopl-regr", "--out", str(tmp_path)]
    assert CliRunner().invoke(cli.app, ["reproduce", *arguments]).exit_code == 0
    assert {len(task.trials) for task in planned if task.method == "drr"} == {size}
    assert {len(task.trials) for task in planned if task.method == "bopl-regr"} == {1}


def test_logging_policy_is_measured_as_it_is_and_not_made_greedy():
    (line,) = run_task(Task("digits", "logging", (2,)))
    assert line["test_reward"] == line["logging_reward"] == pytest.approx(0.5, abs=0.05)


def test_the_logging_policys_most_probable_action_is_another_method():
    (sampled,), (greedy,) = (run_task(Task("digits", method, (2,))) for method in ("logging", "logging-greedy"))
    problem = make_problem("digits", 2, None)
    assert greedy["test_reward"] == problem.true_value(problem.logging_policy) > sampled["test_reward"]
    assert greedy["logging_reward"] == sampled["test_reward"]


def test_a_line_of_the_default_has_the_verdict_the_winners_and_the_value_as_sampled():
    settings = {"include": ["regression", "likelihood"]}
    (line,) = run_task(Task("noisy_digits", "bopl", (1,), settings, 600))
    assert set(line) >= FIELDS
    assert line["verdict"]
    assert line["winners"]
    assert set(line["winners"]) <= {"logging", "regression", "likelihood"}
    assert 0.1 < line["value_sampled"] <= line["test_reward"] + 0.1 <= 1.1
    assert json.loads(json.dumps(line)) == line


def test_winners_are_the_parts_of_a_blend_or_the_one_that_won():
    def winners(*rows):
        entries = [SimpleNamespace(candidate=candidate, status=status) for candidate, status in rows]
        return _describe_race(Board(entries))["winners"]

    class Board(list):
        verdict = "It won."

    assert winners(("blend", "won"), ("dr", "in the blend"), ("ips", "in the blend"), ("logging", "raced")) == [
        "dr",
        "ips",
    ]
    assert winners(("dr", "won"), ("ips", "raced")) == ["dr"]


def test_figure_task_records_every_round():
    (line,) = run_task(Task("digits", "bopl-cs-regr", (0,), SETTINGS | {"reward_translation": 0.0}, is_figure=True))
    assert [len(line[name]) for name in ("gradient_norm", "training_reward", "round_reward")] == [5, 5, 5]
    assert line["test_reward"] == pytest.approx(line["round_reward"][-1], abs=1e-6)


@pytest.mark.usefixtures("paper_data")
def test_regressors_line_on_scene_has_the_direct_methods_estimates():
    pytest.importorskip("xgboost")
    settings = {"n_rounds": 5, "max_depth": 3, "min_child_weight": 5, "learning_rate": 0.3}
    (line,) = run_task(Task("scene", "brr-xgb", (0,), settings, n_samples=600))
    assert set(line["direct_method"]) == {"brr-xgb", "bopl-regr"}
    # The regressor's own policy picks what it predicts best: no other can look better to it.
    assert line["direct_method"]["brr-xgb"] >= line["direct_method"]["bopl-regr"]


def test_smaller_problems_have_about_the_samples_asked_for():
    problem = make_problem("digits", 0, 600)
    assert abs(problem.train.n_samples - 600) < 60
    assert problem.train.n_samples < make_problem("digits", 0, None).train.n_samples


def test_noisy_rewards_keep_contexts_actions_and_propensities_of_their_split():
    problem = make_problem("noisy_digits", 3, None)
    assert set(np.unique(problem.train.reward)) == set(np.unique(problem.test_reward)) == {0.0, 1.0}
    assert problem.train.reward.mean() == pytest.approx(0.2 + 0.4 * 0.5, abs=0.05)  # half of the actions are right
    tests = [make_problem("noisy_digits", trial, None).test.context for trial in range(2)]
    assert not np.array_equal(*tests)


def test_a_world_is_a_column_without_data(no_data, tmp_path):
    settings = {"logging-greedy": {}, "bopl-s-regr": SETTINGS}
    tasks = [Task("noisy_world_50", method, (0,), one, n_samples=1500) for method, one in settings.items()]
    assert run_plan(tasks, tmp_path).failures == []
    lines = read_results(tmp_path)
    assert {line["method"] for line in lines} == set(settings)
    assert {(line["dataset"], line["n_train"]) for line in lines} == {("noisy_world_50", 1500)}
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["noisy.jsonl"]


@pytest.mark.usefixtures("paper_data")
def test_trials_on_splits_of_scene_are_on_the_split_of_their_number():
    data = load_dataset("scene")
    for trial in (2, 4):
        context = make_problem("scene_splits", trial, None).test.context
        np.testing.assert_array_equal(context, data.context[paper_split(data, random_state=trial).test])
    # Seed 4 is the split of all trials of the column "scene".
    one, two = (make_problem(name, 4, None).train.fingerprint() for name in ("scene_splits", "scene"))
    assert one == two


@pytest.mark.usefixtures("paper_data")
def test_drawn_samples_differ_from_trial_to_trial_and_the_test_part_stays_whole():
    one, two = (make_problem("noisy_covertype", trial, None) for trial in (0, 1))
    assert (one.train.n_samples, one.test.n_samples) == (50_000, 58_101)
    assert one.train.fingerprint() != two.train.fingerprint()


def test_runner_writes_what_is_missing_and_says_where_it_stands(tmp_path, said):
    tasks = [TASK, Task("digits", "logging", (0,)), Task("digits", "logging", (1,))]
    append_lines(tmp_path, run_task(tasks[1]))
    outcome = run_plan(tasks, tmp_path, n_jobs=2)
    assert (outcome.n_written, outcome.failures) == (2, [])
    assert said[0].startswith("3 trials, 1 of them already done; the rest takes about ")
    assert said[-1].startswith("[3/3] digits ")
    lines = read_results(tmp_path)
    assert len(lines) == 3
    (found,) = [line for line in lines if line["method"] == "bopl-s-regr"]
    assert found["test_reward"] == run_task(TASK)[0]["test_reward"]
    assert run_plan(tasks, tmp_path).n_written == 0
    assert len(read_results(tmp_path)) == 3


def test_a_worker_that_dies_is_a_failure_of_its_task_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("bopl_paper.runner.work", _die)
    outcome = run_plan([TASK], tmp_path)
    assert "ended without a result (exit code 3" in outcome.failures[0]


def _die(connection):
    os._exit(3)


@pytest.mark.parametrize(("n_samples", "n_processes"), [(600, 1), (None, 2)])
def test_small_tasks_share_a_process_full_ones_have_their_own_and_after_one_that_fails_the_others_go_on(
    tmp_path, monkeypatch, n_samples, n_processes
):
    from bopl_paper import runner

    started, start = [], runner._start
    monkeypatch.setattr(runner, "_start", lambda task: started.append(task) or start(task))
    bad = Task("digits", "bopl-s-regr", (0,), SETTINGS | {"n_rounds": -1}, n_samples)
    good = Task("digits", "logging", (1,), n_samples=n_samples)
    outcome = run_plan([bad, good], tmp_path)
    assert (outcome.n_written, len(started)) == (1, n_processes)
    assert outcome.failures == ["digits bopl-s-regr trial 0: ValueError: n_rounds must be at least 0; got -1."]
    (line,) = read_results(tmp_path)
    assert line["test_reward"] == run_task(good)[0]["test_reward"]


@pytest.mark.parametrize("minutes", [1e-9, 0.02])
def test_a_run_whose_time_is_up_ends_its_workers_and_says_what_is_left(tmp_path, minutes, said):
    settings = {"n_rounds": 100_000, "max_depth": 4, "min_child_weight": 5}
    tasks = [Task("digits", "bopl-regr", (trial,), settings) for trial in range(3)]
    outcome = run_plan(tasks, tmp_path, n_jobs=2, minutes=minutes)
    assert (outcome.n_written, outcome.n_left, outcome.failures) == (0, 3, [])
    assert said[-1] == "The time is up, and 3 trials are left; run the same command again to continue."


ENDLESS = """
import logging, signal, sys, pathlib
from bopl_paper.task import Task
from bopl_paper.runner import run_plan
if __name__ == '__main__':
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored, and the run go on to its end
    settings = {'n_rounds': 100000, 'max_depth': 4, 'min_child_weight': 5}
    tasks = [Task('digits', 'logging', (0,)), Task('digits', 'bopl-regr', (0,), settings)]
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format='%(message)s')
    run_plan(tasks, pathlib.Path(sys.argv[1]), n_jobs=2)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.slow), "SIGKILL"])
def test_a_run_that_is_ended_ends_its_workers_and_keeps_finished_lines(tmp_path, name):
    script, folder, number = tmp_path / "run.py", tmp_path / "results", getattr(signal, name)
    script.write_text(ENDLESS)
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        for text in process.stdout:
            if text.startswith("[1/2]"):
                break
        process.send_signal(number)
        process.communicate(timeout=600)  # its workers write to the same pipe: it ends when the last of them has
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode == -number) == (name == "SIGKILL")
    assert [line["method"] for line in read_results(folder)] == ["logging"]


def test_clock_corrects_expected_durations_by_those_seen():
    tasks = [Task("digits", "drr", (0,), threads=2, seconds=10.0) for _ in range(4)]
    clock = Clock(tasks, n_jobs=2)
    assert clock.seconds_left == 20.0
    clock.finish(tasks[0], 30.0)
    assert clock.seconds_left == pytest.approx(45.0)


def test_command_runs_lists_and_tabulates(tmp_path):
    invoke = CliRunner().invoke
    out = ["--out", str(tmp_path)]
    result = invoke(
        cli.app, ["reproduce", "run", "--datasets", "digits", "--methods", "logging,bopl-s-regr", "--trials", "1", *out]
    )
    assert result.exit_code == 0, result.output
    assert "2 trials, 0 of them already done" in result.output
    assert "logging" in invoke(cli.app, ["reproduce", "list", *out]).output
    result = invoke(cli.app, ["reproduce", "table", *out])
    assert "| Logging |" in result.output
    assert "cannot be judged yet" in result.output
    assert (tmp_path / "tables.md").is_file()
    assert r"\begin{tabular}" in (tmp_path / "tables.tex").read_text()
    listed = json.loads(invoke(cli.app, ["reproduce", "list", "--json", *out]).output)
    assert listed["done"]["digits"] == {"logging": 1, "bopl-s-regr": 1}
    again = ["reproduce", "run", "--datasets", "digits", "--methods", "logging", "--trials", "1", "--json", *out]
    assert json.loads(invoke(cli.app, again).output) == {"folder": str(tmp_path), "n_left": 0, "exit_code": 0}
    told = json.loads(invoke(cli.app, ["reproduce", "table", "--json", *out]).output)
    records = {(record["dataset"], record["method"]): record for record in told["rewards"]}
    assert records.keys() == {(line["dataset"], line["method"]) for line in read_results(tmp_path)}
    assert {claim["holds"] for claim in told["claims"]} == {None}


def test_command_runs_noisy_rewards_and_writes_their_page(tmp_path):
    call = ["noisy", "--datasets", "digits", "--methods", "logging,logging-greedy", "--trials", "1", "--jobs", "1"]
    result = CliRunner().invoke(cli.app, ["reproduce", *call, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "| Logging, most probable action |" in (tmp_path / "noisy.md").read_text(encoding="utf8")
    assert {line["dataset"] for line in read_results(tmp_path)} == {"noisy_digits"}
    told = json.loads(CliRunner().invoke(cli.app, ["reproduce", *call, "--json", "--out", str(tmp_path)]).output)
    assert (told["n_left"], told["standings"], told["exit_code"]) == (0, [], 0)


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """No data file anywhere."""
    monkeypatch.setenv("BOPL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BOPL_OFFLINE", "1")


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("arguments", [["--quick"], ["run"], ["figure"]])
def test_without_data_nothing_is_begun_and_the_file_the_folder_and_the_variable_are_named(tmp_path, arguments):
    result = CliRunner().invoke(cli.app, ["reproduce", *arguments, "--out", str(tmp_path / "results")])
    assert isinstance(result.exception, FileNotFoundError)
    assert re.search(r"data file \w+\.npz is in none of these folders: .*/data, .*BOPL_DATA", str(result.exception))
    assert "failed" not in result.output
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("no_data")
def test_a_damaged_data_file_stops_a_run_before_it_begins(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "scene.npz").write_bytes(b"broken")
    arguments = ["reproduce", "run", "--datasets", "scene", "--out", str(tmp_path / "results")]
    result = CliRunner().invoke(cli.app, arguments)
    assert re.search(r"data file \S*scene\.npz is damaged or another version: its SHA-256", str(result.exception))
    assert "failed" not in result.output
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("no_data")
def test_data_is_not_asked_for_when_every_trial_is_done(tmp_path):
    task = Task("scene", "logging", (0,))
    line = {"dataset": "scene", "method": "logging", "trial": 0, "hyper_parameters": {}, "n_samples": None}
    append_lines(tmp_path, [line])
    assert run_plan([task], tmp_path).failures == []


def test_failures_are_told_although_nothing_can_be_tabulated(tmp_path, monkeypatch):
    from bopl_paper import runner

    outcomes = iter([Outcome(failures=["scene drr trial 0: it broke."]), Outcome(failures=[])])
    monkeypatch.setattr(runner, "run_plan", lambda *arguments, **options: next(outcomes))
    result = CliRunner().invoke(cli.app, ["reproduce", "--out", str(tmp_path)])
    assert str(result.exception) == "1 task failed, the first: scene drr trial 0: it broke."
    assert "there are no result lines" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--datasets", "mnist"], "--datasets knows covertype, .* and all; got mnist"),
        (["run", "--methods", "dqn"], "--methods knows logging, .* and all; got dqn"),
        (["noisy", "--datasets", "scenes"], "--datasets knows covertype, .* world_200 and all; got scenes"),
        (["run", "--trials", "many"], "--trials takes a number of trials, a range like 0-9"),
        (["run", "--quick", "--trials", "3"], "a quick run has its own trials: leave out --trials"),
        (["run", "--quick", "--together", "2", "--trials", "3"], "leave out --trials and --together"),
        (["--quick", "run"], "write --quick after run"),
        (["--threads", "2", "--device", "cpu", "figure"], "write --threads and --device after figure"),
        (["table"], r"there are no result lines in .* yet: run `bopl reproduce run` first"),
    ],
)
def test_command_refuses_in_one_sentence(tmp_path, arguments, message):
    result = CliRunner().invoke(cli.app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    with pytest.raises(ValueError, match=message):
        raise result.exception


def test_help_of_every_command_has_an_example():
    for arguments in ([], ["list"], ["run"], ["noisy"], ["table"], ["figure"], ["search"]):
        assert "Example: bopl reproduce" in CliRunner().invoke(cli.app, ["reproduce", *arguments, "--help"]).output


def test_networks_run_where_neither_the_compiled_engine_nor_xgboost_is_installed():
    pytest.importorskip("torch")
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['numba', 'llvmlite', 'xgboost', 'optuna']))\n"
        "from bopl import cli\n"
        "from bopl_paper import runner\n"
        "from bopl_paper.task import Task\n"
        "from bopl_paper.task_run import run_task\n"
        "settings = {'n_hidden_layers': 1, 'first_layer_width': 8, 'n_epochs': 1}\n"
        "print(len(run_task(Task('digits', 'banditnet', (0, 1), settings, device='cpu', threads=2))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "2\n", done.stderr


def test_the_default_runs_where_xgboost_is_not_installed():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['xgboost', 'optuna']))\n"
        "from bopl import cli\n"
        "from bopl_paper.task import Task\n"
        "from bopl_paper.task_run import run_task\n"
        "print(len(run_task(Task('digits', 'bopl', (0,), {'include': ['regression']}, 600))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


def test_methods_that_cannot_run_here_are_left_out_with_a_word(monkeypatch, capsys):
    from bopl_paper import names

    monkeypatch.setattr(names, "find_spec", lambda package: None)
    left = ["logging", "brr-gb", "bopl-regr", "bopl-class", "bopl-s-regr", "bopl-s-class", "bopl"]
    assert names.read_methods("all", print) == left
    assert "drr and banditnet are left out: they need torch, pip install 'bopl[deep]'" in capsys.readouterr().out
    assert names.read_methods("drr", print) == ["drr"]  # asked for by name: its task says what is missing
