"""Regularised weights, and objectives as plain settings."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bopl.objective import (
    OBJECTIVES,
    WEIGHTS,
    Clipped,
    ExponentialSmoothing,
    ImplicitExploration,
    LogSmoothing,
    Plain,
    get_objective,
    parse_weight,
)
from bopl.objective.registry import describe, objective_from
from helpers import OBJECTIVE_NAMES, WEIGHT_NAMES, make_objective

REWARD = np.array([-2.0, -0.1, 0.0, 0.3, 1.0, 50.0])
PROPENSITY = np.array([0.001, 0.5, 0.2, 1.0, 0.04, 1e-6])


@pytest.mark.parametrize(
    "weight", [Clipped(0.0), ImplicitExploration(0.0), ExponentialSmoothing(1.0), LogSmoothing(1e-12)], ids=str
)
def test_every_weight_ends_at_the_plain_one(weight):
    np.testing.assert_allclose(weight(REWARD, PROPENSITY), Plain()(REWARD, PROPENSITY), rtol=1e-4)


@pytest.mark.parametrize("name", WEIGHT_NAMES)
@given(reward=st.floats(-1e6, 1e6), propensity=st.floats(1e-9, 1.0))
def test_weights_keep_the_sign_and_never_exceed_the_plain_one(name, reward, propensity):
    reward, propensity = np.array([reward]), np.array([propensity])
    value, plain = WEIGHTS[name]()(reward, propensity), reward / propensity
    assert np.sign(value) == np.sign(reward) or abs(plain) < 1e-300
    assert abs(value) <= abs(plain) * (1 + 1e-12)


def test_formulas_of_the_weights():
    inverse = 1 / np.maximum(PROPENSITY, 0.1)
    np.testing.assert_allclose(Clipped(0.1)(REWARD, PROPENSITY), REWARD * inverse)
    np.testing.assert_allclose(ImplicitExploration(0.1)(REWARD, PROPENSITY), REWARD / (PROPENSITY + 0.1))
    np.testing.assert_allclose(ExponentialSmoothing(0.5)(REWARD, PROPENSITY), REWARD / np.sqrt(PROPENSITY))
    np.testing.assert_allclose(ExponentialSmoothing(0.0)(REWARD, PROPENSITY), REWARD)
    positive = np.abs(REWARD)
    np.testing.assert_allclose(LogSmoothing(0.5)(positive, PROPENSITY), np.log(1 + 0.5 * positive / PROPENSITY) / 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clipped(1.5), r"tau must lie in \[0, 1\]; got 1.5"),
        (lambda: ImplicitExploration(-0.1), "gamma must be at least 0; got -0.1"),
        (lambda: ExponentialSmoothing(2.0), r"alpha must lie in \[0, 1\]; got 2.0"),
        (lambda: LogSmoothing(0.0), "lam must be greater than 0; got 0.0"),
        (lambda: make_objective("ips", smoothness="rough"), "smoothness must be one of 'sharp', 'paper'; got 'rough'"),
        (lambda: parse_weight("clip"), "weight must be one of plain, clipped.*got 'clip'"),
        (lambda: parse_weight("plain:3"), "'plain' takes no number"),
        (lambda: parse_weight("clipped:much"), "a name and a number as in clipped:0.05; got 'clipped:much'"),
    ],
)
def test_bad_weights_are_refused_by_name_value_and_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_weight_given_by_name_is_no_weight():
    with pytest.raises(TypeError, match=r"weight must be a weight such as .*Clipped\(0\.05\); got 'clipped'"):
        OBJECTIVES["ips"](weight="clipped")


@pytest.mark.parametrize("name", WEIGHT_NAMES)
def test_words_stand_for_weights(name):
    assert parse_weight(name) == WEIGHTS[name]()
    if name != "plain":
        assert parse_weight(f"{name}:0.25") == WEIGHTS[name](0.25)


@pytest.mark.parametrize("smoothness", ["sharp", "paper"])
@pytest.mark.parametrize("weight", WEIGHT_NAMES)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_objectives_survive_json_field_by_field(name, weight, smoothness):
    objective = make_objective(name, weight, smoothness=smoothness)
    description = json.loads(json.dumps(describe(objective)))
    assert objective_from(description) == objective
    assert get_objective(objective) is objective
    assert (objective == get_objective(name)) is (weight == "plain" and smoothness == "sharp")


def test_a_description_of_an_unknown_objective_is_none():
    assert objective_from({"name": "from_another_package", "cut": 3}) is None
