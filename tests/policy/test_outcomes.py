"""scikit-learn's tools on plain arrays, with `bopl.outcomes` as their y."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.baseline import BoostedRewardPolicy
from helpers import informative_log

LOG = informative_log()
NAMES = np.array(["tea", "milk", "water"])


def policy(**settings):
    given = {"objective": "surrogate", "learner": DecisionTreeRegressor(max_depth=2), "n_rounds": 5, "random_state": 0}
    return bopl.BoostedPolicy(**(given | settings))


def arrays(log=LOG):
    return log.context, bopl.outcomes(log.action, log.reward, log.propensity)


def frame(log=LOG):
    return pd.DataFrame({"action": NAMES[log.action], "reward": log.reward, "propensity": log.propensity})


def test_fit_and_score_are_those_of_the_log():
    X, y = arrays()
    fitted, expected = policy().fit(X, y), policy().fit(LOG)
    np.testing.assert_array_equal(fitted.predict_proba(X), expected.predict_proba(X))
    assert fitted.score(X, y) == expected.score(LOG)


@pytest.mark.parametrize(
    "unfitted",
    [policy(), bopl.AutoPolicy(["regression"], random_state=0), BoostedRewardPolicy(random_state=0)],
    ids=lambda one: type(one).__name__,
)
def test_every_policy_takes_outcomes_as_arrays_and_as_frames(unfitted):
    X, _ = arrays()
    y = bopl.outcomes(NAMES[LOG.action], LOG.reward, LOG.propensity)
    value = unfitted.fit(X, y).score(X, y)
    assert value > LOG.reward.mean()
    assert unfitted.fit(X, frame()).score(X, frame()) == pytest.approx(value)
    assert set(unfitted.actions_) == set(NAMES)


def test_grid_search_finds_the_deeper_trees():
    search = GridSearchCV(policy(), {"learner__max_depth": [1, 4], "reward_translation": [0.0, -0.2]}, cv=3)
    search.fit(*arrays())
    assert search.best_params_["learner__max_depth"] == 4
    assert search.best_score_ > LOG.reward.mean() + 0.1


def test_searches_take_frames_and_other_folds():
    X, _ = arrays()
    search = RandomizedSearchCV(policy(), {"n_rounds": range(1, 9)}, n_iter=2, cv=TimeSeriesSplit(3), random_state=0)
    assert np.isfinite(search.fit(X, frame()).best_score_)


def test_a_pipeline_fits_scores_and_is_searched():
    X, y = arrays()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    search = GridSearchCV(make_pipeline(StandardScaler(), policy()), {"boostedpolicy__n_rounds": [1, 8]}, cv=2)
    assert search.fit(X_train, y_train).score(X_test, y_test) > LOG.reward.mean() + 0.1
    assert search.predict_proba(X_test).shape == (100, 3)


def test_a_learning_curve_rises():
    sizes, _, held_out = learning_curve(
        policy(), *arrays(informative_log(n_samples=900)), cv=KFold(3), train_sizes=[0.05, 1.0]
    )
    assert sizes.tolist() == [30, 600]
    assert held_out[1].mean() > held_out[0].mean()


def test_cross_validation_keeps_groups_together_and_predicts():
    X, y = arrays()
    assert np.isfinite(cross_val_score(policy(), X, y, groups=np.arange(400) // 5, cv=GroupKFold(4))).all()
    assert set(cross_val_predict(policy(), X, y, cv=2)) <= {0, 1, 2}


def test_actions_that_a_fold_has_not_seen_have_weight_zero():
    X, y = arrays()
    seen = y["action"] < 2
    fitted = policy().fit(X[seen], y[seen])
    expected = fitted.score(X[seen], y[seen])
    assert fitted.score(X, y) == pytest.approx(expected)
    rare = bopl.outcomes(np.where(np.arange(400) == 0, "rare", NAMES[LOG.action]), LOG.reward, LOG.propensity)
    assert np.isfinite(cross_val_score(policy(), X, rare, cv=4)).all()


def test_a_policy_that_knows_none_of_the_actions_says_so():
    X, y = arrays()
    with pytest.raises(ValueError, match=r"knows none of the logged actions: it was fitted on 0, 1, 2, the first"):
        policy().fit(X, y).score(X, frame())


def test_wrong_outcomes_are_one_sentence():
    X, y = arrays()
    with pytest.raises(ValueError, match=r"y has the columns 'action', 'click', but not 'reward'"):
        policy().fit(X, pd.DataFrame({"action": LOG.action, "click": LOG.reward}))
    with pytest.raises(TypeError, match="y already contains reward and propensity"):
        policy().fit(X, y, reward=LOG.reward)
    with pytest.raises(ValueError, match="propensity is missing"):
        bopl.outcomes(LOG.action, LOG.reward, None)
    with pytest.raises(ValueError, match="length"):
        bopl.outcomes(LOG.action, LOG.reward[:5], LOG.propensity)
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        bopl.outcomes(LOG.action, LOG.reward, LOG.propensity * 0.0)


def test_actions_alone_are_told_how_to_bring_their_rewards():
    X, _ = arrays()
    with pytest.raises(ValueError, match=r"reward is missing.*y=bopl.outcomes\(action, reward, propensity\)"):
        policy().fit(X, LOG.action)
    with pytest.raises(ValueError, match="reward is missing"):
        cross_val_predict(policy(), *arrays(), cv=2, method="predict_proba")
