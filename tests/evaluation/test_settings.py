"""The options of an evaluation are declared in one record, and every public call takes them by name."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

import bopl
from bopl.evaluation.diagnosis import WeightTotals
from bopl.evaluation.evaluation_task import EvaluationSettings
from bopl.evaluation.verdict import overall_verdict
from bopl.simulation import make_world

SAMPLE = make_world("plain").sample(0, n_samples=300)
CALLS = [bopl.evaluate, bopl.evaluate_parquet, bopl.ValueAccumulator]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_every_option_is_a_keyword_of_the_call_with_the_default_of_the_record(call):
    taken = inspect.signature(call).parameters
    for option in fields(EvaluationSettings):
        assert taken[option.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert taken[option.name].default == option.default, option.name


def test_misspelt_options_fail_at_the_call():
    for call in CALLS:
        with pytest.raises(TypeError, match="unexpected keyword argument 'intervall'"):
            call(SAMPLE.log, SAMPLE.policy_prob, intervall="normal")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence must lie in"),
        ({"interval": "wide"}, "interval must be one of"),
        ({"estimators": ["ips", "ips"]}, "none of them twice"),
        ({"random_state": -1}, "random_state must be at least 0"),
        ({"reward_range": (1.0, 0.0)}, "reward_range must be two finite numbers"),
        ({"min_uplift": -0.1}, "min_uplift must not be negative"),
        ({"against": "other"}, "against='other' is not one of the policies"),
    ],
)
def test_options_are_checked_before_anything_is_read(options, message):
    with pytest.raises(ValueError, match=message):
        bopl.ValueAccumulator({"new": None}, **options)
    with pytest.raises(ValueError, match=message):
        bopl.evaluate(SAMPLE.log, {"new": SAMPLE.policy_prob}, **options)


def test_weights_are_diagnosed_once_per_policy(monkeypatch):
    calls = []
    facts = WeightTotals.facts

    def counted(self, *given, **named):
        calls.append(self)
        return facts(self, *given, **named)

    monkeypatch.setattr(WeightTotals, "facts", counted)
    policies = {"a": SAMPLE.policy_prob, "b": np.full((300, 5), 0.2), "c": SAMPLE.logging_prob}
    found = bopl.evaluate(SAMPLE.log, policies, estimators=["ips", "snips", "beta_ips"], head_to_head=True)
    assert (len(found.rows), len(found.comparisons)) == (9, 3)
    assert len(calls) == 3


def test_the_primary_row_is_that_of_the_estimator_that_decides():
    policies = {"a": SAMPLE.policy_prob, "b": SAMPLE.logging_prob}
    found = bopl.evaluate(SAMPLE.log, policies, estimators=["ips", "snips", "clipped_ips"])
    assert found.primary_row() is found.row("a", "snips")
    assert found.primary_row("b") is found.row("b", "snips")
    assert found.decision("b").estimator == found.primary_row("b").estimator
    with pytest.raises(KeyError, match="no row has policy 'c'; there are a, b"):
        found.primary_row("c")


def test_one_verdict_for_several_policies():
    assert overall_verdict(["better", "better"]) == "better"
    assert overall_verdict([]) == "inconclusive"
    assert overall_verdict(["better", "inconclusive"]) == "inconclusive"
    assert overall_verdict(["not trustworthy", "worse"]) == "worse"
