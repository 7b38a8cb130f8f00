"""Policies go through pickle, joblib and deepcopy, whether or not they have predicted."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest

import bopl
from bopl import baseline
from helpers import informative_log

LOG = informative_log(n_samples=300)


def boosted(**settings):
    return bopl.BoostedPolicy(**({"n_rounds": 3, "progress": False, "random_state": 0} | settings))


POLICIES = {
    "boosted": boosted,
    "paper": lambda: boosted(objective="ips", reward_translation=-0.1),
    "blend": lambda: bopl.BlendedPolicy([boosted(), boosted(objective="surrogate")]),
    "auto": lambda: bopl.AutoPolicy(include=["regression"], progress=False, random_state=0),
    "regression": lambda: baseline.BoostedRewardPolicy(n_rounds=3),
    "xgboost": lambda: baseline.XGBRewardPolicy(n_rounds=3),
    "uniform": baseline.UniformPolicy,
    "logging": baseline.LoggingPolicy,
}


def through_joblib(value):
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "joblib": through_joblib,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_copied_before_and_after_it_predicts(name):
    policy = POLICIES[name]().fit(LOG)
    before = [way(policy) for way in WAYS.values()]
    expected = policy.predict_proba(LOG.context)
    after = [way(policy) for way in WAYS.values()]
    for one in [*before, *after]:
        np.testing.assert_array_equal(one.predict_proba(LOG.context), expected)


@pytest.mark.parametrize("name", ["boosted", "blend", "auto", "logging"])
def test_a_policy_is_copied_after_it_has_decided(name):
    policy = POLICIES[name]().fit(LOG)
    row = LOG.context[0].tolist()
    expected = policy.decide(row, draw=0.5, event="e")
    for way in WAYS.values():
        assert way(policy).decide(row, draw=0.5, event="e") == expected


def test_an_unfitted_policy_is_copied():
    for way in WAYS.values():
        assert way(boosted()).get_params() == boosted().get_params()


def test_a_pickle_does_not_grow_by_predicting():
    policy = boosted().fit(LOG)
    size = len(pickle.dumps(policy))
    policy.predict_proba(LOG.context)
    assert len(pickle.dumps(policy)) == pytest.approx(size, rel=0.01)
