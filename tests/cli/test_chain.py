"""The whole chain of commands on a Parquet file made on the spot."""

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.evaluation.estimator_registry import ESTIMATORS
from product import ITEMS, RACE, ROLES, SMALL, run_bopl, run_json, write_log


@pytest.fixture(scope="module", params=[RACE, SMALL], ids=["race", "ips"])
def trained(tmp_path_factory, request):
    """A trained policy, its log and a later one."""
    folder = tmp_path_factory.mktemp("chain")
    log, later = write_log(folder / "log.parquet"), write_log(folder / "later.parquet", seed=1)
    call = ("train", log, *ROLES, *request.param, "--ignore", "user", "--out", folder / "policy.bopl", "--json")
    with redirect_stdout(StringIO()) as printed:
        assert run_bopl(*call) == 0
    (folder / "printed.json").write_text(printed.getvalue())
    return folder, log, later


def test_a_trained_policy_lies_beside_a_folder_that_tells_how_it_came_about(trained):
    folder = trained[0] / "policy.run"
    assert {file.name for file in folder.iterdir()} == {
        "config.toml", "history.csv", "policy.bopl", "report.html", "run.json", "summary.json",
    }  # fmt: skip
    assert (folder / "policy.bopl").read_bytes() == (trained[0] / "policy.bopl").read_bytes()
    policy = bopl.load(folder / "policy.bopl")
    assert policy.schema_.roles == {"action": "item", "reward": "click", "propensity": "p"}
    assert sorted(policy.actions_) == sorted(ITEMS)
    lines = (folder / "history.csv").read_text().splitlines()
    assert len(lines) == 1 + policy.history_.n_rounds


def test_the_run_repeats_byte_for_byte_from_its_configuration(trained):
    folder = trained[0]
    again = folder / "again.bopl"
    assert run_bopl("train", "--config", folder / "policy.run" / "config.toml", "--out", again) == 0
    assert again.read_bytes() == (folder / "policy.bopl").read_bytes()
    assert (folder / "again.run" / "history.csv").read_bytes() == (folder / "policy.run" / "history.csv").read_bytes()


def test_a_policy_is_the_same_for_any_number_of_threads_and_way_of_telling(trained, capsys):
    again = trained[0] / "threads.bopl"
    call = ("train", "--config", trained[0] / "policy.run" / "config.toml", "--n-jobs", 2, "--out", again)
    assert run_bopl(*call) == 0
    assert "better" in capsys.readouterr().out
    assert again.read_bytes() == (trained[0] / "policy.bopl").read_bytes()


@pytest.mark.parametrize("trained", [SMALL], indirect=True, ids=["ips"])
def test_a_repeated_run_says_if_the_log_has_changed(trained, tmp_path, capsys):
    folder = trained[0]
    config = tmp_path / "config.toml"
    for file in ("config.toml", "run.json"):
        (tmp_path / file).write_text((folder / "policy.run" / file).read_text())
    call = ("train", "--config", config, "--out", tmp_path / "again.bopl", "--random-state", "1")
    assert run_json(capsys, *call)[1]["log_has_changed"] is False
    config.write_text(config.read_text().replace("log.parquet", "later.parquet"))
    assert run_json(capsys, *call)[1]["log_has_changed"] is True
    (tmp_path / "run.json").write_text('{"log": ')  # of another, or cut short
    assert run_json(capsys, *call)[1]["log_has_changed"] is False


def test_evaluate_needs_no_flags_and_knows_the_log_it_was_trained_on(trained, capsys):
    folder, log, later = trained
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl")
    assert code == result["exit_code"] == 0
    assert result["verdicts"] == {"policy": "better"}
    assert [row["estimator"] for row in result["rows"]] == ["dr", "snips", "ips"]
    assert result["warnings"] == []
    _, result = run_json(capsys, "evaluate", log, folder / "policy.bopl", "--estimators", "snips")
    assert "trained on parts of this log" in result["warnings"][0]


def test_training_reports_every_estimator_and_step_as_json(trained, request):
    result = json.loads((trained[0] / "printed.json").read_text())
    assert result["verdict"] == "better"
    assert {row["estimator"] for row in result["evaluation"]["rows"]} == set(ESTIMATORS)
    assert result["estimator"] == "dr"
    assert [step["step"] for step in result["steps"]] == ["read", "audit", "split", "train", "evaluate", "report"]
    assert all(step["seconds"] >= 0.0 and step["peak_mib"] > 10.0 for step in result["steps"])
    assert result["is_logging"] is False
    if "ips" in request.node.name:
        assert result["leaderboard"] is None
        return
    assert [entry["candidate"] for entry in result["leaderboard"]["entries"]] == ["regression", "logging"]
    assert result["reward_translation"] is None
    summary = json.loads((trained[0] / "policy.run" / "summary.json").read_text())
    assert [entry["status"] for entry in summary["race"]["entries"]] == ["won", "raced"]
    assert all(entry["seconds"] >= 0.0 for entry in summary["race"]["entries"])


def test_drawn_decisions_have_the_propensities_of_the_policy(trained):
    folder, _, later = trained
    out = folder / "decisions.parquet"
    assert (
        run_bopl(
            "predict", later, folder / "policy.bopl", "--sample", "--random-state", 3, "--keep", "user", "--out", out
        )
        == 0
    )
    decided = pq.read_table(out).to_pandas()
    assert list(decided.columns) == ["user", "action", "propensity"]
    policy, contexts = bopl.load(folder / "policy.bopl"), pq.read_table(later)
    action_prob = policy.predict_proba(contexts)
    position = {label: column for column, label in enumerate(policy.actions_.tolist())}
    chosen = decided["action"].map(position).to_numpy()
    np.testing.assert_array_equal(decided["propensity"], action_prob[np.arange(len(chosen)), chosen])
    np.testing.assert_allclose(np.bincount(chosen) / len(chosen), action_prob.mean(axis=0), atol=0.05)


@pytest.mark.parametrize("extension", ["parquet", "csv", "arrow", "jsonl"])
def test_the_most_probable_actions_are_written_in_every_format(trained, extension):
    folder, _, later = trained
    out = folder / f"greedy.{extension}"
    assert run_bopl("predict", later, folder / "policy.bopl", "--out", out) == 0
    from bopl.log.format import read_table

    decided = read_table(out).to_pandas()
    expected = bopl.load(folder / "policy.bopl").predict(pq.read_table(later))
    assert decided["action"].tolist() == expected.tolist()
    assert (decided["probability"] > 1 / 3).all()


def test_evaluate_answers_for_guards_segments_and_what_runs_now(trained, tmp_path, capsys):
    folder, _, later = trained
    table = pq.read_table(later)
    wider = tmp_path / "wider.parquet"
    pq.write_table(table.append_column("revenue", pa.array(np.arange(len(table)) % 7 + 1.0)), wider)
    other = tmp_path / "running.bopl"
    shutil.copy(folder / "policy.bopl", other)
    code, result = run_json(
        capsys,
        *("evaluate", wider, folder / "policy.bopl", "--against", other, "--estimators", "snips"),
        *("--guard", "revenue>=-50%", "--segment", "city", "--min-uplift", "1%"),
    )
    assert code == 4
    assert "same policy as running" in result["decisions"][0]["reason"]
    assert result["guards"][0]["state"] == "kept"
    assert len(result["segments"]) > 2
    assert list(result["verdicts"]) == ["policy"]


def test_a_models_opinion_alone_does_not_decide_the_exit_code(trained, capsys):
    folder, _, later = trained
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl", "--estimators", "dm")
    assert code == 4
    assert "opinion of a reward model" in result["decisions"][0]["reason"]
