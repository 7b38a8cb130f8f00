"""Trees of XGBoost and scikit-learn are trees of the engine: explained, exported and scored like its own."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import xgboost
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import bopl
from bopl.learner import bind_learner
from bopl.learner.expanded import action_columns, expand
from bopl.learner.hist_tree.shap import explain_pairs
from bopl.objective import StepTarget

FILES = Path(__file__).parent / "files"
LEARNERS = {
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "classifier": DecisionTreeClassifier(max_depth=4, random_state=0),
    "random": ExtraTreeRegressor(max_depth=4, random_state=0),
    "exact": bopl.XGBTree("exact", max_depth=4, n_jobs=1),
    "hist": bopl.XGBTree("hist", max_depth=4, n_jobs=1),
    "sparse": bopl.XGBTree("hist", max_depth=4, n_jobs=1),
}


def featured_log(*, is_sparse, n_samples=300, n_actions=4):
    rng = np.random.default_rng(5)
    context = rng.integers(0, 4, size=(n_samples, 4)).astype(np.float32)
    if not is_sparse:
        context[rng.random(context.shape) < 0.1] = np.nan
    action = rng.integers(0, n_actions, n_samples)
    reward = (action == (np.nan_to_num(context[:, 0]) > 1) + 2 * (np.nan_to_num(context[:, 1]) > 2)).astype(float)
    return bopl.BanditLog(
        csr_array(context) if is_sparse else context,
        action,
        reward,
        np.full(n_samples, 1 / n_actions),
        actions=range(n_actions),
        action_features=rng.integers(-1, 2, size=(n_actions, 2)),
    )


@pytest.fixture(scope="module", params=LEARNERS)
def fitted(request):
    log = featured_log(is_sparse=request.param == "sparse")
    policy = bopl.BoostedPolicy(
        "surrogate", LEARNERS[request.param], n_rounds=5, reward_translation=-0.3, random_state=0
    )
    return policy.fit(log), log


def run_onnx(path, context):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["score", "probability"], {"context": np.ascontiguousarray(context, dtype=np.float32)})


def dense_context(log):
    return log.context.toarray() if hasattr(log.context, "toarray") else log.context


def test_explanations_add_up_to_the_scores(fitted):
    policy, log = fitted
    score = policy.decision_function(log.context)
    explanation = policy.explain(log.context, log.action)
    np.testing.assert_allclose(explanation.score, score[np.arange(len(log)), log.action_idx], atol=1e-9)
    np.testing.assert_allclose(policy.explain(dense_context(log), log.action).score, explanation.score, atol=1e-12)
    assert np.abs(explanation.feature).sum() > 0
    assert np.abs(explanation.action).sum() > 0


def test_onnx_scores_like_the_policy(fitted, tmp_path):
    policy, log = fitted
    policy.to_onnx(tmp_path / "policy.onnx")
    score, probability = run_onnx(tmp_path / "policy.onnx", dense_context(log))
    np.testing.assert_allclose(score, policy.decision_function(log.context), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(probability, policy.predict_proba(log.context), atol=1e-5)


def test_a_context_scores_alike_alone_and_among_many_and_after_loading(fitted, tmp_path):
    policy, log = fitted
    score = policy.decision_function(log.context)
    np.testing.assert_array_equal(
        np.vstack([policy.decision_function(log.context[[k]]) for k in range(20)]), score[:20]
    )
    assert policy.ensemble_.has_exact_rows
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(loaded.decision_function(log.context), score)
    np.testing.assert_allclose(loaded.explain(log.context).feature, policy.explain(log.context).feature, atol=1e-5)
    assert loaded.policy_id == policy.policy_id


@pytest.mark.parametrize("name", ["exact", "hist"])
def test_explanations_of_xgboosts_trees_are_xgboosts_own(name):
    log, rng = featured_log(is_sparse=False), np.random.default_rng(0)
    bound = bind_learner(LEARNERS[name], log, seed=0)
    gradient = rng.normal(size=(log.n_samples, log.n_actions)) + rng.normal(size=log.n_actions)
    tree = bound.fit(StepTarget(gradient, rng.uniform(0.5, 2.0, log.n_samples)), 0).predictor.tree
    row, action = np.repeat(np.arange(len(log)), log.n_actions), np.tile(np.arange(log.n_actions), len(log))
    ours, expected = explain_pairs([tree], [1.0], log.context, row, action)
    rows = expand(log.context, action_columns(log.n_actions, log.action_features))
    theirs = bound.booster.predict(xgboost.DMatrix(rows), pred_contribs=True)
    np.testing.assert_allclose(ours, theirs[:, :-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(expected, theirs[0, -1], rtol=1e-4, atol=1e-5)


def test_xgboosts_trees_are_written_as_an_xgboost_model_unless_zeros_are_missing(tmp_path):
    log = featured_log(is_sparse=False)
    policy = bopl.BoostedPolicy("surrogate", LEARNERS["hist"], n_rounds=3, random_state=0).fit(log)
    policy.to_xgboost(tmp_path / "policy.json")
    rows = expand(log.context, action_columns(log.n_actions, log.action_features))
    score = xgboost.Booster(model_file=tmp_path / "policy.json").predict(xgboost.DMatrix(rows))
    np.testing.assert_allclose(
        score.reshape(-1, log.n_actions), policy.decision_function(log.context), rtol=1e-5, atol=1e-5
    )
    sparse = bopl.BoostedPolicy("surrogate", LEARNERS["sparse"], n_rounds=2).fit(featured_log(is_sparse=True))
    with pytest.raises(TypeError, match="take zeros for missing values"):
        sparse.to_xgboost(tmp_path / "policy.json")


def test_learners_without_trees_say_so():
    log = featured_log(is_sparse=True)
    policy = bopl.BoostedPolicy("surrogate", Ridge(), n_rounds=2).fit(log)
    with pytest.raises(TypeError, match="a decision tree of scikit-learn"):
        policy.explain(log.context)


@pytest.mark.parametrize("name", ["tree", "xgb_tree", "sparse_xgb_tree"])
def test_a_file_that_kept_such_trees_apart_scores_as_it_did(name, tmp_path):
    """Written by the last commit that had two types of trees; what it scored then lies beside it."""
    policy, then = bopl.load(FILES / f"format-2-{name}.bopl"), np.load(FILES / f"format-2-{name}.npz")
    np.testing.assert_array_equal(policy.decision_function(then["context"]), then["score"])
    np.testing.assert_array_equal(policy.decision_function(csr_array(then["context"])), then["score"])
    np.testing.assert_allclose(policy.feature_importances_, then["importance"], rtol=1e-12)
    policy.to_onnx(tmp_path / "policy.onnx")
    score, _ = run_onnx(tmp_path / "policy.onnx", then["context"])
    np.testing.assert_allclose(score, then["score"], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="did not keep the weights of nodes"):
        policy.explain(then["context"])
    policy.save(tmp_path / "new.bopl")
    np.testing.assert_array_equal(bopl.load(tmp_path / "new.bopl").decision_function(then["context"]), then["score"])
