"""Where boosting starts is part of the ensemble: in scores, files, exports and explanations."""

import numpy as np
import onnxruntime
import pytest
import xgboost
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import bopl
from bopl.boosting import STARTS
from bopl.boosting.workbench import Workbench
from bopl.learner.expanded import action_columns, expand
from bopl.objective.softmax import log_softmax, softmax
from helpers import OBJECTIVE_NAMES, informative_log, make_log, masked

MODEL = bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=5.0), n_rounds=5, learning_rate=0.3)
TREES_ALONE = ["uniform", "reward_model"]  # what is made of the engine's trees and nothing else


def fitted(log, start="reward_model", **settings):
    known = {"learner": bopl.HistTree(3), "n_rounds": 4, "reward_model": MODEL, "random_state": 0}
    return bopl.BoostedPolicy(settings.pop("objective", "dr"), start=start, **(known | settings)).fit(log)


def skewed_log(seed=0, n_samples=300):
    """Return a log whose logging policy is a softmax of the context, and known."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_samples, 4))
    action_prob = softmax(context[:, :3] * [1.5, -1.0, 0.5] + [0.0, 0.3, -0.2])
    action = (action_prob.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1)
    reward = (action == np.digitize(context[:, 0], [-0.4, 0.4])) + 0.1 * rng.normal(size=n_samples)
    log = bopl.BanditLog(context, action, reward, action_prob[np.arange(n_samples), action], actions=range(3))
    return log, action_prob


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_no_bound_is_broken_from_any_start(name, start):
    for log in (informative_log(), masked(make_log(3, n_samples=150)), make_log(4, n_samples=150, distinct=2)):
        history = fitted(log, start, objective=name, n_rounds=6).history_
        rounding = 1e-9 * (1.0 + np.abs(log.reward / log.propensity).mean())
        assert (history["guaranteed_decrease"] >= 0.0).all()
        assert (history.objective_risk <= history["recursive_bound"] + rounding).all()
        assert (history.objective_risk <= history["theorem_bound"] + rounding).all()


@pytest.mark.parametrize("start", STARTS)
def test_scores_are_those_of_the_start_and_the_rounds(start):
    log, _ = skewed_log()
    policy = fitted(log, start)
    ensemble, score = policy.ensemble_, policy.decision_function(log.context)
    assert ensemble.start.kind == start
    stages = list(policy.staged_decision_function(log.context))
    assert len(stages) == policy.n_rounds_ == 4
    np.testing.assert_allclose(stages[-1], score, rtol=1e-12, atol=1e-12)
    total = ensemble.start.score(log.context, log.n_actions)
    np.testing.assert_allclose(ensemble.truncated(0).score(log.context), total, rtol=1e-12, atol=1e-12)
    for count, entry in enumerate(ensemble.rounds, start=1):
        total = total + entry.step.size * entry.predictor.predict(log.context)
        np.testing.assert_allclose(ensemble.truncated(count).score(log.context), total, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stages[count - 1], total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("start", STARTS)
def test_without_rounds_the_policy_is_its_start(start, tmp_path):
    log, _ = skewed_log()
    policy = fitted(log, start, n_rounds=0)
    expected = softmax(policy.ensemble_.start.score(log.context, 3))
    np.testing.assert_allclose(policy.predict_proba(log.context), expected)
    policy.save(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(
        bopl.load(tmp_path / "policy.bopl").predict_proba(log.context), policy.predict_proba(log.context)
    )


def test_a_start_from_the_reward_model_is_its_estimates_times_the_sharpness():
    log, _ = skewed_log()
    policy = fitted(log, "reward_model", n_rounds=0, start_sharpness=3.0, n_folds=4)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    rewards = Workbench(log, n_folds=4, seed=seed).rewards(MODEL)
    new = informative_log(5).context
    expected = softmax(3.0 / log.reward.std() * rewards.predict(new))
    np.testing.assert_allclose(policy.predict_proba(new), expected, rtol=1e-9)


def test_a_start_from_the_logging_policy_is_that_policy():
    log, truth = skewed_log(n_samples=2000)
    found = fitted(log, "logging", n_rounds=0).predict_proba(log.context)
    assert np.abs(found - truth).mean() < 0.05
    both = fitted(log, "logging+reward_model", n_rounds=0)
    alone = [fitted(log, start, n_rounds=0).decision_function(log.context) for start in ("logging", "reward_model")]
    np.testing.assert_allclose(both.predict_proba(log.context), softmax(alone[0] + alone[1]), rtol=1e-9)


def test_training_starts_from_estimates_that_no_sample_had_a_part_in():
    """The risk before the first round is that of the cross-fitted scores, not of the folds' mean."""
    log, _ = skewed_log()
    policy = fitted(log, "reward_model", objective="ips")
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    estimate = Workbench(log, seed=seed).rewards(MODEL).estimate
    log_prob = log_softmax(policy.start_sharpness / log.reward.std() * estimate)
    bound = bopl.objective.IPS().bind(bopl.objective.TrainingData(log))
    before = policy.history_["recursive_bound"][0] + policy.history_["guaranteed_decrease"][0]
    assert before == pytest.approx(bound.risk(log_prob))


def test_validation_may_keep_the_start_alone():
    """Where every round makes the validation value worse, no round is kept."""
    log = informative_log()
    worse = log.with_reward(-log.reward)
    policy = fitted(log, "reward_model", objective="ips", start_sharpness=0.0, learner=bopl.HistTree(3)).fit(
        log, validation=worse
    )
    assert policy.n_rounds_ == 0
    assert len(policy.history_["validation_value"]) == 4


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("has_features", [False, True])
def test_exports_and_explanations_know_the_start(start, has_features, tmp_path):
    log, _ = skewed_log()
    features = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]) if has_features else None
    log = bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=log.actions, action_features=features
    )
    policy = fitted(log, start)
    score = policy.decision_function(log.context)
    explanation = policy.explain(log.context, log.action)
    np.testing.assert_allclose(explanation.score, score[np.arange(300), log.action_idx], atol=1e-9)
    ours = run_onnx(policy, log.context, tmp_path)[0]
    np.testing.assert_allclose(ours, score, rtol=1e-5, atol=1e-4)
    assert policy.feature_importances_.sum() == pytest.approx(1.0)
    if start not in TREES_ALONE:
        return
    policy.to_xgboost(tmp_path / "policy.json")
    rows = expand(log.context, action_columns(3, features))
    booster = xgboost.Booster(model_file=tmp_path / "policy.json")
    theirs = booster.predict(xgboost.DMatrix(rows)).reshape(score.shape)
    np.testing.assert_allclose(theirs, score, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("start", "has_prior"), [("logging", False), ("reward_model", True)])
def test_xgboost_cannot_hold_the_logging_policy(start, has_prior, tmp_path):
    log, _ = skewed_log()
    policy = fitted(log, start, reward_prior=has_prior)
    with pytest.raises(TypeError, match="starts from a linear model of the logging policy, which is not a tree"):
        policy.to_xgboost(tmp_path / "policy.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_masked", [False, True])
def test_training_and_predicting_start_from_the_same_logging_policy(is_masked):
    """Also where some actions are ineligible: the model is not told, in training as in predicting."""
    log, _ = skewed_log()
    log = masked(log) if is_masked else log
    bench = Workbench(log, seed=1)
    start, score = bench.logging().start(), bench.logging().log_prob
    np.testing.assert_array_equal(start.score(log.context, 3), score)
    prior = bench.prior()
    np.testing.assert_array_equal(prior.constant + prior.term.predict(log.context), prior.of(score))
    policy = fitted(log, "logging", objective="ips")
    bound = bopl.objective.IPS().bind(bopl.objective.TrainingData(log))
    unboosted = policy.ensemble_.start.score(log.context, 3)
    before = policy.history_["recursive_bound"][0] + policy.history_["guaranteed_decrease"][0]
    assert before == pytest.approx(bound.risk(log_softmax(unboosted, log.action_mask)))


def test_a_reward_model_of_ones_own_can_be_started_from():
    log, _ = skewed_log()
    policy = fitted(log, "reward_model", reward_model=LinearRegression())
    stages = list(policy.staged_decision_function(log.context))
    np.testing.assert_allclose(stages[-1], policy.decision_function(log.context), rtol=1e-12, atol=1e-12)
    with pytest.raises(AttributeError, match="needs a learner that fits trees"):
        _ = policy.feature_importances_
    with pytest.raises(TypeError, match="explanations and exports need a policy"):
        policy.explain(log.context)


# -- Inverse temperature ----------------------------------------------------------------------------------------------


def run_onnx(policy, context, tmp_path):
    policy.to_onnx(tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    return session.run(["score", "probability", "action"], {"context": np.ascontiguousarray(context, np.float32)})


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 7.0, 1e30, np.inf])
def test_inverse_temperature_is_used_saved_and_exported(beta, tmp_path):
    log = informative_log()
    policy = fitted(log, inverse_temperature=beta)
    score, action_prob = policy.decision_function(log.context), policy.predict_proba(log.context)
    np.testing.assert_array_equal(action_prob, softmax(score, inverse_temperature=beta))
    action, propensity = policy.sample(log.context, random_state=0)
    np.testing.assert_array_equal(propensity, action_prob[np.arange(400), action])
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert loaded.inverse_temperature == beta
    np.testing.assert_array_equal(loaded.predict_proba(log.context), action_prob)
    np.testing.assert_array_equal(loaded.predict_proba(log.context, inverse_temperature=1.0), softmax(score))
    theirs, probability, best = run_onnx(policy, log.context, tmp_path)
    np.testing.assert_allclose(theirs, score, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(probability, softmax(theirs.astype(np.float64), inverse_temperature=beta), atol=1e-5)
    np.testing.assert_array_equal(best, policy.predict(log.context))


def test_inverse_temperature_changes_no_score_and_no_choice():
    log = informative_log()
    one, other = fitted(log), fitted(log, inverse_temperature=20.0)
    np.testing.assert_array_equal(one.decision_function(log.context), other.decision_function(log.context))
    np.testing.assert_array_equal(one.predict(log.context), other.predict(log.context))


# -- Workbench --------------------------------------------------------------------------------------------------------


def test_policies_that_share_a_workbench_are_those_that_do_not():
    log = informative_log()
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    bench = Workbench(log, seed=seed)
    for settings in ({"learner": bopl.HistTree(2)}, {"learner": bopl.HistTree(5, colsample=0.5)}, {"objective": "ips"}):
        policy = bopl.BoostedPolicy(**({"n_rounds": 3, "reward_model": MODEL, "random_state": 0} | settings))
        shared = policy.fit(log, workbench=bench).decision_function(log.context)
        assert shared.tobytes() == policy.fit(log).decision_function(log.context).tobytes()
    assert bench.rewards(MODEL) is bench.rewards(bopl.BoostedRewardModel(**MODEL.get_params(deep=False)))


def test_a_workbench_of_another_log_or_with_other_weights_is_refused():
    log = informative_log()
    with pytest.raises(ValueError, match="the workbench belongs to another log"):
        bopl.BoostedPolicy(n_rounds=1).fit(informative_log(), workbench=Workbench(log))
    with pytest.raises(ValueError, match="the workbench has the sample weights; pass them to it, not to fit"):
        bopl.BoostedPolicy(n_rounds=1).fit(log, sample_weight=np.arange(400.0), workbench=Workbench(log))


class Doubled(bopl.HistTree):
    """Trees of ours whose bound part is another's."""

    def bind(self, log, *, seed):
        return DoubledBound(super().bind(log, seed=seed))


class DoubledBound(bopl.learner.BoundLearner):
    def __init__(self, bound):
        self.bound, self.row_order = bound, bound.row_order

    def fit(self, target, round_idx):
        return self.bound.fit(target, 2 * round_idx)


def test_a_subclass_of_the_trees_is_bound_its_own_way_in_every_fit():
    log = informative_log()
    bench, policy = Workbench(log), bopl.BoostedPolicy("ips", Doubled(3, colsample=0.5), n_rounds=3, random_state=0)
    found = [clone(policy).fit(log, workbench=given).decision_function(log.context) for given in (bench, bench, None)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
