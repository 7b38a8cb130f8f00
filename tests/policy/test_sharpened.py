"""A sharpened policy acts at another inverse temperature, wherever it goes."""

import numpy as np
import pytest

import bopl
from bopl.baseline import UniformPolicy
from helpers import informative_log

LOG = informative_log()
FACTORS = (0.0, 0.3, 4.0, np.inf)


def boosted():
    return bopl.BoostedPolicy("ips", n_rounds=4, random_state=0).fit(LOG)


def blended():
    other = bopl.BoostedPolicy("surrogate", n_rounds=4, random_state=0).fit(LOG)
    return bopl.BlendedPolicy.of([boosted(), other])


def raced():
    return bopl.AutoPolicy(["regression"], random_state=0).fit(LOG)


@pytest.mark.parametrize("make", [boosted, blended, raced])
def test_it_has_the_probabilities_of_that_temperature_also_from_its_file(make, tmp_path):
    policy = make()
    before = policy.predict_proba(LOG.context)
    for factor in FACTORS:
        sharp = policy.sharpened(factor)
        expected = policy.predict_proba(LOG.context, inverse_temperature=factor)
        np.testing.assert_array_equal(sharp.predict_proba(LOG.context), expected)
        assert sharp.trained_inverse_temperature == factor
        sharp.save(tmp_path / "sharp.bopl")
        np.testing.assert_array_equal(bopl.load(tmp_path / "sharp.bopl").predict_proba(LOG.context), expected)
    np.testing.assert_array_equal(policy.predict_proba(LOG.context), before)


def test_the_race_says_at_which_temperature_its_winner_acts():
    policy = raced()
    assert policy.trained_inverse_temperature == policy.best_policy_.inverse_temperature


def test_the_logging_policy_is_not_sharpened():
    policy = raced()
    policy.is_logging_ = True
    with pytest.raises(TypeError, match="the policy is the logging policy"):
        policy.sharpened(2.0)


def test_what_cannot_be_sharpened_says_so():
    with pytest.raises(TypeError, match="UniformPolicy has no setting inverse_temperature"):
        UniformPolicy().fit(LOG).sharpened(2.0)
    with pytest.raises(ValueError, match="inverse_temperature must be at least 0; got -1"):
        boosted().sharpened(-1.0)
