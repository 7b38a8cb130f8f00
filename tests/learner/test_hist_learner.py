"""The engine inside the package: policies, files, sparse contexts, masks, action features, reward regression."""

import io
import subprocess
import sys

import numpy as np
import pytest
import xgboost
from scipy.sparse import csr_array
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge

import bopl
from bopl.learner import bind_learner
from bopl.learner.expanded import action_columns, expand
from bopl.learner.hist_tree.rounds import announced_compilation
from bopl.learner.store import pack_predictors, unpack_predictors
from bopl.objective import IPS, StepTarget, Surrogate, TrainingData
from bopl.objective.softmax import log_softmax
from helpers import informative_log, make_log

LEARNERS = [bopl.HistTree(max_depth=5, n_jobs=1), bopl.HistTreeClassifier(max_depth=5, n_jobs=1)]


def target_of(log, seed=0):
    score = np.random.default_rng(seed).normal(size=(log.n_samples, log.n_actions))
    bound = Surrogate().bind(TrainingData(log))
    return StepTarget(bound.gradient(log_softmax(score, log.action_mask)), bound.weight)


def featured(log, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((log.n_samples, log.n_actions)) < 0.7
    mask[np.arange(log.n_samples), log.action_idx] = True
    return bopl.BanditLog(
        log.context,
        log.action,
        log.reward,
        log.propensity,
        actions=log.actions,
        action_mask=mask,
        action_features=rng.normal(size=(log.n_actions, 2)),
    )


def test_the_engine_is_the_default_learner():
    policy = bopl.BoostedPolicy(n_rounds=2, random_state=0).fit(informative_log())
    assert policy.ensemble_.rounds[0].predictor.kind == "hist_tree"


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("objective", ["ips", "surrogate"])
def test_policy_of_the_engine_keeps_its_bounds_and_learns(learner, objective):
    test = informative_log(5)
    policy = bopl.BoostedPolicy(objective, learner, n_rounds=30, reward_translation=-0.2).fit(informative_log())
    history = policy.history_
    assert (history.objective_risk <= history["recursive_bound"] + 1e-12).all()
    assert (history.objective_risk <= history["theorem_bound"] + 1e-12).all()
    assert policy.score(test) > test.reward.mean() + 0.2


@pytest.mark.parametrize(
    ("objective", "alpha"),
    [
        (IPS(smoothness="paper"), 2.0),
        (Surrogate(smoothness="paper"), 1.0),
        (IPS(), 9.0 / np.sqrt(3.0)),
        (Surrogate(), 2.0),
    ],
    ids=str,
)
def test_alpha_of_the_engines_regression_tree_is_what_the_algebra_says(objective, alpha):
    policy = bopl.BoostedPolicy(objective, LEARNERS[0], n_rounds=5).fit(make_log())
    np.testing.assert_allclose(policy.history_["alpha"], alpha, rtol=1e-9)
    masked = bopl.BoostedPolicy(objective, LEARNERS[0], n_rounds=5).fit(featured(make_log()))
    np.testing.assert_allclose(masked.history_["alpha"], alpha, rtol=1e-9)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_stacked_scores_are_those_of_a_loop_to_the_last_bit(learner):
    log = featured(make_log(n_samples=3000, n_actions=5))
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=6).fit(log)
    *_, last = policy.staged_decision_function(log.context)
    assert policy.decision_function(log.context).tobytes() == last.tobytes()


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_saved_policy_of_the_engine_gives_the_same_bits(tmp_path, learner):
    log = featured(make_log())
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=5, random_state=0).fit(log)
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert loaded.decision_function(log.context).tobytes() == policy.decision_function(log.context).tobytes()
    assert loaded.learner.get_params() == learner.get_params()
    np.testing.assert_allclose(loaded.feature_importances_, policy.feature_importances_, rtol=1e-5)
    loaded.save(tmp_path / "again.bopl")
    assert (tmp_path / "again.bopl").read_bytes() == (tmp_path / "policy.bopl").read_bytes()


def test_models_are_the_same_bytes_for_any_number_of_threads(tmp_path):
    log = make_log(n_samples=9000, n_features=6)
    contents = []
    for n_jobs in (1, 2, 4, 1):
        policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(max_depth=6, n_jobs=n_jobs), n_rounds=4, random_state=0)
        policy.fit(log)
        policy.learner = None
        policy.save(tmp_path / "policy.bopl")
        contents.append((tmp_path / "policy.bopl").read_bytes())
    assert len(set(contents)) == 1


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("feature", 99, "a column that does not exist"),
        ("right", 0, "children do not follow their parents"),
        ("action", 99, "action that does not exist"),
        ("n_nodes", 1, "sizes do not match"),
        ("right_actions", None, "action sets do not match"),
    ],
)
def test_engine_trees_that_would_leave_their_arrays_are_refused(array, value, message):
    log = make_log()
    tree = bind_learner(LEARNERS[0], log, seed=0).fit(target_of(log), 0).predictor
    facts, arrays = pack_predictors([tree])
    arrays = {name: np.array(values) for name, values in arrays.items()}
    if value is None:
        arrays[array] = arrays[array][1:]
    else:
        arrays[array][0] = value
    with pytest.raises(ValueError, match=message):
        unpack_predictors(facts, arrays, n_features=log.n_features, n_actions=log.n_actions)


def test_sparse_contexts_train_and_score_without_being_made_dense():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, size=(500, 8)) * (rng.random((500, 8)) < 0.2)
    action = rng.integers(0, 3, size=500)
    reward = (action == dense[:, 0]).astype(float)
    logs = [bopl.BanditLog(context, action, reward, np.full(500, 1 / 3)) for context in (dense, csr_array(dense))]
    policies = [bopl.BoostedPolicy("surrogate", LEARNERS[0], n_rounds=5).fit(log) for log in logs]
    scores = [policy.decision_function(context) for policy in policies for context in (dense, csr_array(dense))]
    for score in scores[1:]:
        np.testing.assert_allclose(score, scores[0], rtol=1e-9, atol=1e-12)


def test_compilation_is_announced_once_and_only_when_it_happens(monkeypatch):
    monkeypatch.setattr("bopl.learner.hist_tree.rounds.MIN_SECONDS", 0.0)
    code = (
        "import numpy as np, bopl; rng = np.random.default_rng(0);"
        "log = bopl.BanditLog(rng.normal(size=(50, 2)), rng.integers(0, 2, 50), rng.random(50), np.full(50, 0.5));"
        "bopl.BoostedPolicy('surrogate', n_rounds=2, learner=bopl.HistTree(max_depth=2, n_jobs=1)).fit(log)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    warm = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert warm.stderr == ""
    stream = io.StringIO()
    from numba import njit

    for k in (1, 2):
        with announced_compilation(stream):
            njit(lambda x, k=k: x + k)(1)
    assert stream.getvalue().count("compiling the tree engine, once per installation") == 1
    assert "compiled in" in stream.getvalue()


def test_reward_model_is_gradient_boosting_on_the_logged_pairs():
    """With one-hot actions and shared settings, scikit-learn's boosting finds the same function."""
    log = informative_log(n_samples=600)
    learner = bopl.HistTree(max_depth=3, min_samples_leaf=1, min_child_weight=0.0, n_jobs=1)
    model = bopl.BoostedRewardModel(learner, n_rounds=20, learning_rate=0.3).fit(log)
    context = np.round(log.context, 1)
    coarse = bopl.BanditLog(context, log.action, log.reward, log.propensity, actions=log.actions)
    model.fit(coarse)
    one_hot = np.eye(log.n_actions)[log.action_idx]
    theirs = GradientBoostingRegressor(n_estimators=20, learning_rate=0.3, max_depth=3)
    theirs.fit(np.hstack([context, one_hot]), log.reward)
    ours = model.predict(context)[np.arange(600), log.action_idx]
    difference = np.abs(ours - theirs.predict(np.hstack([context, one_hot])))
    assert np.quantile(difference, 0.9) < 0.02


def test_reward_model_scores_all_actions_like_one_at_a_time():
    log = informative_log()
    model = bopl.BoostedRewardModel(n_rounds=10).fit(log)
    scores = model.predict(log.context)
    assert scores.shape == (400, 3)
    np.testing.assert_allclose(model.predict(csr_array(log.context)), scores)
    best = scores.argmax(axis=1) == log.action_idx
    assert log.reward[best].mean() > 0.8


def test_reward_model_refuses_more_actions_than_bins():
    log = make_log(n_samples=40, n_actions=20)
    with pytest.raises(ValueError, match="20 actions need max_bins of at least 20, but it is 8"):
        bopl.BoostedRewardModel(bopl.HistTree(max_bins=8)).fit(log)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_exported_xgboost_model_scores_every_row_like_the_policy(tmp_path, learner):
    log = featured(make_log(n_samples=200))
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=5, random_state=0).fit(log)
    policy.to_xgboost(tmp_path / "policy.json")
    booster = xgboost.Booster(model_file=tmp_path / "policy.json")
    rows = expand(log.context, action_columns(log.n_actions, log.action_features))
    scores = booster.predict(xgboost.DMatrix(rows)).reshape(log.n_samples, log.n_actions)
    np.testing.assert_allclose(scores, policy.decision_function(log.context), rtol=1e-5, atol=1e-5)
    contributions = booster.predict(xgboost.DMatrix(rows[:8]), pred_contribs=True)  # SHAP values
    np.testing.assert_allclose(contributions.sum(axis=1), scores.ravel()[:8], rtol=1e-4, atol=1e-4)


def test_export_to_xgboost_refuses_what_it_cannot_write(tmp_path):
    policy = bopl.BoostedPolicy("surrogate", Ridge(), n_rounds=1).fit(make_log())
    with pytest.raises(TypeError, match="exports need a policy whose learner is HistTree"):
        policy.to_xgboost(tmp_path / "policy.json")
    with pytest.raises(ValueError, match=r"use one that ends in \.json"):
        policy.to_xgboost(tmp_path / "policy.model")


def test_categorical_columns_can_be_named():
    rng = np.random.default_rng(0)
    city, action = rng.integers(0, 6, size=600), rng.integers(0, 2, size=600)
    reward = (action == np.isin(city, [1, 4])).astype(float)
    context = np.column_stack([rng.normal(size=600), city])
    log = bopl.BanditLog(context, action, reward, np.full(600, 0.5), feature_names=["age", "city"])
    learner = bopl.HistTree(max_depth=4, categorical=["city"], n_jobs=1)
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=10, reward_translation=-0.2).fit(log)
    assert (policy.predict(context) == np.isin(city, [1, 4])).all()
    assert any(entry.predictor.tree.is_equal.any() for entry in policy.ensemble_.rounds)
    with pytest.raises(ValueError, match="categorical names column 'town'; the columns are 'age', 'city'"):
        bind_learner(bopl.HistTree(categorical=["town"]), log, seed=0)
