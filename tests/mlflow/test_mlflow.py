"""Policies and their training in MLflow, the real one, in a store of its own."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl import baseline

mlflow = pytest.importorskip("mlflow")
from bopl.mlflow import Track, load_policy, log_policy  # noqa: E402
from bopl.mlflow.model import signature_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::UserWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROLES = {"action": "item", "reward": "click", "propensity": "p"}
N = 300


def shop_frame(seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rom", "Ulm", "Bonn"], N).astype(object)
    city[::17] = None
    item = rng.choice(["tea", "milk", "water"], N)
    best = np.where(city == "Rom", "tea", np.where(city == "Ulm", "milk", "water"))
    return pd.DataFrame(
        {
            "city": city,
            "age": rng.integers(18, 80, N),
            "is_member": rng.random(N) < 0.5,
            "when": pd.Timestamp("2024-01-01 13:30") + pd.to_timedelta(rng.integers(0, 900, N), unit="h"),
            "taste": list(rng.normal(size=(N, 2))),
            "item": item,
            "click": (item == best).astype(int),
            "p": np.full(N, 1 / 3),
        }
    )


FRAME = shop_frame()
CONTEXTS = FRAME.drop(columns=list(ROLES.values()))
LOG = bopl.BanditLog.from_frame(FRAME, **ROLES)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A store of its own for each test."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def policy():
    return bopl.BoostedPolicy(n_rounds=4, progress=False, random_state=0).fit(LOG)


def test_a_policy_comes_back_from_mlflow_as_it_was(policy):
    with mlflow.start_run():
        info = log_policy(policy)
    again = load_policy(info.model_uri)
    assert again.policy_id == policy.policy_id
    np.testing.assert_array_equal(again.predict_proba(CONTEXTS), policy.predict_proba(CONTEXTS))


def test_no_pickle_is_written(policy, tmp_path):
    with mlflow.start_run():
        log_policy(policy)
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert "policy.bopl" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]


def test_mlflow_gets_actions_with_their_propensities(policy):
    with mlflow.start_run():
        info = log_policy(policy, rows=CONTEXTS)
    model = mlflow.pyfunc.load_model(info.model_uri)
    found = model.predict(CONTEXTS, params={"random_state": 3})
    action, propensity = policy.sample(CONTEXTS, random_state=3)
    assert found["action"].tolist() == action.tolist()
    assert found["propensity"].tolist() == propensity.tolist()
    assert set(found["policy"]) == {policy.policy_id}
    greedy = model.predict(CONTEXTS, params={"greedy": True})
    assert greedy["action"].tolist() == policy.predict(CONTEXTS).tolist()
    assert set(model.predict(CONTEXTS)["action"]) <= set(policy.actions_.tolist())


def test_the_signature_is_that_of_the_schema(policy):
    with mlflow.start_run():
        info = log_policy(policy)
    columns = {one["name"]: (one["type"], one["required"]) for one in info.signature.inputs.to_dict()}
    assert columns == {
        "city": ("string", False),
        "age": ("double", True),
        "is_member": ("boolean", True),
        "when": ("datetime", True),
        "taste": ("array", True),
    }
    assert [one["name"] for one in info.signature.outputs.to_dict()] == ["action", "propensity", "policy"]
    model = mlflow.pyfunc.load_model(info.model_uri)
    assert signature_of(policy, CONTEXTS).inputs.input_types()[1].name == "long"  # as the ages are
    without = CONTEXTS.drop(columns="city").astype({"age": float})  # cities had gaps
    expected = policy.predict_proba(CONTEXTS.assign(city=None)).max(axis=1)
    assert model.predict(without, params={"greedy": True})["propensity"].tolist() == expected.tolist()
    with pytest.raises(mlflow.exceptions.MlflowException, match="age"):
        model.predict(CONTEXTS.drop(columns="age"))


def test_a_policy_without_names_takes_a_matrix():
    rng = np.random.default_rng(0)
    log = bopl.BanditLog(rng.normal(size=(60, 3)), rng.integers(0, 2, 60), rng.random(60), np.full(60, 0.5))
    policy = baseline.LoggingPolicy().fit(log)
    with mlflow.start_run():
        info = log_policy(policy, "logging")
    rows = np.ascontiguousarray(log.context[:5])
    found = mlflow.pyfunc.load_model(info.model_uri).predict(rows, params={"greedy": True})
    assert found["action"].tolist() == policy.predict(rows).tolist()


def test_a_fit_is_followed_round_by_round(policy):
    track = Track(every=3)
    fitted = bopl.BoostedPolicy(n_rounds=4, progress=False, random_state=0).fit(LOG, callbacks=[track])
    assert fitted.policy_id == policy.policy_id  # watching changes nothing
    assert mlflow.active_run() is None
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.status == "FINISHED"
    assert run.data.params["n_samples"] == str(N)
    assert run.data.params["objective.name"] == "dr"
    steps = mlflow.MlflowClient().get_metric_history(run.info.run_id, "snips_value")
    assert [(one.step, one.value) for one in steps] == list(enumerate(fitted.history_["snips_value"].tolist(), 1))
    assert "validation_value" not in run.data.metrics  # there was no validation log


def test_policy_verdict_and_report_go_to_one_run(policy, tmp_path):
    evaluation = bopl.evaluate(LOG, policy, estimators=["snips"])
    (tmp_path / "page.html").write_text("<p>a report</p>")
    with Track() as track:
        policy = bopl.BoostedPolicy(n_rounds=4, progress=False, random_state=0).fit(LOG, callbacks=[track])
        info = track.policy(policy)
        track.evaluation(evaluation)
        track.report(bopl.report.summarise(policy, LOG, evaluation))
        track.report(tmp_path / "page.html")
        run_id = track.run_id
    run = mlflow.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["bopl.policy_id"] == policy.policy_id == load_policy(info.model_uri).policy_id
    assert run.data.tags["bopl.verdict"] == evaluation.decision()["verdict"]
    assert run.data.metrics["snips/value"] == evaluation.row()["value"]
    names = {one.path for one in mlflow.MlflowClient().list_artifacts(run_id)}
    assert names >= {"evaluation.json", "evaluation.txt", "history.csv", "page.html", "report.html"}
    stored = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="evaluation.json")
    with open(stored, encoding="utf8") as file:
        assert json.load(file) == evaluation.to_dict()


def test_a_run_that_is_open_stays_open_and_one_that_fails_says_so():
    with mlflow.start_run() as run:
        with Track() as track:
            assert track.run_id == run.info.run_id
        assert mlflow.active_run().info.run_id == run.info.run_id
    track = Track()
    with pytest.raises(RuntimeError, match="stop"), track:
        raise RuntimeError("stop")
    assert [one.info.status for one in mlflow.MlflowClient().search_runs(["0"])] == ["FAILED", "FINISHED"]


def test_a_race_is_written_with_its_leaderboard():
    policy = bopl.AutoPolicy(include=["regression"], progress=False, random_state=0).fit(LOG)
    with Track() as track:
        track.policy(policy)
        run_id = track.run_id
    assert "leaderboard.json" in {one.path for one in mlflow.MlflowClient().list_artifacts(run_id)}


def test_a_report_that_is_not_there_is_named():
    with Track() as track, pytest.raises(FileNotFoundError, match=r"there is no report 'none\.html'"):
        track.report("none.html")


def test_mlflow_is_imported_when_it_is_used():
    code = "import bopl, bopl.mlflow, bopl.policy.boosted, sys; assert 'mlflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
