import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bopl
from bopl.objective import IPS, Surrogate
from bopl.objective.softmax import softmax
from helpers import informative_log, make_log


def fitted(log=None, **settings):
    known = {"objective": "surrogate", "learner": DecisionTreeRegressor(max_depth=3), "n_rounds": 10, "random_state": 0}
    return bopl.BoostedPolicy(**(known | settings)).fit(log or informative_log())


def test_columns_and_a_log_are_the_same_to_fit():
    log = informative_log()
    other = bopl.BoostedPolicy("surrogate", DecisionTreeRegressor(max_depth=3), n_rounds=10, random_state=0)
    other.fit(log.context, log.action, reward=log.reward, propensity=log.propensity)
    np.testing.assert_array_equal(fitted(log).decision_function(log.context), other.decision_function(log.context))


def test_policy_learns_which_action_is_best():
    test = informative_log(5)
    policy = fitted(learner=DecisionTreeRegressor(max_depth=6), n_rounds=30, reward_translation=-0.2)
    agreed = policy.predict(test.context) == test.action
    assert test.reward[agreed].mean() > 0.85
    assert policy.score(test) > test.reward.mean() + 0.3


def test_probabilities_are_the_softmax_of_the_scores():
    log, policy = informative_log(), fitted()
    score = policy.decision_function(log.context)
    np.testing.assert_array_equal(policy.predict_proba(log.context), softmax(score))
    np.testing.assert_allclose(policy.predict_proba(log.context, inverse_temperature=0), 1 / 3)
    greedy = policy.predict_proba(log.context, inverse_temperature=np.inf)
    np.testing.assert_array_equal(policy.actions_[greedy.argmax(axis=1)], policy.predict(log.context))
    assert set(np.unique(greedy)) == {0.0, 1.0}


def test_inverse_temperature_must_not_be_negative():
    with pytest.raises(ValueError, match="inverse_temperature must be at least 0; got -1"):
        fitted().predict_proba([[0, 0, 0, 0]], inverse_temperature=-1)


def test_sampled_actions_follow_the_probabilities_and_carry_them():
    policy = fitted()
    context = np.repeat(informative_log().context[:1], 20_000, axis=0)
    expected = policy.predict_proba(context[:1])[0]
    action, propensity = policy.sample(context, random_state=0)
    for position, label in enumerate(policy.actions_):
        share = (action == label).mean()
        assert abs(share - expected[position]) < 5 * np.sqrt(expected[position] * (1 - expected[position]) / 20_000)
        np.testing.assert_array_equal(propensity[action == label], expected[position])
    again = policy.sample(context, random_state=0)
    np.testing.assert_array_equal(action, again[0])


def test_sampling_gives_a_log_that_can_be_learned_from():
    policy = fitted()
    action, propensity = policy.sample(informative_log().context, random_state=1)
    log = bopl.BanditLog(informative_log().context, action, np.ones(400), propensity, actions=policy.actions_)
    assert policy.score(log) == pytest.approx(1.0)


def test_staged_scores_end_at_the_decision_function():
    log, policy = informative_log(), fitted()
    stages = list(policy.staged_decision_function(log.context))
    assert len(stages) == policy.n_rounds_ == 10
    np.testing.assert_array_equal(stages[-1], policy.decision_function(log.context))


def test_labels_of_any_kind_come_back_from_predict():
    log = informative_log()
    labels = np.array(["tea", "milk", "coffee"])[log.action_idx]
    policy = fitted(bopl.BanditLog(log.context, labels, log.reward, log.propensity))
    assert set(policy.predict(log.context)) <= {"tea", "milk", "coffee"}
    assert policy.actions_.tolist() == ["coffee", "milk", "tea"]


def test_feature_importances_find_the_column_that_matters():
    policy = fitted()
    assert policy.feature_importances_.shape == (4,)
    assert policy.feature_importances_.sum() == pytest.approx(1.0)
    assert policy.feature_importances_.argmax() == 0
    assert policy.feature_importances_[0] > 0.8
    assert 0.0 < policy.action_importance_ < 1.0


def test_gains_times_alpha_add_up_to_twice_the_guaranteed_decrease():
    log = make_log()
    policy = fitted(log, objective="ips", n_rounds=4)
    total = policy._gain_by_column().sum() / log.n_samples
    assert total == pytest.approx(2 * policy.history_["guaranteed_decrease"].sum())


def test_feature_importances_need_trees():
    with pytest.raises(AttributeError, match="needs a learner that fits trees"):
        _ = fitted(learner=LinearRegression()).feature_importances_


def test_sparse_and_dense_contexts_predict_the_same():
    log, policy = make_log(distinct=3), fitted(make_log(distinct=3))
    np.testing.assert_array_equal(policy.predict_proba(csr_array(log.context)), policy.predict_proba(log.context))


def test_frames_are_checked_by_name():
    log = informative_log()
    frame = pd.DataFrame(log.context, columns=["a", "b", "c", "d"])
    policy = fitted(bopl.BanditLog(frame, log.action, log.reward, log.propensity))
    assert policy.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(policy.predict(frame), policy.predict(log.context))
    with pytest.raises(ValueError, match="unseen at fit time:\n- 'z'"):
        policy.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        policy.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match=r"context has 2 columns: .* expecting 4 features"):
        policy.predict(log.context[:, :2])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"objective": "drs"}, ValueError, "objective must be one of 'ips', 'surrogate', 'dr'; got 'drs'"),
        ({"n_rounds": -1}, ValueError, "n_rounds must be at least 0; got -1"),
        ({"n_rounds": 2.5}, TypeError, "n_rounds must be an integer"),
        ({"reward_translation": "low"}, TypeError, "reward_translation must be a number"),
        ({"ensemble_weight_penalty": -1}, ValueError, "ensemble_weight_penalty must be at least 0"),
        ({"scale": 0.0}, ValueError, r"scale must lie in \[1e-100, 1e\+100\]; got 0.0"),
        ({"early_stopping_rounds": 3}, ValueError, "early_stopping_rounds=3 needs a validation log"),
        ({"validation_fraction": 1.5}, ValueError, r"validation_fraction must lie in \(0, 1\); got 1.5"),
        ({"start": "zero"}, ValueError, "start must be one of 'uniform', 'reward_model', .*; got 'zero'"),
        ({"start_sharpness": -1.0}, ValueError, "start_sharpness must be at least 0; got -1.0"),
        ({"n_folds": 1}, ValueError, "n_folds must be at least 2; got 1"),
        ({"learning_rate": 1.5}, ValueError, r"learning_rate must lie in \(0, 1\]; got 1.5"),
        ({"inverse_temperature": -1.0}, ValueError, "inverse_temperature must be at least 0; got -1"),
        ({"learner": "tree"}, TypeError, "learner must be a bopl learner or"),
    ],
)
def test_bad_settings_are_refused_by_name_value_and_range(settings, error, message):
    with pytest.raises(error, match=message):
        fitted(**settings)


def test_rewards_that_are_all_zero_after_translation_are_refused():
    log = bopl.BanditLog(np.eye(3), [0, 1, 0], [0.4, 0.4, 0.4], [0.5] * 3)
    with pytest.raises(ValueError, match=r"all 3 rewards are zero after adding reward_translation=-0\.4"):
        bopl.BoostedPolicy("surrogate", reward_translation=-0.4).fit(log)


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="action is missing"):
        bopl.BoostedPolicy().fit(np.eye(2))
    with pytest.raises(ValueError, match="reward is missing"):
        bopl.BoostedPolicy().fit(np.eye(2), [0, 1])
    with pytest.raises(ValueError, match="propensity is missing"):
        bopl.BoostedPolicy().fit(np.eye(2), [0, 1], reward=[0, 1])
    with pytest.raises(TypeError, match="either a BanditLog or"):
        bopl.BoostedPolicy().fit(make_log(), [0, 1])


def test_a_log_with_other_actions_cannot_be_scored():
    with pytest.raises(ValueError, match="other actions than the policy was fitted on"):
        fitted().score(make_log(n_features=4, n_actions=5))


@pytest.mark.parametrize("name", ["BOPL-regr", "bopl-class", "BOPL-S-regr", "bopl-s-class", "bopl-cs-regr"])
def test_the_papers_configurations_are_reachable_by_name(name):
    policy = bopl.paper_policy(name, n_rounds=10, max_depth=4, min_child_weight=5, n_jobs=1, random_state=0)
    kind = IPS if name.lower() in ("bopl-regr", "bopl-class") else Surrogate
    assert policy.objective == kind(smoothness="paper")
    kind = bopl.XGBTree if name.lower().endswith("regr") else DecisionTreeClassifier
    assert isinstance(policy.learner, kind)
    test = informative_log(5)
    assert policy.fit(informative_log()).score(test) > test.reward.mean() + 0.1


def test_unknown_configuration_names_the_known_ones():
    with pytest.raises(ValueError, match=r"name must be one of 'bopl-regr', .*; got 'bopl'"):
        bopl.paper_policy("bopl")
    with pytest.raises(ValueError, match="BOPL-S without reward translation"):
        bopl.paper_policy("bopl-cs-regr", reward_translation=-0.1)


def test_refitting_without_names_forgets_the_old_names():
    log = informative_log()
    policy = fitted(bopl.BanditLog(log.context, log.action, log.reward, log.propensity, feature_names=list("abcd")))
    policy.fit(log)
    assert not hasattr(policy, "feature_names_in_")
