"""The service without HTTP: fallbacks, time budget, apprentice mode."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from bopl.serving.events import EventStore
from bopl.serving.live import COMBINED, LiveFigures
from bopl.serving.mixture import ServedMixture
from bopl.serving.requests import BadRequestError, DecideRequest
from bopl.serving.service import DecisionService
from bopl.serving.settings import LoopSettings
from loops import RECORD, make_loop


class Stub:
    """A policy that is slow, or broken, or neither."""

    n_features_in_ = 1

    def __init__(self, prob=(0.8, 0.1, 0.1), *, seconds=0.0, error=None):
        import numpy as np

        self.actions_, self.prob = np.array(["a", "b", "c"]), np.array(prob)
        self.seconds, self.error = seconds, error

    def record_proba(self, record, *, eligible=None):
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.prob


@asynccontextmanager
async def running(folder, **settings):
    """Yield a service on the folder of a loop."""
    with EventStore(folder.events) as store:
        service = DecisionService(folder, LoopSettings(port=0, **settings), store)
        try:
            yield service
        finally:
            await service.stop()


def ask(folder, policy=None, baseline=None, *, share=0.5, request=None, **settings):
    """Return what a service decides with these policies, and the service."""
    from dataclasses import replace

    async def run():
        async with running(folder, actions=("a", "b", "c"), **settings) as service:
            promotion = replace(service.promotion, share=share)
            service._mixture = ServedMixture(promotion, policy, baseline)
            rows = [await service.decide(one) for one in request or [DecideRequest(None, RECORD)]]
            return rows[-1], service

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path):
    return make_loop(tmp_path / "loop", actions=("a", "b", "c"))


def test_without_trouble_the_mixture_decides(folder):
    row, _ = ask(folder, Stub(), Stub((0.0, 0.5, 0.5)))
    assert (row.decider, row.fallback) == ("mixture", None)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("x"), "bad_record"), (RuntimeError("x"), "exception"), (MemoryError(), "exception")],
)
def test_the_baseline_decides_where_the_policy_cannot(folder, error, reason):
    row, service = ask(folder, Stub(error=error), Stub((0.0, 0.5, 0.5)))
    assert (row.decider, row.fallback) == ("baseline", reason)
    floor = 0.05 / 3
    assert row.propensity == pytest.approx({"a": floor, "b": 0.475 + floor, "c": 0.475 + floor}[row.action])
    assert service.metrics.total("bopl_fallbacks_total", reason=reason) == 1


def test_chance_decides_where_neither_can(folder):
    row, _ = ask(folder, Stub(error=RuntimeError("x")), Stub(error=RuntimeError("y")))
    assert (row.decider, row.fallback) == ("uniform", "exception")
    assert row.propensity == pytest.approx(1 / 3)


def test_a_slow_policy_is_not_waited_for(folder):
    began = time.perf_counter()
    row, _ = ask(folder, Stub(seconds=1.0), Stub((0.0, 0.5, 0.5)), time_budget_ms=200.0, share=1.0)
    assert (row.decider, row.fallback) == ("baseline", "time")
    assert time.perf_counter() - began < 1.0


def test_probabilities_that_are_none_fall_back(folder):
    row, _ = ask(folder, Stub((float("nan"), 0.5, 0.5)), None, share=1.0)
    assert (row.decider, row.fallback) == ("uniform", "exception")


# -- Apprentice mode --------------------------------------------------------------------------------------------------


def test_an_apprentice_records_the_callers_decision_and_its_own(folder):
    request = DecideRequest("e", RECORD, action="b", propensity=0.25)
    row, _ = ask(folder, Stub(), None, share=1.0, request=[request], mode="apprentice")
    assert (row.action, row.propensity, row.decider) == ("b", 0.25, "caller")
    assert row.is_apprentice
    assert row.shadow["caller_propensity"] == pytest.approx(0.95 * 0.1 + 0.05 / 3)
    assert row.shadow["action"] in "abc"


def test_an_apprentice_needs_no_propensity_and_knows_no_risk(folder):
    request = DecideRequest("e", RECORD, action="something new")
    row, service = ask(folder, Stub(error=RuntimeError("x")), None, share=1.0, request=[request], mode="apprentice")
    assert (row.action, row.propensity, row.shadow) == ("something new", None, None)
    assert service.metrics.total("bopl_fallbacks_total", reason="exception") == 1


def test_a_slow_apprentice_keeps_nobody_waiting(folder):
    policy = Stub(seconds=0.2)  # which would be asked twice, for its own action and for the caller's
    request = DecideRequest("e", RECORD, action="b")
    row, service = ask(folder, policy, None, share=1.0, request=[request], mode="apprentice", time_budget_ms=300.0)
    assert (row.action, row.shadow) == ("b", None)
    assert service.metrics.total("bopl_fallbacks_total", reason="time") == 1


def test_an_apprentice_on_its_first_day_has_no_opinion(tmp_path):
    folder = make_loop(tmp_path / "empty", mode="apprentice")

    async def run():
        async with running(folder, mode="apprentice") as service:
            return await service.decide(DecideRequest("e", RECORD, action="b"))

    row = asyncio.run(run())
    assert (row.action, row.shadow, row.policy) == ("b", None, "uniform")


def test_an_apprentice_must_be_told_the_action(folder):
    with pytest.raises(BadRequestError, match="action is missing") as caught:
        ask(folder, Stub(), mode="apprentice")
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("actions", "given", "sentence"),
    [
        (("a", "b"), {"action": 7}, "actions must be all texts or all integers, as those before; got 7."),
        ((1, 2), {"action": "a"}, "actions must be all texts or all integers, as those before; got 'a'."),
        ((), {"action": 7}, "actions must be all texts or all integers, as those before; got 7."),
        ((), {"action": 2.5}, "actions must be all texts or all integers, as those before; got 2.5."),
        ((), {"action": "a", "eligible": ["a", 1]}, "got 'a' among 'a', 1."),
        ((), {"action": "a", "eligible": ["b"]}, "action 'a' is not one of eligible."),
        (("a", "b"), {"action": "a", "eligible": ["b"]}, "action 'a' is not one of eligible."),
        ((), {"action": "a", "eligible": []}, "action 'a' is not one of eligible."),
    ],
)
def test_a_callers_action_that_would_make_the_log_unreadable_is_refused(tmp_path, actions, given, sentence):
    folder = make_loop(tmp_path / "loop", mode="apprentice", actions=actions)

    async def run():
        async with running(folder, mode="apprentice", actions=actions) as service:
            if not actions:
                for odd in (True, ("a", 1)):  # which does not say what the others are
                    with pytest.raises(BadRequestError, match="all texts or all integers"):
                        await service.decide(DecideRequest(None, RECORD, action=odd))
                await service.decide(DecideRequest("first", RECORD, action="x", eligible=["x", "y"]))
        async with running(folder, mode="apprentice", actions=actions) as service:
            await service.decide(DecideRequest("e", RECORD, **given))

    with pytest.raises(BadRequestError) as caught:
        asyncio.run(run())
    assert sentence in str(caught.value)
    assert caught.value.status == 422


# -- Settings ---------------------------------------------------------------------------------------------------------


def test_another_exploration_is_another_promotion(folder):
    async def run(**settings):
        async with running(folder, actions=("a", "b", "c"), **settings) as service:
            return service.promotion

    assert asyncio.run(run()).id == 1
    changed = asyncio.run(run(exploration=0.2))
    assert (changed.id, changed.exploration, changed.reason) == (2, 0.2, "loop.toml changed")
    assert asyncio.run(run(exploration=0.2)).id == 2


def test_the_running_value_counts_what_the_join_counts(folder):
    async def run(**settings):
        async with running(folder, actions=("a", "b", "c"), reward_window_s=1.0, **settings) as service:
            for event, is_active in (("shown", True), ("later", False), ("never", False)):
                await service.decide(DecideRequest(event, RECORD, is_active=is_active))
            await service.activate("later")
            time.sleep(1.1)
            await service.activate("never")  # too late
            live = LiveFigures(service)
            live.look()
            return live.gauges()["bopl_closed_decisions"][1]

    assert asyncio.run(run()) == 2
    assert asyncio.run(run(needs_activation=True)) == 1


@pytest.mark.parametrize("combination", COMBINED)
def test_a_look_reads_neither_old_decisions_nor_open_ones(folder, combination):
    with EventStore(folder.events) as store, store.reading() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {COMBINED[combination]}", [0] * 8).fetchall()
    assert "SEARCH decision USING INDEX decision_time (time>? AND time<?)" in {line[-1] for line in plan}
