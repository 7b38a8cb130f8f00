"""The ONNX model scores, weighs and decides as the policy does."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import bopl
from bopl.log.schema import LogSchema
from bopl.reward.logging_model import LoggingTerm
from helpers import informative_log
from logging_starts import KINDS, assorted_policies, gappy_log, logging_model, starting_from
from product import click_table

FILES = Path(__file__).parent / "files"


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


@pytest.mark.parametrize("labels", [[3, 9, 12], [("a", 1), ("b", 2), "c"], [10**30, 3, 9]])
def test_whole_numbers_come_out_as_they_are_and_other_labels_as_positions(tmp_path, labels):
    log = nasty_log(1, labels=labels)
    policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=3, random_state=0).fit(log)
    policy.to_onnx(tmp_path / "policy.onnx")
    action = run_onnx(tmp_path / "policy.onnx", np.ascontiguousarray(log.context))[2]
    position = policy.decision_function(log.context).argmax(axis=1)
    assert action.tolist() == (np.array(labels)[position] if labels == [3, 9, 12] else position).tolist()


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


@pytest.mark.parametrize("name", ["ips", "surrogate"])
def test_a_policy_of_an_older_file_is_exported_explained_and_shown(tmp_path, name):
    policy, context = bopl.load(FILES / f"format-1-{name}.bopl"), np.load(FILES / f"format-1-{name}.npz")["context"]
    policy.to_onnx(tmp_path / "policy.onnx")
    score, probability, _ = run_onnx(tmp_path / "policy.onnx", np.ascontiguousarray(context, dtype=np.float32))
    np.testing.assert_allclose(score, policy.decision_function(context), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(probability, policy.predict_proba(context), atol=1e-5)
    np.testing.assert_allclose(policy.explain(context).score, policy.decision_function(context).max(axis=1), atol=1e-9)
    assert f"{name}, smoothness paper" in policy._repr_html_()


# -- Starts from the logging policy, and blends -----------------------------------------------------------------------


def assert_agrees(policy, context, path, *, atol=1e-4):
    """Hold scores, probabilities and actions of the model against those of the policy."""
    policy.to_onnx(path)
    score, probability, action = run_onnx(path, np.ascontiguousarray(context, dtype=np.float32))
    np.testing.assert_allclose(score, policy.decision_function(context), rtol=1e-5, atol=atol)
    np.testing.assert_allclose(probability, policy.predict_proba(context), atol=atol)
    best = policy.predict_proba(context, inverse_temperature=1.0)
    chosen = best[np.arange(len(best)), action]
    np.testing.assert_allclose(chosen, best.max(axis=1), atol=1e-5)  # the same but for ties


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("has_gaps", "has_category"), [(True, True), (True, False), (False, True), (False, False)])
def test_onnx_knows_a_start_from_the_logging_policy(tmp_path, kind, has_gaps, has_category):
    log = gappy_log(has_gaps=has_gaps, has_category=has_category)
    policy = assorted_policies(log)[kind]
    context = log.context.copy()
    context[:5, 0] = np.nan  # in a column that had no gaps when the model was fitted
    if has_category:
        context[5:11, 3] = [-1.0, 5.0, 7.0, 1e6, -0.5, 2.5]  # codes of no category, and between two of them
    assert_agrees(policy, context, tmp_path / "policy.onnx", atol=1e-3 if kind == "steep" else 1e-4)


def test_onnx_knows_a_start_that_was_fitted_to_a_table_with_text_and_gaps(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(600), action="item", reward="click", propensity="p")
    model = bopl.BoostedRewardModel(bopl.HistTree(3), n_rounds=4)
    policy = bopl.BoostedPolicy(
        n_rounds=3, start="logging+reward_model", reward_model=model, reward_prior=True, random_state=0
    ).fit(log)
    policy.to_onnx(tmp_path / "policy.onnx")
    score, probability, action = run_onnx(tmp_path / "policy.onnx", log.context)
    np.testing.assert_allclose(score, policy.decision_function(log.context), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(probability, policy.predict_proba(log.context), atol=1e-3)
    assert action.tolist() == policy.predict(log.context).tolist()


@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0, np.inf])
def test_onnx_mixes_the_parts_of_a_blend(tmp_path, beta):
    log = gappy_log()
    parts = list(assorted_policies(log).values())
    for part, own in zip(parts, [1.0, 0.5, 4.0, 1.0, np.inf, 1e35, 0.0], strict=True):
        part.set_params(inverse_temperature=own)
    blend = bopl.BlendedPolicy.of(parts, np.arange(1.0, 8.0), inverse_temperature=beta)
    assert_agrees(blend, log.context, tmp_path / "policy.onnx")
    assert_agrees(bopl.BlendedPolicy.of(parts[:1], None, beta), log.context, tmp_path / "policy.onnx")


def test_probabilities_that_float32_cannot_hold_have_the_logarithms_they_should(tmp_path):
    """A mean of e^-200 would be zero: the logarithm of the mean is taken without it; zero has a finite one."""
    log = informative_log()
    trees = bopl.BoostedPolicy("surrogate", bopl.HistTree(2), n_rounds=3, random_state=0).fit(log)
    far = trees.set_params(inverse_temperature=150.0 / np.ptp(trees.decision_function(log.context)))
    low = bopl.BlendedPolicy.of([far, far])
    assert low.decision_function(log.context).min() < -120.0
    assert_agrees(low, log.context, tmp_path / "policy.onnx", atol=1e-2)
    sure = bopl.BlendedPolicy.of([far.set_params(inverse_temperature=np.inf)])
    assert_agrees(sure, log.context, tmp_path / "policy.onnx")


def test_parts_of_a_blend_share_the_logging_policy_in_the_graph(tmp_path):
    log = gappy_log()
    model = logging_model(log, epsilon=0.1)
    parts = [starting_from(log, [LoggingTerm(model, factor)]) for factor in (1.0, 2.0)]
    bopl.BlendedPolicy.of(parts).to_onnx(tmp_path / "policy.onnx")
    operators = [node.op_type for node in onnx.load(tmp_path / "policy.onnx").graph.node]
    assert operators.count("MatMul") == 1
    assert operators.count("TreeEnsembleRegressor") == 2
