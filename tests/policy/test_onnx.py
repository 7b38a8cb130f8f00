"""The ONNX model scores, weighs and decides as the policy does."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import bopl
from bopl.log.schema import LogSchema
from helpers import informative_log
from product import click_table


def run_onnx(path, context):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["score", "probability", "action"], {"context": context})


def nasty_log(seed, *, labels, n_samples=500, has_features=False):
    rng = np.random.default_rng(seed)
    context = np.column_stack(
        [rng.normal(size=(n_samples, 3)), rng.integers(0, 6, n_samples), np.eye(4)[rng.integers(0, 4, n_samples)]]
    ).astype(np.float32)
    context[rng.random(context.shape) < 0.1] = np.nan
    action = rng.integers(0, len(labels), n_samples)
    reward = rng.normal(size=n_samples) + (action == context[:, 3])
    features = rng.integers(0, 3, (len(labels), 2)) if has_features else None
    column = [labels[position] for position in action]
    return bopl.BanditLog(
        context, column, reward, np.full(n_samples, 1 / len(labels)), actions=labels, action_features=features
    )


@pytest.mark.parametrize("has_features", [False, True])
@pytest.mark.parametrize("learner", [bopl.HistTree, bopl.HistTreeClassifier])
def test_onnx_agrees_with_missing_values_categories_and_action_features(tmp_path, learner, has_features):
    log = nasty_log(3, labels=list("abcdef"), has_features=has_features)
    policy = bopl.BoostedPolicy("ips", learner(6, min_child_weight=0.5, categorical=[3]), n_rounds=6, random_state=0)
    policy.fit(log)
    policy.to_onnx(tmp_path / "policy.onnx")
    score, probability, action = run_onnx(tmp_path / "policy.onnx", np.ascontiguousarray(log.context))
    np.testing.assert_allclose(score, policy.decision_function(log.context), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(probability, policy.predict_proba(log.context), atol=1e-5)
    assert action.tolist() == policy.predict(log.context).tolist()


@pytest.mark.parametrize("labels", [[3, 9, 12], [("a", 1), ("b", 2), "c"]])
def test_whole_numbers_come_out_as_they_are_and_other_labels_as_positions(tmp_path, labels):
    log = nasty_log(1, labels=labels)
    policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=3, random_state=0).fit(log)
    policy.to_onnx(tmp_path / "policy.onnx")
    action = run_onnx(tmp_path / "policy.onnx", np.ascontiguousarray(log.context))[2]
    position = policy.decision_function(log.context).argmax(axis=1)
    assert action.tolist() == (np.array(labels)[position] if isinstance(labels[0], int) else position).tolist()


def test_the_model_carries_its_actions_and_columns(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(300), action="item", reward="click", propensity="p")
    policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=3, random_state=0).fit(log)
    policy.to_onnx(tmp_path / "policy.onnx")
    properties = {entry.key: json.loads(entry.value) for entry in onnx.load(tmp_path / "policy.onnx").metadata_props}
    assert properties["actions"] == policy.actions_.tolist()
    assert LogSchema.from_json(properties["schema"]) == log.schema


def test_learners_that_onnx_trees_cannot_hold_are_refused(tmp_path):
    from sklearn.linear_model import Ridge

    policy = bopl.BoostedPolicy("surrogate", Ridge(), n_rounds=2).fit(informative_log())
    with pytest.raises(TypeError, match="exports need a policy whose learner is HistTree"):
        policy.to_onnx(tmp_path / "policy.onnx")
