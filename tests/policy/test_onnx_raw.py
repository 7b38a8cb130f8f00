"""ONNX models that take the columns of a log as they are decide as the policy does from the same rows."""

import datetime
import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest

import bopl
from bopl.policy.onnx_raw import input_names, missing_text, raw_inputs
from helpers import informative_log
from product import click_table

N = 400


def odd_frame(seed=0):
    """A log with every kind of column, a name that outputs have as well, and categories that are numbers."""
    rng = np.random.default_rng(seed)
    item = rng.choice(["tea", "milk", "water"], N)
    city = rng.choice(["Rom", "Ulm", "", "true"], N).astype(object)
    city[::13] = None
    start = datetime.datetime(2024, 1, 1, 22, 15, 3, 250_000)
    when = [None if k % 17 == 0 else start + datetime.timedelta(minutes=37 * int(k)) for k in rng.integers(-N, N, N)]
    return pa.table(
        {
            "city": city,
            "score": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
            "zip": pa.array(rng.integers(1, 6, N), mask=rng.random(N) < 0.1),
            "flag": rng.random(N) < 0.5,
            "when": pa.array(when, pa.timestamp("us")),
            "embedding": pa.array([None if k % 19 == 0 else rng.normal(size=3).tolist() for k in range(N)]),
            "item": item,
            "click": (item == np.where(city == "Rom", "tea", "milk")).astype(int),
            "p": np.full(N, 1 / 3),
        }
    )


TABLE = odd_frame()


def fit(table=TABLE, **settings):
    log = bopl.BanditLog.from_frame(table, action="item", reward="click", propensity="p", categorical=["zip"])
    policy = bopl.BoostedPolicy(**({"n_rounds": 4, "progress": False, "random_state": 0} | settings))
    return policy.fit(log)


def run_raw(policy, path, rows):
    policy.to_onnx(path, raw=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session, session.run(["score", "probability", "action"], raw_inputs(policy.schema_, rows))


@pytest.fixture(scope="module")
def policy():
    return fit()


@pytest.mark.parametrize("objective", ["dr", "surrogate"])
def test_raw_rows_are_scored_as_by_the_policy(tmp_path, objective):
    policy = fit(objective=objective)
    session, (score, probability, action) = run_raw(policy, tmp_path / "policy.onnx", TABLE)
    np.testing.assert_allclose(score, policy.decision_function(TABLE), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(probability, policy.predict_proba(TABLE), atol=1e-4)
    assert np.mean(action == policy.predict(TABLE)) > 0.99  # the same but for ties
    kinds = {one.name: (one.type, one.shape[1]) for one in session.get_inputs()}
    assert kinds == {
        "city": ("tensor(string)", 1),
        "context.score": ("tensor(float)", 1),
        "zip": ("tensor(string)", 1),
        "flag": ("tensor(float)", 1),
        "when": ("tensor(int64)", 1),
        "embedding": ("tensor(float)", 3),
    }


def test_the_contexts_within_the_model_have_the_bits_of_the_schema(tmp_path, policy):
    policy.to_onnx(tmp_path / "policy.onnx", raw=True)
    model = onnx.load(tmp_path / "policy.onnx")
    joined = next(step.output[0] for step in model.graph.node if step.op_type == "Concat")
    model.graph.output.append(onnx.helper.make_tensor_value_info(joined, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (context,) = session.run([joined], raw_inputs(policy.schema_, TABLE))
    np.testing.assert_array_equal(context, policy.schema_.encode(TABLE))


def test_the_model_says_what_its_inputs_are_called_and_what_is_missing(tmp_path, policy):
    policy.to_onnx(tmp_path / "policy.onnx", raw=True)
    found = {one.key: json.loads(one.value) for one in onnx.load(tmp_path / "policy.onnx").metadata_props}
    assert found["inputs"]["score"] == input_names(policy.schema_)["score"] == "context.score"
    assert found["missing_text"] == missing_text(policy.schema_) == "<missing>"  # the empty text is a city here
    assert found["policy"] == policy.policy_id


def test_numbers_that_are_categories_are_known_in_other_spellings(tmp_path, policy):
    inputs = raw_inputs(policy.schema_, TABLE.slice(0, 4))
    policy.to_onnx(tmp_path / "policy.onnx", raw=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    scores = []
    for spelling in ("3", "3.0"):
        inputs["zip"] = np.full((4, 1), spelling, dtype=object)
        scores.append(session.run(["score"], inputs)[0])
    np.testing.assert_array_equal(*scores)


def test_inputs_are_made_from_frames_and_from_records(policy):
    rows = TABLE.slice(0, 30)
    expected = raw_inputs(policy.schema_, rows)
    for other in (rows.to_pandas(), rows.to_pylist()):
        found = raw_inputs(policy.schema_, other)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)


def test_columns_that_hold_nothing_are_missing(policy):
    nothing = pd.DataFrame([dict.fromkeys(column.name for column in policy.schema_.columns)])
    inputs = raw_inputs(policy.schema_, nothing)
    assert inputs["city"].tolist() == [["<missing>"]]
    assert inputs["when"].tolist() == [[np.iinfo(np.int64).min]]
    assert np.isnan(inputs["embedding"]).all()


def test_a_blend_and_the_winner_of_a_race_take_raw_columns(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(300), action="item", reward="click", propensity="p")
    race = bopl.AutoPolicy(include=["regression", "surrogate"], progress=False, random_state=0).fit(log)
    parts = [
        bopl.BoostedPolicy(name, n_rounds=2, progress=False, random_state=0).fit(log) for name in ("surrogate", "dr")
    ]
    for policy in (race, bopl.BlendedPolicy.of(parts)):
        _, (_, probability, _) = run_raw(policy, tmp_path / "policy.onnx", click_table(300))
        np.testing.assert_allclose(probability, policy.predict_proba(click_table(300)), atol=1e-4)


def test_columns_without_names_cannot_be_inputs(tmp_path):
    policy = bopl.BoostedPolicy("surrogate", n_rounds=2, progress=False).fit(informative_log())
    with pytest.raises(TypeError, match="fitted on numbers, not on named columns: export it with raw=False"):
        policy.to_onnx(tmp_path / "policy.onnx", raw=True)
