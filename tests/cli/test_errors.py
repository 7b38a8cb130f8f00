"""Every documented error: one sentence on standard error, no traceback, and its exit code."""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.cli.exit_code import of_verdicts
from bopl.cli.main import in_flags
from helpers import informative_log
from product import ROLES, SMALL, click_table, run_bopl, run_json, write_log

BAD_DATA, WRONG_USE, WORSE, NOT_ENOUGH = 1, 2, 3, 4


def change(name, values):
    """Return a small log with one column replaced, or changed in its first row."""
    table = click_table(400)
    old = table[name].to_pylist()
    column = pa.array(values(old) if callable(values) else values)
    return table.set_column(table.column_names.index(name), name, column)


def first(value):
    return lambda old: [value, *old[1:]]


BAD_LOGS = {
    "propensity zero": (change("p", first(0.0)), "propensity must lie in (0, 1]; 1 of 400 samples does not, the first"),
    "propensity above one": (change("p", lambda old: [50.0 * one for one in old]), "divide by 100"),
    "propensity missing": (change("p", first(None)), "A missing propensity cannot be guessed"),
    "reward text": (change("click", lambda old: ["yes"] * len(old)), "reward must be numeric; the column holds"),
    "propensity text": (change("p", lambda old: [str(one) for one in old]), "the column holds text. Row 0 holds '0."),
    "context infinite": (change("age", first(float("inf"))), "the first at row 0, column 'age'"),
    "action bytes": (change("item", lambda old: [one.encode() for one in old]), "of type bytes cannot be written"),
    "reward missing": (change("click", first(None)), "reward must be finite; 1 of 400 samples does not"),
    "reward constant": (change("click", lambda old: [1] * len(old)), "All 400 rewards are 1: nothing distinguishes"),
    "one action": (change("item", lambda old: ["tea"] * len(old)), "the log has only one action ('tea'"),
    "action missing": (change("item", first(None)), "drop those with --drop-invalid."),
    "every row an action": (change("item", lambda old: list(range(len(old)))), "400 different actions in 400 samples"),
    "no rows": (click_table(400).slice(0, 0), "the log is empty"),
    "no rows and no types": (pa.table({name: pa.nulls(0) for name in ("age", "item", "click", "p")}), "log is empty"),
    "no rewards": (change("click", lambda old: pa.nulls(len(old))), "reward must be finite; 400 of 400 samples do not"),
    "no context": (click_table(400).select(["item", "click", "p"]), "context has no columns"),
    "rewards repeated": (
        pa.concat_tables([click_table(400), click_table(400).slice(100)]),
        "same decisions were logged more than once",
    ),
    "wrong propensities": (change("p", lambda old: [0.9] * len(old)), "propensities are wrong"),
}


def refused(capsys, *arguments):
    """Run the command; return its exit code and the one line it printed to standard error."""
    capsys.readouterr()
    code = run_bopl(*arguments)
    lines = capsys.readouterr().err.splitlines()
    lines = [line for line in lines if line and not line.startswith("bopl: compil")]
    assert len(lines) == 1, lines
    assert lines[0].startswith("bopl: ")
    return code, lines[0]


@pytest.mark.parametrize(("table", "sentence"), BAD_LOGS.values(), ids=BAD_LOGS.keys())
def test_bad_data_is_exit_code_1(tmp_path, capsys, table, sentence):
    pq.write_table(table, tmp_path / "log.parquet")
    code, line = refused(capsys, "train", tmp_path / "log.parquet", *ROLES, *SMALL, "--out", tmp_path / "p.bopl")
    assert (code, sentence in line) == (BAD_DATA, True), line


def test_files_that_are_not_what_they_say_are_bad_data(tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", n_samples=300)
    for name, content, sentence in (
        ("empty.parquet", b"", "is empty: it has no bytes"),
        ("broken.parquet", b"no parquet at all", "cannot be read as Parquet"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "cannot be read as CSV"),
        ("broken.jsonl", b'{"a": 1}\n{"a": \n', "cannot be read as JSON lines"),
        ("broken.arrow", b"ARROW?", "cannot be read as Arrow"),
    ):
        (tmp_path / name).write_bytes(content)
        code, line = refused(capsys, "audit", tmp_path / name, *ROLES)
        assert (code, sentence in line) == (BAD_DATA, True), line
    (tmp_path / "broken.bopl").write_bytes(b"PK\x03\x04 and no more")
    code, line = refused(capsys, "evaluate", log, tmp_path / "broken.bopl")
    assert (code, "is not a bopl policy file" in line) == (BAD_DATA, True), line


def test_an_audit_with_a_problem_is_exit_code_1_and_says_which(tmp_path, capsys):
    pq.write_table(BAD_LOGS["wrong propensities"][0], tmp_path / "log.parquet")
    code, found = run_json(capsys, "audit", tmp_path / "log.parquet", *ROLES)
    assert code == found["exit_code"] == BAD_DATA
    problems = {finding["check"] for finding in found["findings"] if finding["status"] == "problem"}
    assert "mean_weight_uniform" in problems
    assert run_bopl("audit", write_log(tmp_path / "good.parquet"), *ROLES) == 0


def test_force_trains_although_the_audit_found_problems(tmp_path, capsys):
    pq.write_table(BAD_LOGS["wrong propensities"][0], tmp_path / "log.parquet")
    code = run_bopl("train", tmp_path / "log.parquet", *ROLES, *SMALL, "--force", "--out", tmp_path / "p.bopl")
    assert code in (WORSE, NOT_ENOUGH)  # trained; what it is worth cannot be known from such a log
    assert (tmp_path / "p.bopl").is_file()
    assert "Problem: " in capsys.readouterr().out


WRONG_CALLS = {
    "no such file": (["train", "{folder}/lgo.parquet", *ROLES], "there is no file"),
    "no such column": (["train", "{log}", "--action", "itm", *ROLES[2:]], "Did you mean 'item'?"),
    "no such column of the context": (
        ["audit", "{log}", *ROLES, "--context", "age,vsits"],
        "there is no column 'vsits' (given as context);",
    ),
    "no such column to ignore": (["audit", "{log}", *ROLES, "--ignore", "usr"], "to ignore. Did you mean 'user'?"),
    "a column named twice": (["audit", "{log}", *ROLES, "--context", "age,age"], "context names 'age' more than once"),
    "no such column to keep": (["predict", "{log}", "{policy}", "--keep", "usr"], "Did you mean 'user'?"),
    "unnamed columns": (["train", "{log}"], "which column is the action? Name it with --action;"),
    "no propensity": (["train", "{log}", *ROLES[:4]], "or declare that there is none with --assume-propensity"),
    "two roles": (["train", "{log}", "--action", "item", "--reward", "p", "--propensity", "p"], "given two roles"),
    "unknown extension": (["audit", "{folder}/log.xyz", *ROLES], "Name the format, such as --format csv."),
    "policy before log": (["predict", "{policy}", "{log}"], "is a policy file, not a log; name the log first"),
    "unknown format": (["audit", "{log}", *ROLES, "--format", "xls"], "format must be one of"),
    "empty folder": (["audit", "{folder}/empty", *ROLES], "holds no file to read"),
    "no match": (["audit", "{folder}/*.csv", *ROLES], "no file matches"),
    "no log": (["train", *ROLES], "there is no log to read"),
    "out is no policy file": (
        ["train", "{log}", *ROLES, "--out", "{folder}/policy.zip"],
        "the name of a policy file must end in .bopl",
    ),
    "out is taken": (
        ["train", "{log}", *ROLES, "--out", "{folder}/taken.bopl"],
        "contains files that are not from a run",
    ),
    "no time to backtest": (["backtest", "{log}", *ROLES], "the time of each decision: name its column, --time."),
    "no such estimator": (["train", "{log}", *ROLES, "--estimators", "magic"], "estimators must be one of"),
    "a near estimator": (["train", "{log}", *ROLES, "--estimators", "snip"], "Did you mean 'snips'?"),
    "no such interval": (["evaluate", "{log}", "{policy}", "--interval", "wide"], "interval must be one of"),
    "out of range": (["train", "{log}", *ROLES, "--holdout", "1.5"], "holdout must lie in (0, 1)"),
    "no such interval of an estimator": (
        ["train", "{log}", *ROLES, "--interval", "betting", "--estimators", "dr"],
        "works for 'ips' only",
    ),
    "no such interval of groups": (
        ["train", "{log}", *ROLES, "--interval", "betting", "--group", "user"],
        "needs independent samples, but the log has groups",
    ),
    "no such engine": (["tune", "{log}", *ROLES, "--engine", "magic"], "engine must be one of 'random', 'tpe'"),
    "no time to tune": (["tune", "{log}", *ROLES, "--minutes", "0"], "minutes must be greater than 0"),
    "not a number": (["train", "{log}", *ROLES, "--n-rounds", "many"], "--n-rounds must be an integer. See"),
    "no such candidate": (
        ["train", "{log}", *ROLES, "--include", "regresion,dr"],
        "there is no candidate 'regresion'; there are logging, ",
    ),
    "a near candidate": (["train", "{log}", *ROLES, "--exclude", "regresion"], "Did you mean 'regression'"),
    "no such weight": (["train", "{log}", *ROLES, "--weight", "cliped:0.1"], "Did you mean 'clipped'?"),
    "no such start": (["train", "{log}", *ROLES, "--start", "nowhere"], "start must be one of 'uniform'"),
    "no such smoothness": (["train", "{log}", *ROLES, "--smoothness", "x"], "smoothness must be one of 'sharp'"),
    "a setting without effect on the race": (
        ["train", "{log}", *ROLES, "--max-depth", "3"],
        "max_depth has no effect here: the race chooses its own settings. Leave it out, or set objective to dr, ips",
    ),
    "a setting without effect on an objective": (
        ["train", "{log}", *ROLES, "--objective", "ips", "--include", "dr"],
        "include has no effect here: a single objective has no candidates. Leave it out, or set objective to auto.",
    ),
    "an old flag": (["train", "{log}", *ROLES, "--rounds", "3"], "--rounds is now called --n-rounds."),
    "an old flag with a hyphen": (
        ["train", "{log}", *ROLES, "--early-stopping=3"],
        "--early-stopping is now called --early-stopping-rounds.",
    ),
    "an old flag of another command": (
        ["predict", "{log}", "{policy}", "--seed", "3"],
        "--seed is now called --random-state.",
    ),
    "an old flag that a command never had": (["audit", "{log}", "--rounds", "3"], "No such option"),
    "an old setting": (
        ["train", "--config", "{folder}/old.toml"],
        "sets 'threads', which is now called 'n_jobs'.",
    ),
    "not a translation": (["train", "{log}", *ROLES, "--reward-translation", "some"], "must be a number or auto"),
    "no such flag": (["train", "{log}", "--acton", "item"], "No such option"),
    "context of a policy": (
        ["audit", "{log}", "{policy}", "--ignore", "age"],
        "the policy remembers which columns are context",
    ),
    "one policy twice": (["evaluate", "{log}", "{policy}", "{policy}"], "is named more than once"),
    "no such command": (["trian"], "No such command 'trian'. Did you mean 'train'?"),
    "missing argument": (["evaluate"], "Missing argument"),
    "no such target": (["export", "{policy}", "--to", "pmml"], "to must be one of xgboost, onnx"),
    "no such policy": (["evaluate", "{log}", "{folder}/none.bopl"], "there is no policy file"),
    "no such config": (["train", "--config", "{folder}/none.toml"], "there is no configuration file"),
    "broken config": (["train", "--config", "{folder}/broken.toml"], "is not valid TOML"),
    "unknown setting": (
        ["train", "--config", "{folder}/unknown.toml"],
        "which is not a setting. Did you mean 'n_rounds'?",
    ),
    "wrong type of setting": (
        ["train", "--config", "{folder}/wrong.toml"],
        "n_rounds must be an integer; got 'many'",
    ),
    "no folder for decisions": (
        ["predict", "{log}", "{policy}", "--out", "{folder}/no/d.parquet"],
        "there is no folder",
    ),
    "decisions over the contexts": (["predict", "{log}", "{policy}", "--out", "{log}"], "writing would destroy it"),
    "an export over the policy": (
        ["export", "{policy}", "--to", "onnx", "--out", "{policy}"],
        "writing would destroy it",
    ),
    "a page over the log": (["report", "{log}", "{policy}", "--out", "{log}"], "writing would destroy it"),
    "a page over a policy": (
        ["report", "{log}", "{policy}", "--out", "{folder}/p.bopl"],
        "the name of a report must end in .html",
    ),
    "settings over the log": (["tune", "{log}", *ROLES, "--out", "{log}"], "writing would destroy it"),
    "a column kept under a decision's name": (
        ["predict", "{folder}/named.parquet", "{policy}", "--keep", "action"],
        "'action' cannot be kept",
    ),
    "a file in the demo's way": (["demo", "--out", "{log}"], "cannot be created: File exists"),
    "decisions without a format": (
        ["predict", "{log}", "{policy}", "--out", "{folder}/d.xls"],
        "has an unknown extension",
    ),
    "no run folder": (["report", "{folder}/none.run"], "there is no summary"),
    "a log alone has no report": (["report", "{log}"], "name the policy file as well"),
    "an unknown dataset": (["reproduce", "run", "--datasets", "sceen"], "got sceen. Did you mean 'scene'?"),
    "an unknown method": (["reproduce", "run", "--methods", "dqn"], "--methods knows logging"),
    "unknown trials": (["reproduce", "run", "--trials", "x"], "--trials takes a number of trials"),
    "an unknown device": (["reproduce", "run", "--device", "tpu"], "--device takes auto, cpu or cuda; got 'tpu'"),
    "a dataset that cannot be searched": (["reproduce", "search", "--dataset", "all"], "--dataset knows covertype"),
    "nothing to search": (["reproduce", "search", "--method", "logging"], "the paper has no search for logging"),
    "a device that cannot be searched on": (["reproduce", "search", "--device", "x"], "--device takes auto, cpu"),
    "two propensities": (["train", "{log}", *ROLES, "--assume-propensity", "uniform"], "give only one of them"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("wrong")
    log = write_log(made / "log.parquet", n_samples=400)
    (made / "log.xyz").write_text("x")
    (made / "empty").mkdir()
    (made / "taken.run").mkdir()
    (made / "taken.run" / "thesis.tex").write_text("precious")
    (made / "broken.toml").write_text("n_rounds = = 3")
    (made / "old.toml").write_text(f'log = "{log}"\nthreads = 2')
    (made / "unknown.toml").write_text("n_roundz = 3")
    (made / "wrong.toml").write_text(f'log = "{log}"\nn_rounds = "many"')
    pq.write_table(click_table(50).rename_columns({"item": "action"}), made / "named.parquet")
    frame = bopl.BanditLog.read(log, action="item", reward="click", propensity="p")
    bopl.BoostedPolicy(n_rounds=2, random_state=0, reward_translation=-0.3).fit(frame).save(made / "policy.bopl")
    return made


@pytest.mark.parametrize(("call", "sentence"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_wrong_use_is_exit_code_2(folder, capsys, call, sentence):
    names = {"folder": folder, "log": folder / "log.parquet", "policy": folder / "policy.bopl"}
    code, line = refused(capsys, *(word.format(**names) for word in call))
    assert (code, sentence in line) == (WRONG_USE, True), line


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_cannot_be_written_is_wrong_use(folder, tmp_path, capsys):
    tmp_path.chmod(0o500)
    code, line = refused(capsys, "train", folder / "log.parquet", *ROLES, "--out", tmp_path / "p.bopl")
    assert (code, "cannot be created: Permission denied" in line) == (WRONG_USE, True)


def test_a_run_that_is_refused_leaves_no_folder_behind(folder, tmp_path, capsys):
    refused(capsys, "train", folder / "log.parquet", "--action", "itm", *ROLES[2:], "--out", tmp_path / "p.bopl")
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place_is_told_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    code, line = refused(capsys, "train", tmp_path / "no.parquet", *ROLES, "--out", tmp_path / "file" / "p.bopl")
    assert (code, "cannot be created" in line) == (WRONG_USE, True), line


def test_a_missing_package_is_told_before_anything_is_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    _, line = refused(capsys, "tune", tmp_path / "no.parquet", *ROLES, "--out", tmp_path / "tuned.toml")
    assert "pip install 'bopl[search]'" in line


def test_a_log_without_the_policys_columns_is_bad_data(folder, tmp_path, capsys):
    pq.write_table(click_table(50).drop_columns(["city", "age"]), tmp_path / "other.parquet")
    for call in (["evaluate"], ["predict", "--out", tmp_path / "d.csv"], ["audit"]):
        code, line = refused(capsys, call[0], tmp_path / "other.parquet", folder / "policy.bopl", *call[1:])
        assert (code, "lack 2 of the 5 columns that the policy was fitted on: 'city', 'age'" in line) == (
            BAD_DATA,
            True,
        )


def test_errors_are_json_as_well(folder, capsys):
    code, answer = run_json(capsys, "evaluate", folder / "none.parquet", folder / "policy.bopl")
    assert code == answer["exit_code"] == WRONG_USE
    assert "there is no file" in answer["error"]


def test_debug_shows_the_traceback(folder):
    with pytest.raises(FileNotFoundError):
        bopl.cli.main(["audit", str(folder / "none.parquet"), "--debug"])


def policy_that(choose, path):
    """Save a policy that was taught to choose this item."""
    table = click_table(2000)
    reward = (np.array(table["item"].to_pylist()) == choose).astype(float)
    table = table.set_column(table.column_names.index("click"), "click", pa.array(reward))
    log = bopl.BanditLog.from_frame(table, action="item", reward="click", propensity="p")
    bopl.BoostedPolicy(n_rounds=30, reward_translation=-0.3, random_state=0).fit(log).save(path)
    return path


def test_a_worse_policy_is_exit_code_3_and_too_little_evidence_4(tmp_path, capsys):
    policy = policy_that("tea", tmp_path / "tea.bopl")
    table = click_table(3000, seed=5)
    is_tea = np.array(table["item"].to_pylist()) == "tea"
    bad_tea = table.set_column(
        table.column_names.index("click"), "click", pa.array(np.where(is_tea, 0, table["click"]))
    )
    pq.write_table(bad_tea, tmp_path / "worse.parquet")
    code, result = run_json(capsys, "evaluate", tmp_path / "worse.parquet", policy)
    assert (code, result["verdicts"]) == (WORSE, {"tea": "worse"})
    pq.write_table(table.slice(0, 40), tmp_path / "few.parquet")
    code, result = run_json(capsys, "evaluate", tmp_path / "few.parquet", policy, "--estimators", "snips")
    assert (code, result["verdicts"]) == (NOT_ENOUGH, {"tea": "not trustworthy"})


def test_exit_codes_of_several_verdicts():
    assert of_verdicts(["better", "better"]) == 0
    assert of_verdicts(["better", "inconclusive"]) == NOT_ENOUGH
    assert of_verdicts(["not trustworthy", "worse"]) == WORSE


def test_json_errors_are_one_object_even_without_a_command(capsys):
    with pytest.raises(SystemExit):
        bopl.cli.main(["evaluate", "--json"])
    assert json.loads(capsys.readouterr().out)["exit_code"] == WRONG_USE


def test_policies_from_arrays_remember_no_names_and_say_so(tmp_path, capsys):
    bopl.BoostedPolicy(n_rounds=2, random_state=0).fit(informative_log()).save(tmp_path / "policy.bopl")
    log = write_log(tmp_path / "log.parquet", n_samples=300)
    code, line = refused(capsys, "predict", log, tmp_path / "policy.bopl")
    assert code == WRONG_USE
    assert "does not remember" in line


@pytest.mark.parametrize(
    ("said", "in_the_command"),
    [
        ("drop them with drop_invalid=True.", "drop them with --drop-invalid."),
        ("none with has_propensity=False;", "none with --assume-propensity;"),
        ("Exclude them with ignore=[…], or", "Exclude them with --ignore, or"),
        ("exclude it with ignore.", "exclude it with --ignore."),
        ("such as format='csv'.", "such as --format csv."),
    ],
)
def test_advice_of_the_library_names_flags_that_exist(said, in_the_command):
    assert in_flags(said) == in_the_command
