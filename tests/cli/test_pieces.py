"""Commands on many files, whole or in pieces."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.cli.main import main
from pieces_logs import write

ROLES = ["--action", "item", "--reward", "click", "--propensity", "p"]


def a_log(n_rows=900, seed=0):
    rng = np.random.default_rng(seed)
    age, action = rng.normal(size=n_rows), rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "city": rng.choice(["Rom", "Ulm", "Bonn"], n_rows),
            "request": np.arange(n_rows) * 7,
            "item": np.where(action, "b", "a"),
            "click": (rng.random(n_rows) < 0.2 + 0.5 * (action == (age > 0))).astype(int),
            "p": np.full(n_rows, 0.5),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write(folder, a_log(), (400, 0, 1, 499), 150)
    return [str(file) for file in sorted(folder.glob("*.parquet"))]


@pytest.fixture(scope="module")
def policy(tmp_path_factory, files):
    log = bopl.BanditLog.read(files[0], action="item", reward="click", propensity="p", ignore=["request"])
    path = tmp_path_factory.mktemp("policy") / "policy.bopl"
    bopl.BoostedPolicy("ips", n_rounds=5, random_state=0, progress=False).fit(log).save(path)
    return str(path)


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


def test_an_audit_in_pieces_says_what_one_in_memory_says(capsys, files):
    whole = json.loads(run(capsys, "audit", *files, *ROLES, "--json")[1])
    pieces = json.loads(run(capsys, "audit", *files, *ROLES, "--memory", "1kB", "--json")[1])
    assert whole == pieces
    assert pieces["n_samples"] == 900


def test_the_command_says_how_it_reads(capsys, files):
    assert "Read whole: it takes about" in run(capsys, "audit", *files, *ROLES)[1]
    said = run(capsys, "audit", *files, *ROLES, "--memory", "1kB")[1]
    assert "Read in 8 pieces: it takes about" in said
    assert "part000.parquet and 3 more files, read as Parquet: 900 decisions among 2 actions" in said
    assert "Read" not in run(capsys, "audit", files[0], *ROLES)[1].splitlines()[0].split(",")[0]


def test_an_evaluation_in_pieces_has_the_numbers_of_one_in_memory(capsys, files, policy):
    settings = ["--estimators", "snips,ips", "--json"]
    code, whole, _ = run(capsys, "evaluate", *files, policy, *settings)
    assert (code, whole) == run(capsys, "evaluate", *files, policy, *settings, "--memory", "2GB")[:2]
    other, pieces, _ = run(capsys, "evaluate", *files, policy, *settings, "--memory", "1kB")
    assert other == code
    for mine, theirs in zip(json.loads(pieces)["rows"], json.loads(whole)["rows"], strict=True):
        np.testing.assert_allclose(mine["value"], theirs["value"], rtol=1e-12)
        np.testing.assert_allclose(mine["ci_lower"], theirs["ci_lower"], rtol=1e-9)
        assert mine["verdict"] == theirs["verdict"]


@pytest.mark.parametrize("words", [[], ["--sample", "--random-state", "3"]], ids=["best", "drawn"])
@pytest.mark.parametrize("name", ["decisions.parquet", "decisions.csv"])
def test_decisions_in_pieces_are_those_in_memory(capsys, tmp_path, files, policy, words, name):
    from bopl.log.format import read_table

    for folder, memory in (("whole", []), ("pieces", ["--memory", "1kB"])):
        (tmp_path / folder).mkdir()
        code, out, _ = run(
            capsys, "predict", *files, policy, "--keep", "request", *words, "--out", tmp_path / folder / name, *memory
        )
        assert code == 0
        assert "900 decisions written" in out
    whole, pieces = (read_table(tmp_path / folder / name) for folder in ("whole", "pieces"))
    assert pieces.to_pydict() == whole.to_pydict()
    assert pieces["request"].to_pylist() == (np.arange(900) * 7).tolist()


def test_a_training_in_pieces_ends_in_a_policy_and_a_verdict(capsys, tmp_path, files):
    out = tmp_path / "policy.bopl"
    words = ["train", *files, *ROLES, "--ignore", "request", "--include", "regression", "--out", out, "--json"]
    code, pieces, _ = run(capsys, *words, "--memory", "1kB")
    assert code in (0, 4)
    facts = json.loads(pieces)
    assert facts["split"]["train"]["n_samples"] + facts["split"]["test"]["n_samples"] == 900
    assert bopl.load(out).predict_proba([[1.0, 0.0]]).shape == (1, 2)
    _, again, _ = run(capsys, "evaluate", *files, out, "--memory", "1kB", "--json")
    assert "trained on parts of this log" in again
    whole = json.loads(run(capsys, *words)[1])
    assert whole["leaderboard"] is not None
    assert whole["split"] == facts["split"]


@pytest.mark.filterwarnings("ignore:a memory budget")  # which is the smallest on purpose
@pytest.mark.parametrize("words", [["ips", "--reward-translation", "-0.3"], ["surrogate"]], ids=["one fit", "choice"])
def test_a_single_objective_is_trained_on_all_pieces_as_in_memory(capsys, tmp_path, files, words, monkeypatch):
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("bopl.workflow.translation.MAX_SAMPLES", 300)  # the translation is chosen on a part
    monkeypatch.setattr("bopl.workflow.translation.MAX_VALIDATION", 60)
    trained, sizes = [], []
    for name, memory in (("whole", []), ("pieces", ["--memory", "1kB"])):
        out = tmp_path / name / "policy.bopl"
        limits = ["--n-rounds", "6", "--max-depth", "3", "--ignore", "request", "--out", out]
        code, said, _ = run(capsys, "train", *files, *ROLES, "--objective", *words, *limits, *memory)
        assert code in (0, 4)
        trained.append(bopl.load(out))
        sizes.append(re.search(r"Training on (\d+) samples, choosing on (\d+)", said).groups())
    whole, pieces = trained
    assert sizes[0] == sizes[1]
    assert pieces.reward_translation == whole.reward_translation
    trees = [[made.predictor.tree.to_bytes() for made in one.ensemble_.rounds] for one in trained]
    assert trees[0] == trees[1]
    assert trees[0]


def test_what_cannot_be_done_in_pieces_is_told(capsys, tmp_path, files, policy):
    small = ["--memory", "1kB"]
    code, _, said = run(capsys, "audit", *files, *ROLES[:4], "--assume-propensity", "estimate", *small)
    assert (code, "propensities can only be estimated in memory" in said) == (2, True)
    code, _, said = run(capsys, "audit", *files, *ROLES, "--drop-duplicates", "request", *small)
    assert (code, "never has them in memory at once" in said) == (2, True)
    code, _, said = run(capsys, "evaluate", *files, *small)
    assert (code, "there is no policy to evaluate" in said) == (2, True)
    code, _, said = run(capsys, "audit", *files, policy, policy + "x", *small)
    assert (code, "takes only one policy" in said) == (2, True)
    csv = tmp_path / "log.csv"
    a_log(20).to_csv(csv, index=False)
    code, _, said = run(capsys, "audit", csv, *ROLES, *small)
    assert (code, "apply only to Parquet files" in said) == (2, True)


def test_a_file_that_does_not_fit_is_named(capsys, tmp_path, files):
    table = pq.read_table(files[0]).drop_columns(["age"])
    pq.write_table(table, tmp_path / "other.parquet")
    code, _, said = run(capsys, "audit", *files, tmp_path / "other.parquet", *ROLES, "--memory", "1kB")
    assert code == 1
    assert "has a column 'age' but" in said
    assert "other.parquet' does not" in said
