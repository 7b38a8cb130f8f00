"""All baselines have the interface of BoostedPolicy: one loop trains, scores, saves and loads them."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bopl
from bopl.baseline import (
    BanditNetPolicy,
    BoostedRewardPolicy,
    DeepRewardPolicy,
    LoggingPolicy,
    UniformPolicy,
    XGBRewardPolicy,
)
from helpers import informative_log, make_log

SMALL = {"n_hidden_layers": 1, "first_layer_width": 64, "n_epochs": 60, "batch_size": 20, "random_state": 0}


def baselines():
    policies = [
        UniformPolicy(),
        LoggingPolicy(),
        BoostedRewardPolicy(n_rounds=20, n_jobs=1),
        bopl.BoostedPolicy(n_rounds=20, reward_translation=-0.2, random_state=0),
    ]
    return policies + [
        pytest.param(policy, marks=pytest.mark.skipif(not found, reason=f"{extra} is an optional dependency"))
        for policy, extra, found in (
            (XGBRewardPolicy(n_rounds=20, n_jobs=1), "xgboost", _has("xgboost")),
            (DeepRewardPolicy(**SMALL), "torch", _has("torch")),
            (BanditNetPolicy(**SMALL, reward_translation=-0.2), "torch", _has("torch")),
        )
    ]


def _has(name):
    from importlib.util import find_spec

    return find_spec(name) is not None


LEARNERS = (BoostedRewardPolicy, XGBRewardPolicy, DeepRewardPolicy, BanditNetPolicy, bopl.BoostedPolicy)


@pytest.mark.parametrize("baseline", baselines(), ids=lambda policy: type(policy).__name__)
def test_one_loop_trains_scores_saves_and_loads_every_policy(baseline, tmp_path):
    train, test = informative_log(0).split(0.3, random_state=0)
    policy = clone(baseline).fit(train)
    action_prob = policy.predict_proba(test.context)
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)
    action, propensity = policy.sample(test.context, random_state=0)
    assert set(action) <= set(policy.actions_.tolist())
    assert propensity.min() > 0.0
    if isinstance(policy, LEARNERS):
        assert policy.score(test) > 0.8
        assert (action_prob.argmax(axis=1) == policy.decision_function(test.context).argmax(axis=1)).all()
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert type(loaded) is type(policy)
    assert loaded.decision_function(test.context).tobytes() == policy.decision_function(test.context).tobytes()
    loaded.save(tmp_path / "again.bopl")
    assert (tmp_path / "again.bopl").read_bytes() == (tmp_path / "policy.bopl").read_bytes()


@pytest.mark.parametrize("baseline", baselines(), ids=lambda policy: type(policy).__name__)
def test_unfitted_policies_say_so(baseline, tmp_path):
    policy = clone(baseline)
    for use in (lambda: policy.predict([[0.0] * 4]), lambda: policy.save(tmp_path / "policy.bopl")):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use()


@pytest.mark.parametrize("baseline", baselines(), ids=lambda policy: type(policy).__name__)
def test_columns_and_logs_train_alike_and_frames_keep_their_names(baseline):
    import pandas as pd

    log = informative_log(1)
    frame = pd.DataFrame(log.context, columns=list("wxyz"))
    policy = clone(baseline).fit(frame, log.action, reward=log.reward, propensity=log.propensity)
    assert policy.feature_names_in_.tolist() == list("wxyz")
    expected = clone(baseline).fit(log).decision_function(log.context)
    np.testing.assert_array_equal(policy.decision_function(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        policy.predict(frame[list("zyxw")])
    with pytest.raises(ValueError, match="4 features"):
        policy.predict(np.zeros((1, 3)))


@pytest.mark.parametrize("policy_class", [BoostedRewardPolicy, XGBRewardPolicy])
def test_boosted_reward_policies_are_greedy_in_the_predicted_reward(policy_class):
    log = informative_log(2)
    policy = policy_class(n_rounds=10, n_jobs=1).fit(log)
    action_prob = policy.predict_proba(log.context)
    assert set(np.unique(action_prob)) == {0.0, 1.0}
    soft = policy.predict_proba(log.context, inverse_temperature=1.0)
    assert soft.max() < 0.9
    np.testing.assert_allclose(policy.predict_proba(log.context, inverse_temperature=0.0), 1 / 3)


def test_boosted_reward_policy_predicts_what_its_model_does():
    log = informative_log(3)
    policy = BoostedRewardPolicy(bopl.HistTree(max_depth=3), n_rounds=12, learning_rate=0.3).fit(log)
    model = bopl.BoostedRewardModel(bopl.HistTree(max_depth=3), n_rounds=12, learning_rate=0.3).fit(log)
    np.testing.assert_array_equal(policy.decision_function(log.context), model.predict(log.context))


def test_boosting_lowers_the_squared_error_of_the_rewards_with_every_tree():
    log = informative_log(4)
    errors = []
    for n_rounds in (1, 5, 20, 60):
        score = BoostedRewardPolicy(n_rounds=n_rounds).fit(log).decision_function(log.context)
        errors.append(np.mean((score[np.arange(len(log)), log.action_idx] - log.reward) ** 2))
    assert errors == sorted(errors, reverse=True)


def test_both_boosted_reward_policies_agree_where_their_trees_can():
    """Few distinct values: binning loses nothing, so that both libraries fit the same least-squares trees."""
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    context = rng.integers(0, 8, size=(600, 3)).astype(np.float32)
    action = rng.integers(0, 3, size=600)
    reward = (context[:, 0] > action) + 0.3 * context[:, 1] * (action == 1) + 0.1 * rng.normal(size=600)
    log = bopl.BanditLog(context, action, reward, np.full(600, 1 / 3))
    ours = BoostedRewardPolicy(bopl.HistTree(max_depth=4, min_child_weight=5), n_rounds=10, learning_rate=0.5).fit(log)
    theirs = XGBRewardPolicy(10, 4, 5, 0.0, 0.5, n_jobs=1).fit(log)
    # Ties between splits of equal gain may fall differently: nearly all predictions agree, not all.
    gap = np.abs(ours.decision_function(context) - theirs.decision_function(context))
    assert np.quantile(gap, 0.9) < 0.02


def test_booster_trained_on_sparse_contexts_scores_dense_ones_alike():
    pytest.importorskip("xgboost")
    log = make_log(0, n_samples=200, distinct=3)
    sparse = bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity, actions=log.actions)
    for fitted, other in ((sparse, log), (log, sparse)):
        policy = XGBRewardPolicy(n_rounds=5, n_jobs=1).fit(fitted)
        np.testing.assert_array_equal(policy.decision_function(fitted.context), policy.decision_function(other.context))


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
def test_leaving_out_the_zeros_of_indicators_changes_no_prediction(tree_method, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 12, size=3000)
    context = np.hstack([rng.normal(size=(3000, 2)).round(1), np.eye(12)[kind]]).astype(np.float32)
    action = rng.integers(0, 4, size=3000)
    reward = np.sin(context[:, 0] + kind) * (action == kind % 4) + 0.1 * rng.normal(size=3000)
    log = bopl.BanditLog(context, action, reward, np.full(3000, 0.25))
    policy = XGBRewardPolicy(30, 6, 3, 1.0, 0.3, tree_method=tree_method, n_jobs=1).fit(log)
    np.testing.assert_array_equal(policy.absent_zero_, [False] * 2 + [True] * 12)
    dense = np.hstack([log.context, np.eye(4, dtype=np.float32)[log.action_idx]])
    booster = xgboost.train(policy._booster_params(), xgboost.DMatrix(dense, log.reward), num_boost_round=30)
    for at in range(4):
        rows = xgboost.DMatrix(np.hstack([context, np.tile(np.eye(4, dtype=np.float32)[at], (3000, 1))]))
        np.testing.assert_allclose(policy.decision_function(context)[:, at], booster.predict(rows), atol=1e-5)
    policy.save(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(
        bopl.load(tmp_path / "policy.bopl").decision_function(csr_array(context)), policy.decision_function(context)
    )


def test_action_features_reach_the_booster():
    pytest.importorskip("xgboost")
    log = make_log(0)
    featured = bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=log.actions, action_features=np.eye(4)[:, :2]
    )
    assert XGBRewardPolicy(n_rounds=2, n_jobs=1).fit(featured).booster_.num_features() == 3 + 4 + 2


def test_logging_policy_recovers_the_probabilities_of_a_softmax():
    rng = np.random.default_rng(0)
    context, coef = rng.normal(size=(20_000, 2)), rng.normal(size=(2, 3))
    truth = np.exp(context @ coef)
    truth /= truth.sum(axis=1, keepdims=True)
    action = (truth.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    log = bopl.BanditLog(context, action, np.zeros(20_000), truth[np.arange(20_000), action], actions=[0, 1, 2, 3])
    estimate = LoggingPolicy().fit(log).predict_proba(context)
    assert np.abs(estimate[:, :3] - truth).max() < 0.05
    assert estimate[:, 3].max() < 1e-6  # never logged


@pytest.mark.parametrize("n_logged", [1, 2])
def test_logging_policy_of_few_logged_actions(n_logged):
    log = make_log(0)
    log = bopl.BanditLog(log.context, log.action_idx % n_logged, log.reward, log.propensity, actions=[0, 1, 2])
    action_prob = LoggingPolicy().fit(log).predict_proba(log.context)
    assert action_prob[:, n_logged:].max() < 1e-6
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)


def test_uniform_policy_spreads_over_the_eligible_actions():
    log = make_log(0)
    mask = np.ones((1, 4), bool)
    mask[0, 2] = False
    action_prob = UniformPolicy().fit(log).predict_proba(log.context[:1], action_mask=mask)
    np.testing.assert_allclose(action_prob, [[1 / 3, 1 / 3, 0, 1 / 3]])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (BoostedRewardPolicy(learning_rate=-0.1), r"learning_rate must lie in \(0, 2\]; got -0\.1"),
        (BoostedRewardPolicy(n_rounds=0), "n_rounds must be at least 1"),
        (BoostedRewardPolicy(n_jobs=0), "n_jobs must be at least 1"),
        (XGBRewardPolicy(learning_rate=-0.1), r"learning_rate must lie in \(0, 1\]"),
        (XGBRewardPolicy(tree_method="approx"), "tree_method must be one of 'exact', 'hist'"),
        (LoggingPolicy(C=0), "C must be greater than 0"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_out_of_range_are_refused_by_name(policy, message):
    with pytest.raises(ValueError, match=message):
        policy.fit(make_log())


def test_the_former_name_of_c_still_works_with_a_warning(tmp_path):
    log = make_log()
    with pytest.warns(FutureWarning, match="inverse_penalty is now called C"):
        former = LoggingPolicy(inverse_penalty=0.01).fit(log)
    policy = LoggingPolicy(C=0.01).fit(log)
    np.testing.assert_array_equal(former.coef_, policy.coef_)
    for one in (former, policy):
        one.save(tmp_path / "policy.bopl")
        assert bopl.load(tmp_path / "policy.bopl").get_params() == policy.get_params()


def test_missing_xgboost_is_one_sentence_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"XGBRewardPolicy needs XGBoost: pip install 'bopl\[xgboost\]'\."):
        XGBRewardPolicy().fit(make_log())


def test_importing_the_baselines_pulls_in_neither_torch_nor_xgboost_nor_numba():
    code = (
        "import sys, bopl.baseline.deep, bopl.simulation; "
        "assert not {'torch', 'xgboost', 'numba'} & set(sys.modules), 'heavy'"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_file_that_names_an_unknown_class_is_refused(tmp_path):
    from bopl._archive import Archive, write_archive

    write_archive(tmp_path / "policy.bopl", Archive("policy", 1, {"class": "os.system"}, {}))
    with pytest.raises(ValueError, match=r"it contains 'os\.system'"):
        bopl.load(tmp_path / "policy.bopl")
