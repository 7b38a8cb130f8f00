"""Decisions and rewards become a log: once, in time, and the same after a crash."""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.serving import joining
from bopl.serving.columns import context_columns
from bopl.serving.events import EventStore
from bopl.serving.joining import close_windows, combine_rewards, file_name, join, written_until
from bopl.serving.record import DecisionRow
from bopl.serving.settings import LoopSettings

SECOND = 1_000_000
DAY = 86_400 * SECOND
START = 1_790_000_000 * SECOND
SETTINGS = LoopSettings(actions=("a", "b", "c"), reward_window_s=60.0, default_reward=-1.0)


class SetClock:
    """A clock that tests set."""

    def __init__(self):
        self.time = START

    def now(self):
        return self.time

    def not_before(self, moment):
        self.time = max(self.time, moment)


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def store(tmp_path, clock):
    EventStore.create(tmp_path / "events.db", seed=1)
    with EventStore(tmp_path / "events.db", clock=clock) as opened:
        yield opened


def decide(store, event, action="a", propensity=0.25, context=None, **given):
    row = DecisionRow(event, 0, 1, "p", action, propensity, context or {"x": 1.0}, given.pop("eligible", None), 0.5)
    store.add_decision(replace(row, **given)).result()


def reward(store, event, value, key=""):
    return store.add_reward(event, value, key=key, window_s=SETTINGS.reward_window_s).result()


def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (folder / "log").glob("*")}


def table(folder):
    return pa.concat_tables([pq.read_table(file) for file in joining.joined_files(folder / "log")])


def test_rewards_are_combined_as_asked_and_none_is_the_default():
    assert combine_rewards([1.0, 2.0, 4.0], "sum", 0.0) == 7.0
    assert combine_rewards([1.0, 2.0, 4.0], "first", 0.0) == 1.0
    assert combine_rewards([1.0, 2.0, 4.0], "last", 0.0) == 4.0
    assert combine_rewards([], "sum", -1.0) == -1.0


def test_only_closed_windows_are_joined_and_running_it_twice_changes_nothing(tmp_path, store, clock):
    decide(store, "early")
    reward(store, "early", 2.0)
    clock.time += 50 * SECOND
    decide(store, "open")
    clock.time += 20 * SECOND
    first = join(tmp_path, store, SETTINGS)
    assert (first.n_joined, first.n_rewarded, first.n_open) == (1, 1, 1)
    before = digests(tmp_path)
    again = join(tmp_path, store, SETTINGS)
    assert (again.n_joined, again.files, again.watermark) == (0, [], first.watermark)
    assert digests(tmp_path) == before


def test_a_late_a_repeated_and_an_unknown_reward_never_enter(tmp_path, store, clock):
    decide(store, "one")
    assert reward(store, "one", 1.0, key="click").status == "ok"
    assert reward(store, "one", 1.0, key="click").status == "duplicate"
    assert reward(store, "nobody", 1.0).status == "unknown"
    clock.time += 61 * SECOND
    assert reward(store, "one", 100.0, key="late").status == "late"
    clock.time += 10 * SECOND
    join(tmp_path, store, SETTINGS)
    assert table(tmp_path)["_reward"].to_pylist() == [1.0]


def test_a_reward_that_comes_after_its_decision_was_joined_is_late_although_the_clock_says_otherwise(
    tmp_path, store, clock
):
    decide(store, "one")
    join(tmp_path, store, SETTINGS, now=clock.time + DAY)
    assert reward(store, "one", 5.0).status == "late"
    join(tmp_path, store, SETTINGS, now=clock.time + 2 * DAY)
    assert table(tmp_path)["_reward"].to_pylist() == [-1.0]


def test_decisions_that_were_never_activated_or_fell_back_are_left_out_and_counted(tmp_path, store, clock):
    decide(store, "shown", is_active=False)
    decide(store, "never", is_active=False)
    decide(store, "too late", is_active=False)
    decide(store, "fell back", fallback="time")
    store.activate("shown").result()
    clock.time += 61 * SECOND
    store.activate("too late").result()
    clock.time += 10 * SECOND
    result = join(tmp_path, store, SETTINGS)
    assert (result.n_joined, result.n_inactive, result.n_fallback) == (1, 2, 1)
    assert table(tmp_path)["_event"].to_pylist() == ["shown"]


def test_every_decision_needs_an_activation_if_the_loop_says_so(tmp_path, store, clock):
    decide(store, "shown")
    decide(store, "never")
    store.activate("shown").result()
    clock.time += 71 * SECOND
    result = join(tmp_path, store, replace(SETTINGS, needs_activation=True))
    assert (result.n_joined, result.n_inactive) == (1, 1)
    assert table(tmp_path)["_event"].to_pylist() == ["shown"]


@pytest.mark.parametrize(("moment", "n_left"), [("_read_batch", 7), ("write_samples", 7), ("_set_joined", 4)])
def test_a_join_killed_at_any_moment_leads_to_the_same_files(tmp_path, store, clock, monkeypatch, moment, n_left):
    for number in range(7):
        decide(store, f"e{number}")
        clock.time += SECOND
    clock.time += 65 * SECOND

    def kill(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(joining, moment, kill)
        with pytest.raises(KeyboardInterrupt):
            join(tmp_path, store, SETTINGS, max_rows=3)
    assert store.watermark() == START + 2 * SECOND
    assert reward(store, "e1", 9.0).status == "late"  # whatever comes now changes no file
    clock.time += 10 * SECOND
    assert join(tmp_path, store, SETTINGS, max_rows=3).n_joined == n_left
    assert store.watermark() == written_until(tmp_path / "log") == START + 6 * SECOND
    assert sorted(digests(tmp_path)) == [file_name(START + number * SECOND) for number in (2, 5, 6)]
    assert table(tmp_path)["_event"].to_pylist() == [f"e{number}" for number in range(7)]
    assert set(table(tmp_path)["_reward"].to_pylist()) == {-1.0}


def test_decisions_that_are_left_out_are_not_read_again(tmp_path, store, clock):
    decide(store, "never", is_active=False)
    clock.time += DAY
    assert join(tmp_path, store, SETTINGS).n_inactive == 1
    assert join(tmp_path, store, SETTINGS).n_inactive == 0


def test_decisions_of_one_time_stay_in_one_file(tmp_path, store, clock):
    for number in range(5):
        decide(store, f"e{number}")
    clock.time += DAY
    assert len(join(tmp_path, store, SETTINGS, max_rows=2).files) == 1


def test_the_name_of_a_file_is_the_time_of_its_last_decision(tmp_path):
    assert file_name(START + 7) == "20260921T141320.000007Z.parquet"
    (tmp_path / file_name(START + 7)).touch()
    (tmp_path / "notes.parquet").touch()
    assert written_until(tmp_path) == START + 7


def test_the_log_is_read_without_a_word_about_its_columns(tmp_path, store, clock):
    propensity = 1.0 / 3.0
    decide(store, "one", context={"age": 31, "city": "Rom", "time": "2026-01-05T10:00:00"}, propensity=propensity)
    decide(store, "two", "b", context={"age": None, "city": "Ulm"}, eligible=["a", "b"])
    clock.time += DAY
    join(tmp_path, store, SETTINGS)
    decide(store, "three", "c", context={"city": "Rom", "is_new": True, "_action": "?"})
    clock.time += DAY
    join(tmp_path, store, SETTINGS)
    log = bopl.BanditLog.read(tmp_path / "log")
    assert log.actions.tolist() == ["a", "b", "c"]
    assert log.action.tolist() == ["a", "b", "c"]
    assert log.action_mask.tolist() == [[True] * 3, [True, True, False], [True] * 3]
    assert log.propensity[0] == propensity
    assert log.propensity_source == "logged"
    assert {column.name: column.kind for column in log.schema.columns} == {
        "age": "number",
        "city": "category",
        "time": "time",
        "is_new": "flag",
    }
    assert np.diff(log.time).astype("timedelta64[s]").astype(int).tolist() == [0, 86_400]


def test_actions_that_come_later_join_those_of_earlier_files(tmp_path, store, clock):
    for action in ("a", "d"):
        decide(store, action, action)
        clock.time += DAY
        join(tmp_path, store, SETTINGS)
    assert bopl.BanditLog.read(tmp_path / "log").actions.tolist() == ["a", "b", "c", "d"]


def test_a_column_keeps_its_kind():
    records = [{"n": 1, "t": "x", "f": True, "v": [1, 2.5], "m": "2026-01-01T00:00:00"}]
    known = {"n": "number", "t": "text", "f": "flag", "v": "vector", "m": "time"}
    odd = [{"n": "1", "t": 7, "f": 1, "v": "no", "m": "never"}, {"n": True, "t": None, "f": 3, "v": [1], "m": 5}]
    first = {name: column.type for name, column in context_columns(records, {}).items()}
    later = context_columns(odd, known)
    assert {name: column.type for name, column in later.items()} == first
    assert {name: column.to_pylist() for name, column in later.items()} == {
        "n": [None, 1],
        "t": ["7", None],
        "f": [True, None],
        "v": [None, [1.0]],
        "m": [None, None],
    }


@pytest.mark.parametrize("odd", [10**400, -(10**400), 1e39, [1, 10**400], [[[1]]], 2**70, [1e308]])
def test_a_value_that_no_log_can_hold_does_not_stop_the_join_or_the_reading(tmp_path, store, clock, odd):
    decide(store, "one", context={"x": 1.0, "k": "u"})
    decide(store, "two", context={"x": odd, "k": "v"})
    decide(store, "three", context={"x": 2.0, "new": odd})
    clock.time += DAY
    assert join(tmp_path, store, SETTINGS).n_joined == 3
    assert bopl.BanditLog.read(tmp_path / "log").n_samples == 3


def test_what_is_nested_becomes_columns_and_what_has_no_value_waits_for_one():
    columns = context_columns([{"user": {"age": 3}, "none": None}], {})
    assert columns["user.age"].to_pylist() == [3]
    assert columns["none"].type == pa.null()


def test_an_apprentice_s_unknown_propensity_stays_unknown(tmp_path, store, clock):
    decide(store, "one", propensity=None, decider="caller")
    clock.time += DAY
    join(tmp_path, store, SETTINGS)
    assert table(tmp_path)["_propensity"].to_pylist() == [None]
    log = bopl.BanditLog.read(tmp_path / "log", has_propensity=False)
    assert log.feature_names == ("x",)


def test_windows_are_closed_by_a_pure_function():
    row = DecisionRow("e", START, 1, "p", "a", 0.5, {}, None, 0.1)
    found = list(close_windows([row], {"e": [1.0, 1.0]}, {}, SETTINGS))
    assert [(sample.reward, what) for sample, what in found] == [(2.0, "rewarded")]
