"""`--inverse-temperature` means the same in every command, and outputs say how the policy acts."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import bopl
from product import RACE, ROLES, SMALL, click_table, run_bopl, run_json, write_log

HIDDEN = ("--ignore", "user,when")
FLAG = "--inverse-temperature"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharp")
    log = write_log(folder / "log.parquet", n_samples=2000)
    write_log(folder / "later.parquet", n_samples=1500, seed=1)
    assert run_bopl("train", log, *ROLES, *SMALL, *HIDDEN, "--out", folder / "policy.bopl") == 0
    return folder


@pytest.mark.parametrize("kind", [SMALL, RACE], ids=["single", "race"])
def test_train_saves_a_policy_that_acts_as_sharply_as_asked(folder, capsys, kind):
    out = folder / "greedy.bopl"
    call = ("train", folder / "log.parquet", *ROLES, *kind, *HIDDEN, "--out", out)
    code, answer = run_json(capsys, *call, FLAG, "inf")
    assert (code, answer["is_greedy"], answer["inverse_temperature"]) == (0, True, None)
    assert bopl.load(out).trained_inverse_temperature == np.inf
    if kind is RACE:
        return
    _, answer = run_json(capsys, "train", "--config", folder / "greedy.run" / "config.toml")
    assert answer["is_greedy"]
    _, answer = run_json(capsys, *call, FLAG, 2)
    assert (answer["is_greedy"], answer["inverse_temperature"]) == (False, 2.0)


def test_evaluate_judges_the_policy_as_sharply_as_asked(folder, capsys):
    log = bopl.BanditLog.from_frame(
        click_table(1500, 1),
        action="item",
        reward="click",
        propensity="p",
        schema=bopl.load(folder / "policy.bopl").schema_,
    )
    policy = bopl.load(folder / "policy.bopl")
    values = []
    for given, factor in (((), 1.0), ((FLAG, "inf"), np.inf)):
        call = ("evaluate", folder / "later.parquet", folder / "policy.bopl", "--estimators", "snips")
        _, answer = run_json(capsys, *call, *given)
        prob = policy.predict_proba(log.context, inverse_temperature=factor)
        assert answer["rows"][0]["value"] == pytest.approx(bopl.evaluate(log, prob, estimators="snips").row()["value"])
        values.append(answer["rows"][0]["value"])
    assert values[1] > values[0]


def test_text_says_whether_values_are_of_the_policy_as_it_samples(folder, capsys):
    call = (folder / "later.parquet", folder / "policy.bopl")
    for command in ("evaluate", "plan"):
        run_bopl(command, *call)
        assert "Values are those of policy as it samples (inverse temperature 1)" in capsys.readouterr().out
        run_bopl(command, *call, FLAG, "inf")
        assert "Values are those of policy as it acts: greedily" in capsys.readouterr().out
    run_bopl("train", folder / "log.parquet", *ROLES, *SMALL, *HIDDEN, "--out", folder / "again.bopl")
    assert "Values are those of the policy as it samples (inverse temperature 1)" in capsys.readouterr().out


def test_predict_draws_at_the_temperature_asked_for(folder):
    out = folder / "decisions.parquet"
    call = ("predict", folder / "later.parquet", folder / "policy.bopl", "--sample", "--random-state", 0, "--out", out)
    for given, lowest in (((FLAG, "inf"), 1.0), ((FLAG, "0"), 1 / 3)):
        assert run_bopl(*call, *given) == 0
        np.testing.assert_allclose(pq.read_table(out)["propensity"].to_numpy(), lowest)


def test_export_writes_the_probabilities_of_the_temperature_asked_for(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = bopl.load(folder / "policy.bopl")
    context = np.zeros((1, policy.n_features_in_), dtype=np.float32)
    for factor in (0.5, np.inf):
        assert run_bopl("export", folder / "policy.bopl", "--to", "onnx", FLAG, factor) == 0
        session = onnxruntime.InferenceSession(str(folder / "policy.onnx"), providers=["CPUExecutionProvider"])
        (probability,) = session.run(["probability"], {"context": context})
        expected = policy.predict_proba(context, inverse_temperature=factor)
        np.testing.assert_allclose(probability, expected, atol=1e-5)


def test_a_report_takes_it_too(folder):
    page = folder / "page.html"
    assert run_bopl("report", folder / "later.parquet", folder / "policy.bopl", FLAG, "inf", "--out", page) == 0
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("evaluate", "later.parquet", "policy.bopl", FLAG, "-1"), "inverse_temperature must be at least 0; got -1.0."),
        (("evaluate", "later.parquet", "policy.bopl", FLAG, "nan"), "inverse_temperature must be at least 0; got nan."),
        (("predict", "later.parquet", "policy.bopl", FLAG, "-1"), "inverse_temperature must be at least 0"),
        (("export", "policy.bopl", "--to", "xgboost", FLAG, "2"), "inverse_temperature has no effect here: a model"),
    ],
)
def test_wrong_use_is_one_sentence(folder, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(folder)
    assert run_bopl(*arguments) == 2
    assert sentence in capsys.readouterr().err
