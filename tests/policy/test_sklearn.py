"""`BoostedPolicy` inside scikit-learn: clone, pipelines, searches, and its own estimator checks."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import bopl
from helpers import informative_log


def policy(**settings):
    return bopl.BoostedPolicy(
        **(
            {"objective": "surrogate", "learner": DecisionTreeRegressor(max_depth=2), "n_rounds": 5, "random_state": 0}
            | settings
        )
    )


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def columns(log):
    return (log.context, log.action), {"reward": log.reward, "propensity": log.propensity}


def test_clone_copies_settings_and_nested_ones():
    original = policy(objective="ips", reward_translation=-0.3)
    copy = clone(original)
    assert copy is not original
    assert copy.learner is not original.learner
    assert str(copy.get_params()) == str(original.get_params())
    copy.set_params(learner__max_depth=7)
    assert (copy.learner.max_depth, original.learner.max_depth) == (7, 2)


@pytest.mark.usefixtures("routing")
def test_grid_search_routes_reward_and_propensity_to_fit_and_score():
    data, metadata = columns(informative_log())
    grid = {"learner__max_depth": [1, 4], "reward_translation": [0.0, -0.2]}
    search = GridSearchCV(policy(), grid, cv=3).fit(*data, **metadata)
    assert search.best_params_["learner__max_depth"] == 4
    assert search.best_score_ > informative_log().reward.mean() + 0.1
    assert search.predict(data[0]).shape == (400,)


@pytest.mark.usefixtures("routing")
def test_randomized_search_and_cross_validation_work_too():
    data, metadata = columns(informative_log())
    search = RandomizedSearchCV(policy(), {"n_rounds": range(1, 9)}, n_iter=3, cv=2, random_state=0)
    assert np.isfinite(search.fit(*data, **metadata).best_score_)
    scores = cross_val_score(policy(), *data, params=metadata, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@pytest.mark.usefixtures("routing")
def test_sample_weights_travel_with_the_samples():
    data, metadata = columns(informative_log())
    weight = np.where(informative_log().context[:, 0] > 0.0, 1.0, 0.0)
    weight[0] = 1.0  # each fold has some
    search = GridSearchCV(policy(), {"n_rounds": [2, 5]}, cv=3).fit(*data, **metadata, sample_weight=weight)
    expected = policy(**search.best_params_).fit(*data, **metadata, sample_weight=weight)
    np.testing.assert_array_equal(search.predict_proba(data[0]), expected.predict_proba(data[0]))
    assert not np.allclose(
        search.predict_proba(data[0]), policy(**search.best_params_).fit(*data, **metadata).predict_proba(data[0])
    )


@pytest.mark.usefixtures("routing")
def test_pipeline_routes_metadata():
    data, metadata = columns(informative_log())
    pipeline = make_pipeline(StandardScaler(), policy()).fit(*data, **metadata)
    assert pipeline.score(*data, **metadata) > 0.4
    assert pipeline.predict_proba(data[0]).shape == (400, 3)


def test_pipeline_works_without_routing_through_prefixed_columns():
    data, metadata = columns(informative_log())
    prefixed = {f"boostedpolicy__{name}": value for name, value in metadata.items()}
    pipeline = make_pipeline(StandardScaler(), policy()).fit(*data, **prefixed)
    assert pipeline.predict(data[0]).shape == (400,)


def test_score_without_reward_says_how_to_route_it():
    log = informative_log()
    with pytest.raises(ValueError, match=r"score needs reward and propensity.*enable_metadata_routing=True"):
        policy().fit(log).score(log.context, log.action)


def test_a_log_in_place_of_arrays_is_told_what_to_pass():
    log = informative_log()
    with pytest.raises(TypeError, match=r"a BanditLog is not an array: .* X=log\.context and y=bopl\.outcomes\(log\."):
        GridSearchCV(policy(), {"n_rounds": [2, 5]}, cv=2).fit(log)
    outcomes = bopl.outcomes(log.action, log.reward, log.propensity)
    assert GridSearchCV(policy(), {"n_rounds": [2, 5]}, cv=2).fit(log.context, outcomes).best_score_ > 0.4


class Supervised:
    """A policy whose logging policy was uniform and always right.

    scikit-learn's checks call ``fit(X, y)`` and nothing else; reward and propensity, which a policy cannot do without,
    are filled in here. Everything the checks then exercise is the policy's own.
    """

    def fit(self, X, y=None):
        if y is None:
            return super().fit(X, None)
        n_actions = max(2, len(np.unique(np.asarray(y))))
        n_samples = len(y) if hasattr(y, "__len__") else 1
        return super().fit(X, y, reward=np.ones(n_samples), propensity=np.full(n_samples, 1 / n_actions))

    def score(self, X, y):
        n_samples = len(y)
        return super().score(X, y, reward=np.ones(n_samples), propensity=np.full(n_samples, 0.5))


class SupervisedPolicy(Supervised, bopl.BoostedPolicy):
    pass


class SupervisedAuto(Supervised, bopl.AutoPolicy):
    pass


class SupervisedReward(Supervised, bopl.baseline.BoostedRewardPolicy):
    pass


class SupervisedLogging(Supervised, bopl.baseline.LoggingPolicy):
    pass


class SupervisedUniform(Supervised, bopl.baseline.UniformPolicy):
    pass


def test_a_policy_has_probabilities_but_is_no_classifier():
    assert not is_classifier(bopl.BoostedPolicy())
    assert get_tags(bopl.BoostedPolicy()).classifier_tags.multi_class


@pytest.mark.filterwarnings("ignore::bopl._errors.LeakWarning")  # some checks let the context give the action away
@parametrize_with_checks(
    [
        SupervisedPolicy("surrogate", DecisionTreeRegressor(max_depth=2), n_rounds=3, random_state=0),
        SupervisedPolicy(n_rounds=3, reward_model=bopl.BoostedRewardModel(n_rounds=2), random_state=0),
        SupervisedAuto(include=["regression"], n_jobs=1, random_state=0),
        SupervisedReward(n_rounds=3, n_jobs=1),
        SupervisedLogging(),
        SupervisedUniform(),
    ]
)
def test_estimator_checks_of_scikit_learn(estimator, check):
    check(estimator)
