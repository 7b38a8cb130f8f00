"""Commands around the chain: reports, exports, tuning, several policies, help."""

import os
import subprocess
import sys
import tomllib

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bopl
from bopl.cli import app
from bopl.cli.main import app as main_app
from bopl.search import CrossValidatedScorer
from bopl.workflow.exporting import contexts_at_splits
from product import RACE, ROLES, SMALL, click_table, run_bopl, run_json, write_log

COMMANDS = (
    "demo",
    "audit",
    "plan",
    "train",
    "tune",
    "backtest",
    "evaluate",
    "predict",
    "report",
    "export",
    "loop",
    "reproduce",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("more")
    log = write_log(folder / "log.parquet", n_samples=2000)
    assert run_bopl("train", log, *ROLES, *SMALL, "--ignore", "user,when", "--out", folder / "policy.bopl") == 0
    return folder


def test_reports_are_written_again_from_the_summary_alone(trained):
    page = trained / "policy.run" / "report.html"
    before = page.read_text()
    page.unlink()
    assert run_bopl("report", trained / "policy.run") == 0
    assert page.read_text() == before
    assert run_bopl("report", trained / "policy.run" / "summary.json", "--out", trained / "copy.html") == 0
    assert (trained / "copy.html").read_text() == before


def test_a_policy_without_a_log_is_told_where_its_run_is(trained, capsys):
    assert run_bopl("report", trained / "policy.bopl") == 2
    assert f"the run that made it is in {str(trained / 'policy.run')!r}" in capsys.readouterr().err


def into_closed_pipe(*arguments):
    """Run the command in a process of its own whose output nobody reads; return its exit code and its errors."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    call = [sys.executable, "-m", "bopl", *map(str, arguments)]
    done = subprocess.run(call, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    return done.returncode, done.stderr


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_a_run_goes_on_when_nobody_reads_what_it_prints(trained, more):
    call = ("train", trained / "log.parquet", *ROLES, *SMALL, "--ignore", "user,when")
    assert into_closed_pipe(*call, "--out", trained / "unread.bopl", *more) == (0, "")
    assert (trained / "unread.bopl").read_bytes() == (trained / "policy.bopl").read_bytes()
    assert (trained / "unread.run" / "report.html").is_file()


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_text_that_nobody_reads_changes_no_exit_code(trained, more):
    code, errors = into_closed_pipe("audit", trained / "none.parquet", *more)
    assert (code, errors.count("\n")) == (2, 1)
    if more:
        return
    call = ("run", "--datasets", "digits", "--methods", "logging", "--trials", "1", "--jobs", "1")
    out = trained / "unread"
    assert into_closed_pipe("reproduce", *call, "--out", out) == (0, "")
    assert (out / "digits.jsonl").is_file()
    assert into_closed_pipe("--help") == into_closed_pipe("--version") == (0, "")


def test_baselines_cannot_be_exported_and_say_so(trained, capsys):
    log = bopl.BanditLog.read(trained / "log.parquet", action="item", reward="click", propensity="p", context=["age"])
    bopl.baseline.BoostedRewardPolicy(n_rounds=2).fit(log).save(trained / "baseline.bopl")
    for target in ("onnx", "xgboost"):
        assert run_bopl("export", trained / "baseline.bopl", "--to", target) == 2
        assert "BoostedRewardPolicy cannot be exported, but BoostedPolicy can" in capsys.readouterr().err


def test_categories_that_a_policy_never_saw_are_told(trained, capsys):
    table = click_table(1000, seed=5)
    city = np.where(np.arange(1000) < 50, "Oslo", table["city"].to_numpy(zero_copy_only=False))
    moved, policy = trained / "moved.parquet", trained / "policy.bopl"
    pq.write_table(table.set_column(0, "city", [city.astype(str)]), moved)
    calls = {
        "predict": ("predict", moved, policy, "--out", trained / "moved.csv"),
        "evaluate": ("evaluate", moved, policy, "--estimators", "snips"),
        "report": ("report", moved, policy, "--estimators", "snips", "--out", trained / "moved.html"),
    }
    for call in calls.values():
        (warning,) = run_json(capsys, *call)[1]["warnings"]
        assert warning.startswith("5% of the rows hold a 'city' that was not there when the policy was fitted")
    run_bopl(*calls["predict"])
    assert f"Warning: {warning}" in capsys.readouterr().out


def test_a_report_of_a_policy_on_another_log(trained, capsys):
    later = write_log(trained / "later.parquet", n_samples=1000, seed=4)
    out = trained / "later.html"
    code, result = run_json(capsys, "report", later, trained / "policy.bopl", "--out", out, "--estimators", "snips,ips")
    assert (code, result["verdict"]["verdict"]) == (0, "better")
    assert "Rom" in out.read_text()  # categories by name
    few = write_log(trained / "few.parquet", n_samples=30, seed=4)
    code, result = run_json(capsys, "report", few, trained / "policy.bopl", "--out", out, "--estimators", "snips")
    assert (code, result["verdict"]["verdict"]) == (4, "not trustworthy")


def test_times_and_groups_that_a_later_log_does_not_have_are_done_without(trained, capsys):
    policy = trained / "grouped.bopl"
    roles = (*ROLES, "--group", "user", "--time", "when", "--ignore", "when")  # else weekday and hour are context
    assert run_bopl("train", trained / "log.parquet", *roles, *SMALL, "--out", policy) == 0
    later = trained / "ungrouped.parquet"
    pq.write_table(click_table(1000, seed=4).drop_columns(["user", "when"]), later)
    _, result = run_json(capsys, "evaluate", later, policy, "--estimators", "snips")
    assert result["warnings"] == [
        "the log has no column 'user', the group of samples when grouped was trained: samples are assumed to "
        "be independent, and intervals may be too narrow."
    ]
    code, result = run_json(capsys, "evaluate", later, policy, "--group", "user")
    assert (code, "there is no column 'user' (given as group)" in result["error"]) == (2, True)


@pytest.mark.parametrize(("target", "name"), [("xgboost", "policy.json"), ("onnx", "policy.onnx")])
def test_exports_agree_with_the_policy(trained, capsys, target, name):
    code, result = run_json(capsys, "export", trained / "policy.bopl", "--to", target)
    assert code == 0
    assert result["path"] == str(trained / name)
    assert result["largest_difference"] < 1e-5
    assert not list(trained.glob(".*part*"))


@pytest.fixture(scope="module")
def raced(trained):
    """The winner of a race."""
    log, out = trained / "log.parquet", trained / "raced.bopl"
    assert run_bopl("train", log, *ROLES, *RACE, "--ignore", "user,when", "--out", out) == 0
    return out


@pytest.mark.parametrize("target", ["xgboost", "onnx"])
def test_the_winner_of_a_race_is_exported(raced, capsys, target):
    code, result = run_json(capsys, "export", raced, "--to", target)
    assert code == 0
    assert result["largest_difference"] < 1e-4


def test_a_blend_has_no_xgboost_form_and_says_so(raced, tmp_path, capsys):
    policy = bopl.load(raced)
    policy.best_policy_ = bopl.BlendedPolicy.of([policy.best_policy_] * 2)
    policy.save(tmp_path / "blend.bopl")
    code, result = run_json(capsys, "export", tmp_path / "blend.bopl", "--to", "xgboost")
    assert (code, "a blend of 2 policies" in result["error"]) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["blend.bopl"]


@pytest.mark.parametrize("more", [(), ("--sample",)], ids=["best", "drawn"])
def test_a_policy_that_always_takes_its_best_action_is_said_to_explore_nothing(raced, tmp_path, capsys, more):
    policy = bopl.load(raced)
    policy.best_policy_.set_params(inverse_temperature=float("inf"))
    policy.save(tmp_path / "greedy.bopl")
    out = tmp_path / "decisions.parquet"
    assert run_bopl("predict", raced.parent / "log.parquet", tmp_path / "greedy.bopl", "--out", out, *more) == 0
    assert "The policy always takes its best action and explores nothing" in capsys.readouterr().out


def test_contexts_for_the_check_visit_the_splits_of_all_parts(raced):
    policy = bopl.load(raced)
    trees = [one.tree for one in policy.best_policy_.ensemble_.start.predictors]
    context = contexts_at_splits(policy)
    thresholds = {float(tree.threshold[0]) for tree in trees if tree.feature[0] >= 0 and np.isfinite(tree.threshold[0])}
    assert thresholds <= set(context[~np.isnan(context)].tolist())


def test_the_report_of_a_race_on_another_log_shows_the_race_without_its_times(raced, tmp_path, capsys):
    later = write_log(tmp_path / "later.parquet", n_samples=800, seed=4)
    page = tmp_path / "later.html"
    code, _ = run_json(capsys, "report", later, raced, "--out", page, "--estimators", "snips,ips")
    assert code == 0
    assert "2 candidates raced on" in page.read_text()
    assert "NaN" not in page.read_text().split('id="summary"')[1].split("</script>")[0]


def test_an_interrupted_race_is_exit_code_130_with_a_verdict(trained, tmp_path, monkeypatch, capsys):
    def interrupted(self, n_rounds):
        raise KeyboardInterrupt

    monkeypatch.setattr("bopl.race.contender.Contender.advance", interrupted)
    call = ("train", trained / "log.parquet", *ROLES, "--include", "dr", "--n-jobs", 1, "--out", tmp_path / "p.bopl")
    code, result = run_json(capsys, *call)
    assert code == result["exit_code"] == 130
    assert result["verdict"]
    assert (tmp_path / "p.bopl").is_file()


def test_an_export_goes_where_it_is_sent(trained, tmp_path, capfd):
    """What is no regular file is written to, and a link followed: neither is replaced."""
    words = ("export", trained / "policy.bopl", "--to", "xgboost", "--out")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run_bopl(*words, tmp_path / "pipe") == 0
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 1) == b"{"
    os.close(reader)
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert run_bopl(*words, tmp_path / "link.json") == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "pipe", "real.json"]


def test_an_input_is_not_overwritten_by_another_name(trained, tmp_path, capsys):
    before = (trained / "log.parquet").read_bytes()
    (tmp_path / "log.parquet").write_bytes(before)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "log.parquet")
    for source, out in (("log.parquet", "link.parquet"), ("l*.parquet", "log.parquet"), (".", "log.parquet")):
        words = ("predict", tmp_path / source, trained / "policy.bopl", "--out", tmp_path / out)
        assert run_bopl(*words) == 2
        assert "is the input: writing would destroy it" in capsys.readouterr().err
        assert (tmp_path / "log.parquet").read_bytes() == before


def test_an_export_that_scores_otherwise_is_not_written(trained, monkeypatch, capsys):
    monkeypatch.setattr("bopl.workflow.exporting.TOLERANCE", -1.0)
    code, result = run_json(capsys, "export", trained / "policy.bopl", "--to", "onnx", "--out", trained / "bad.onnx")
    assert code == 1
    assert "nothing was written" in result["error"]
    assert not (trained / "bad.onnx").exists()


def test_contexts_for_the_check_visit_both_sides_of_every_split(trained):
    policy = bopl.load(trained / "policy.bopl")
    context = contexts_at_splits(policy)
    for predictor in policy.ensemble_.predictors:
        tree = predictor.tree
        for node in np.flatnonzero((tree.feature >= 0) & np.isfinite(tree.threshold)):
            column, threshold = context[:, tree.feature[node]], tree.threshold[node]
            goes_right = column == threshold if tree.is_equal[node] else column >= threshold
            assert goes_right.any()
            assert (~goes_right & ~np.isnan(column)).any()


def test_policies_of_other_columns_are_judged_side_by_side(trained, capsys):
    log, other = trained / "log.parquet", trained / "other.bopl"
    assert run_bopl("train", log, *ROLES, *SMALL, "--context", "age,city", "--out", other) == 0
    later = write_log(trained / "again.parquet", n_samples=1000, seed=9)
    _, result = run_json(capsys, "evaluate", later, trained / "policy.bopl", other, "--estimators", "snips")
    assert set(result["verdicts"]) == {"policy", "other"}
    for name in ("policy", "other"):
        _, alone = run_json(capsys, "evaluate", later, trained / f"{name}.bopl", "--estimators", "snips")
        value = next(row["value"] for row in result["rows"] if row["policy"] == name)
        assert value == pytest.approx(alone["rows"][0]["value"], rel=1e-12)


def test_a_policy_is_known_on_its_training_rows_beside_one_of_other_columns_and_among_new_actions(tmp_path, capsys):
    table = click_table(1000).append_column("x", [np.random.default_rng(0).normal(size=1000)])
    log, grown = tmp_path / "log.parquet", tmp_path / "grown.parquet"
    pq.write_table(table, log)
    files = [tmp_path / "first.bopl", tmp_path / "second.bopl"]
    for file, columns in zip(files, ("age,city,x", "city,x"), strict=True):
        assert run_bopl("train", log, *ROLES, *SMALL, "--context", columns, "--out", file) in (0, 4)
    _, result = run_json(capsys, "evaluate", log, *files, "--estimators", "snips")
    assert set(result["verdicts"].values()) == {"not trustworthy"}
    for decision in result["decisions"]:
        assert "The policy was trained on" in decision["reason"]
    assert [text.partition(" was trained on parts of this log")[0] for text in result["warnings"]] == [
        "first",
        "second",
    ]
    item = np.where(np.arange(1000) % 10 == 0, "cocoa", table["item"].to_numpy(zero_copy_only=False)).astype(str)
    pq.write_table(table.set_column(table.column_names.index("item"), "item", [item]), grown)
    _, result = run_json(capsys, "evaluate", grown, files[0], "--estimators", "snips")
    assert "The policy was trained on" in result["decisions"][0]["reason"]


def test_actions_that_appear_later_are_never_taken_and_said(trained, capsys):
    table = click_table(1000, seed=2)
    item = table["item"].to_pylist()
    item[::10] = ["cocoa"] * len(item[::10])
    index = table.column_names.index("item")
    pq.write_table(table.set_column(index, "item", [item]), trained / "cocoa.parquet")
    call = ("evaluate", trained / "cocoa.parquet", trained / "policy.bopl", "--estimators", "ips")
    _, result = run_json(capsys, *call)
    page = trained / "cocoa.html"
    _, reported = run_json(capsys, "report", *call[1:], "--out", page)
    assert reported["warnings"] == result["warnings"]
    assert "cocoa" in page.read_text()
    assert result["warnings"] == ["policy does not know 'cocoa', and never takes it."]


def test_a_value_that_nothing_is_known_of_is_called_unknown(trained, capsys):
    table = click_table(300, seed=2)
    index = table.column_names.index("item")
    pq.write_table(table.set_column(index, "item", [["cocoa", "juice"] * 150]), trained / "others.parquet")
    capsys.readouterr()
    assert run_bopl("evaluate", trained / "others.parquet", trained / "policy.bopl", "--estimators", "snips") == 4
    shown = capsys.readouterr().out
    assert "unknown" in shown
    assert "nan" not in shown


def test_flags_override_the_names_that_a_policy_remembers(trained, capsys):
    table = click_table(1000, seed=3)
    renamed = table.rename_columns(["bought" if name == "click" else name for name in table.column_names])
    pq.write_table(renamed, trained / "bought.parquet")
    call = ("evaluate", trained / "bought.parquet", trained / "policy.bopl", "--estimators", "snips")
    code, result = run_json(capsys, *call)
    assert (code, "there is no column 'click'" in result["error"]) == (2, True)
    assert run_json(capsys, *call, "--reward", "bought")[0] == 0


def test_tuning_writes_a_configuration_that_train_takes(trained, capsys):
    out = trained / "tuned.toml"
    call = ("tune", trained / "log.parquet", *ROLES, "--ignore", "user,when", "--n-rounds", 12, "--n-jobs", 1)
    code, result = run_json(capsys, *call, "--trials", 2, "--folds", 2, "--out", out)
    assert code == 0
    assert len(result["configurations"]) == 2
    written = tomllib.loads(out.read_text())
    assert written["max_depth"] == result["settings"]["max_depth"]
    assert isinstance(written["reward_translation"], float)
    _, result = run_json(capsys, *call, "--trials", 3, "--folds", 2, "--out", out)  # goes on where it was
    assert len(result["configurations"]) == 3
    code, result = run_json(capsys, "train", "--config", out, "--out", trained / "tuned.bopl", "--n-rounds", 20)
    assert code == 0
    assert result["reward_translation"] == tomllib.loads(out.read_text())["reward_translation"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: bopl {command}" in result.output


def test_paragraphs_of_the_help_flow():
    output = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "80"}).output
    assert "Several policies are judged on the same samples, and their verdicts hold" in output


def test_there_are_no_other_commands_and_completion_is_offered():
    output = CliRunner().invoke(main_app, ["--help"]).output
    assert [line.split()[1] for line in output.splitlines() if line.startswith("│ ") and line.split()[1] in COMMANDS]
    assert "--install-completion" in output
    assert "Exit codes: 0 success; 1 bad data; 2 wrong usage" in output


def test_help_and_completion_import_nothing_heavy():
    code = (
        "import sys; from bopl.cli import app\n"
        "app(['train', '--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'numba'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_shell_completes_commands_flags_and_words():
    for words, expected in (
        ("bopl ex", "export"),
        ("bopl train --obj", "--objective"),
        ("bopl train --objective s", "surrogate"),
    ):
        told = {"_BOPL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [sys.executable, "-m", "bopl"], env={**os.environ, **told}, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == [expected], done.stderr


def test_version(capsys):
    assert run_bopl("--version") == 0
    assert capsys.readouterr().out == f"bopl {bopl.__version__}\n"


def test_the_command_without_anything_shows_its_help(capsys):
    assert run_bopl() == 2
    shown = capsys.readouterr()
    assert "Usage: bopl" in shown.out + shown.err


def test_ctrl_c_is_exit_code_130_and_one_word(monkeypatch, capsys):
    def interrupted(**settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("bopl.demo.run_demo", interrupted)
    assert run_bopl("demo") == 130
    assert capsys.readouterr().err == "bopl: interrupted.\n"
    code, answer = run_json(capsys, "demo")
    assert code == answer["exit_code"] == 130


@pytest.mark.parametrize("n_scored", [0, 1])
def test_ctrl_c_ends_a_search_with_what_was_found(trained, tmp_path, monkeypatch, capsys, n_scored):
    scored = []

    class Interrupted(CrossValidatedScorer):
        def __call__(self, policy):
            if len(scored) == n_scored:
                raise KeyboardInterrupt
            scored.append(policy)
            return super().__call__(policy)

    monkeypatch.setattr("bopl.workflow.tuning.CrossValidatedScorer", Interrupted)
    out = tmp_path / "tuned.toml"
    call = ("tune", trained / "log.parquet", *ROLES, "--n-rounds", 20, "--folds", 2, "--trials", 3, "--out", out)
    code, result = run_json(capsys, *call)
    assert code == result["exit_code"] == 130
    assert out.exists() == (n_scored > 0)
    if n_scored:
        assert len(result["configurations"]) == n_scored


def test_an_onnx_model_of_raw_columns_is_checked_on_raw_rows(trained, raced, capsys):
    out = trained / "raw.onnx"
    code, result = run_json(capsys, "export", raced, "--to", "onnx", "--raw", "--out", out)
    assert (code, result["n_contexts"]) == (0, 2000)
    code, result = run_json(
        capsys, "export", raced, "--to", "onnx", "--raw", "--rows", trained / "log.parquet", "--out", out
    )
    assert code == 0
    assert result["largest_difference"] < 1e-4
    assert run_bopl("export", raced, "--to", "onnx", "--rows", trained / "log.parquet", "--out", out) == 0
    assert "of log.parquet" in capsys.readouterr().out
    assert run_bopl("export", raced, "--to", "xgboost", "--raw") == 2
    assert "takes only encoded contexts" in capsys.readouterr().err


def test_a_log_of_arrays_that_was_written_to_a_file_serves_all_commands(tmp_path):
    bopl.simulation.simulate_digits(random_state=0).train.to_parquet(tmp_path / "digits.parquet")
    policy = tmp_path / "policy.bopl"
    assert run_bopl("train", tmp_path / "digits.parquet", *SMALL, "--out", policy) in (0, 3, 4)
    assert run_bopl("predict", tmp_path / "digits.parquet", policy, "--out", tmp_path / "decisions.csv") == 0
