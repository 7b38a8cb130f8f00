"""The event store: what is acknowledged is on disk, once."""

import math
import re
import sqlite3
import threading
from dataclasses import replace

import pytest

from bopl._errors import UsageError
from bopl.serving.events import EventStore
from bopl.serving.record import DecisionRow, PromotionRow
from bopl.serving.writer import Clock, StoreError

WINDOW = 60.0
ROW = DecisionRow("e1", 0, 1, "p1", "buy", 0.1 + 0.2, {"age": 31, "land": None}, ["buy", "wait"], 1 / 3)
PROMOTION = PromotionRow("p1", 0.01, "uniform", 0.05, 0.001, "first", {"verdict": "better"}, "abc")


class Time:
    """A clock that the test moves."""

    def __init__(self):
        self.wall = self.elapsed = 1_000_000_000_000

    def clock(self, not_before=0):
        return Clock(not_before, lambda: self.wall, lambda: self.elapsed)

    def move(self, seconds):
        self.wall += int(seconds * 1e9)
        self.elapsed += int(seconds * 1e9)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def path(tmp_path):
    EventStore.create(tmp_path / "events.db", seed=7)
    return tmp_path / "events.db"


@pytest.fixture
def store(path, time):
    with EventStore(path, clock=time.clock()) as opened:
        yield opened


def test_a_decision_is_read_back_to_the_last_bit(store, time):
    row, is_new = store.add_decision(ROW).result()
    assert is_new
    assert row == replace(ROW, time=time.wall // 1000)
    assert store.decision("e1") == row
    assert store.decision("e2") is None
    assert list(store.decisions()) == [row]


def test_labels_that_are_tuples_come_back_as_tuples(store):
    row, _ = store.add_decision(replace(ROW, action=("a", 1), eligible=[("a", 1), ("b", 2)])).result()
    assert store.decision("e1") == row
    assert store.promote(replace(PROMOTION, actions=[("c", 3)])) == store.promotion()


def test_the_same_event_keeps_its_first_answer(store):
    first, _ = store.add_decision(ROW).result()
    again, is_new = store.add_decision(replace(ROW, action="wait", propensity=0.5)).result()
    assert not is_new
    assert again == first


def test_many_threads_with_one_event_get_one_answer(store):
    answers = []

    def ask(number):
        answers.append(store.add_decision(replace(ROW, action=number)).result())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row.action for row, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1


def test_what_is_done_is_seen_by_another_connection(store, path):
    futures = [store.add_decision(replace(ROW, event=f"e{number}")) for number in range(500)]
    futures[-1].result()
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM decision").fetchone() == (500,)
    other.close()
    assert [row.event for row in store.decisions()] == [f"e{number}" for number in range(500)]


def test_the_file_is_in_wal_mode_with_full_synchronisation(store):
    def modes(connection):
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    assert store.submit(modes).result() == ["wal", 2]


def test_rewards_are_kept_once_per_key_and_told_apart(store, time):
    store.add_decision(ROW).result()
    first = store.add_reward("e1", 1.5, window_s=WINDOW).result()
    assert (first.value, first.status) == (1.5, "ok")
    again = store.add_reward("e1", 2.5, window_s=WINDOW).result()
    assert (again.value, again.status, again.n_received) == (1.5, "duplicate", 2)
    assert store.add_reward("e1", 2.5, key="second", window_s=WINDOW).result().status == "ok"
    assert store.add_reward("nobody", 1.0, window_s=WINDOW).result().status == "unknown"
    time.move(WINDOW)
    assert store.add_reward("e1", 1.0, key="third", window_s=WINDOW).result().status == "ok"
    time.move(1e-3)
    assert store.add_reward("e1", 1.0, key="fourth", window_s=WINDOW).result().status == "late"
    assert [row.status for row in store.rewards("e1")] == ["ok", "ok", "ok", "late"]


def test_a_reward_of_a_joined_decision_is_late(store):
    row, _ = store.add_decision(ROW).result()
    store.set_watermark(row.time)
    assert store.watermark() == row.time
    assert store.add_reward("e1", 1.0, window_s=WINDOW).result().status == "late"
    store.set_watermark(row.time - 1)
    assert store.watermark() == row.time, "a watermark never falls"


def test_activation_needs_a_decision(store):
    assert store.activate("e1").result() is False
    store.add_decision(replace(ROW, is_active=False)).result()
    assert store.activate("e1").result() is True
    assert store.activate("e1").result() is True
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM activation").fetchone() == (1,)


def test_the_newest_promotion_is_in_force(store):
    assert store.promotion() is None
    first = store.promote(PROMOTION, after=0)
    assert (first.id, first.verdict) == (1, {"verdict": "better"})
    second = store.promote(replace(PROMOTION, share=1.0, verdict=None))
    assert store.promotion() == second
    assert store.promotions() == [first, second]


def test_a_promotion_does_not_overrule_one_it_did_not_know(store):
    store.promote(PROMOTION)
    with pytest.raises(UsageError, match="promotion 1 was made in the meantime, after promotion 0"):
        store.promote(PROMOTION, after=0)
    assert len(store.promotions()) == 1


def test_one_bad_job_does_not_take_the_others_with_it(store):
    gate = threading.Event()
    store.submit(lambda connection: gate.wait(5))  # lets the rest gather into one batch
    good = store.add_decision(ROW)
    bad = store.submit(lambda connection: 1 / 0)
    other = store.add_decision(replace(ROW, event="e2"))
    gate.set()
    assert good.result()[1]
    assert other.result()[1]
    with pytest.raises(ZeroDivisionError):
        bad.result()


def test_time_never_falls_while_the_clock_does(store, time):
    rows = []
    for number, step in enumerate((0, 5, -3600, 1, 7200)):
        time.wall += int(step * 1e9)
        time.elapsed += int(1e9)
        rows.append(store.add_decision(replace(ROW, event=f"e{number}")).result()[0].time)
    assert rows == sorted(rows)
    assert rows[3] - rows[2] == 1_000_000, "it goes on at its own pace"
    assert rows[4] == time.wall // 1000


def test_a_restart_with_a_clock_that_is_behind_goes_on_where_it_was(path, time):
    with EventStore(path, clock=time.clock()) as store:
        row, _ = store.add_decision(ROW).result()
    time.wall -= int(3600e9)
    with EventStore(path, clock=time.clock()) as store:
        later, _ = store.add_decision(replace(ROW, event="e2")).result()
        assert store.clock.ahead_s == pytest.approx(3600, abs=1)
    assert later.time >= row.time


def test_the_seed_stays_with_the_store_and_is_secret_unless_given(path, tmp_path):
    EventStore.create(path, seed=8)
    with EventStore(path) as store:
        assert store.seed == 7, "an existing store is left as it is"
    seeds = set()
    for name in ("a.db", "b.db"):
        EventStore.create(tmp_path / name)
        with EventStore(tmp_path / name) as store:
            seeds.add(store.seed)
    assert len(seeds) == 2
    assert [one.name for one in tmp_path.iterdir() if "part" in one.name] == []


def test_numbers_that_json_does_not_know_are_refused(store):
    with pytest.raises(ValueError, match="JSON"):
        store.add_decision(replace(ROW, context={"age": math.nan}))


def test_a_closed_store_takes_nothing(path):
    store = EventStore(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.add_decision(ROW)


# -- Faults -----------------------------------------------------------------------------------------------------------


def test_a_full_store_refuses_loses_nothing_and_goes_on_when_there_is_room(path):
    with EventStore(path, max_mb=1) as store:
        kept = 0
        with pytest.raises(StoreError, match="the disk is full, or max_events_mb is reached") as caught:  # noqa: PT012
            for kept in range(1000):
                store.add_decision(replace(ROW, event=f"e{kept}", context={"text": "x" * 5000})).result()
        assert caught.value.status == 507
        assert kept > 10
        assert len(list(store.decisions())) == kept
    with EventStore(path, max_mb=2) as store:
        assert store.add_decision(replace(ROW, event="more", context={"text": "x" * 5000})).result()[1]
        assert len(list(store.decisions())) == kept + 1


def test_a_file_that_is_gone_is_not_made_anew(store, path):
    store.add_decision(ROW).result()
    path.unlink()
    with pytest.raises(StoreError, match="is gone") as caught:
        store.add_decision(replace(ROW, event="e2")).result()
    assert caught.value.status == 503
    assert not path.exists()


@pytest.mark.parametrize("content", [b"x" * 4096, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_one_sentence(tmp_path, content):
    path = tmp_path / "events.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged") as caught:
        EventStore(path)
    assert caught.value.status == 500
    assert "\n" not in str(caught.value)


def test_a_store_with_damaged_pages_is_refused_when_it_is_opened(path):
    with EventStore(path) as store:
        futures = [store.add_decision(replace(ROW, event=f"e{number}")) for number in range(2000)]
        futures[-1].result()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 8192)
    with pytest.raises(StoreError, match="is damaged"):
        EventStore(path)


def test_a_newer_format_is_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("UPDATE meta SET value = 99 WHERE name = 'version'")
    other.close()
    with pytest.raises(UsageError, match=re.escape("has format 99; this version of bopl reads format 1.")):
        EventStore(path)


def test_a_store_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no event store"):
        EventStore(tmp_path / "events.db")
