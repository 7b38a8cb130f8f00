"""Faults: what was acknowledged is there once, what was not is told so, and every refusal is one sentence."""

import os
import random
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.writer import StoreError
from loops import Server, at_once, make_loop, wait_until

ACTIONS = ("a", "b", "c")


@pytest.fixture
def loop(tmp_path):
    """A loop that decides by chance, so that its server starts quickly."""
    return make_loop(tmp_path / "loop", actions=ACTIONS, random_state=3)


def load(server, names, stop, acknowledged):
    """Let clients decide and reward until they are told to stop or the server is gone; note what was acknowledged."""

    def work(client, number):
        count = 0
        while not stop.is_set():
            event = f"{names}-{number}-{count}"
            count += 1
            try:
                status, answer = client.decide(event)
                if status == 200:
                    acknowledged.append(("decide", event, answer))
                if client.reward(event, count / 7)[0] == 200:
                    acknowledged.append(("reward", event, count / 7))
            except (OSError, ValueError, EOFError, ConnectionError):
                return
            except Exception as error:
                if "Remote" in type(error).__name__ or "Incomplete" in type(error).__name__:
                    return
                raise

    at_once(server, work, 3)


def check_kept(loop, acknowledged):
    """Raise unless everything that was acknowledged is in the store, once, as it was answered."""
    with EventStore(loop.events) as store:
        rows = list(store.decisions())
        by_event = {row.event: row for row in rows}
        assert len(by_event) == len(rows), "none twice"
        for kind, event, what in acknowledged:
            assert event in by_event, f"{event} was acknowledged and lost"
            if kind == "decide":
                assert (by_event[event].action, by_event[event].propensity) == (what["action"], what["propensity"])
            else:
                assert [row.value for row in store.rewards(event)] == [what]
        with store.reading() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def kill_at_random_moments(loop, n_moments, seed):
    """Return how long the starts took after servers were killed under load."""
    rng, acknowledged, seconds = random.Random(seed), [], []
    for moment in range(n_moments):
        server, stop = Server(loop.path), threading.Event()
        seconds.append(server.cpu_seconds_to_start)
        before = len(acknowledged)
        timer = threading.Timer(rng.uniform(0.02, 0.3), server.process.kill)
        wanted = rng.randrange(1, 20)
        watcher = threading.Thread(
            target=lambda: wait_until(lambda: len(acknowledged) - before >= wanted, 20) and timer.start()  # noqa: B023
        )
        watcher.start()
        load(server, f"k{moment}", stop, acknowledged)
        watcher.join()
        assert server.kill() == -9
        check_kept(loop, acknowledged)
    assert len(acknowledged) >= n_moments
    with Server(loop.path) as server:
        seconds.append(server.cpu_seconds_to_start)
        kept = {event: what for kind, event, what in acknowledged if kind == "decide"}
        with server.client() as client:
            for event in random.Random(seed).sample(sorted(kept), min(20, len(kept))):
                assert client.decide(event) == (200, kept[event]), "asked again, the answer is the same"
    return seconds


def test_a_killed_server_loses_nothing_it_acknowledged(loop):
    kill_at_random_moments(loop, 5, seed=1)


@pytest.mark.slow
def test_fifty_kills_lose_nothing_and_starts_take_less_than_two_seconds_of_processor_time(loop):
    seconds = kill_at_random_moments(loop, 50, seed=2)
    assert max(seconds[1:]) < 2.0


def test_two_servers_cannot_share_a_folder(loop):
    with Server(loop.path) as server:
        with pytest.raises(
            RuntimeError, match=rf"process {server.process.pid} since .* is writing '.*events\.db'; wait"
        ):
            Server(loop.path)
        with server.client() as client:
            assert client.decide()[0] == 200


def test_an_orderly_end_answers_what_was_asked(loop):
    server, acknowledged, stop = Server(loop.path), [], threading.Event()
    threading.Timer(0.4, lambda: server.process.terminate()).start()
    load(server, "end", stop, acknowledged)
    assert server.stop() == 0
    assert server.errors == ""
    check_kept(loop, acknowledged)


def test_a_full_disk_is_507_and_nothing_is_lost(tmp_path):
    loop = make_loop(tmp_path / "loop", actions=ACTIONS, max_events_mb=1, max_body_bytes=400_000)
    acknowledged, large = [], {"text": "x" * 300_000}
    with Server(loop.path) as server, server.client() as client:
        for number in range(10):
            status, answer = client.decide(f"e{number}", large)
            if status != 200:
                break
            acknowledged.append(("decide", f"e{number}", answer))
        assert status == 507
        assert "cannot grow: the disk is full, or max_events_mb is reached." in answer["error"]
        assert client.decide(f"e{number}", large)[0] == 507, "and again"
        assert client.decide("e0")[1] == acknowledged[0][2], "what was decided is still answered"
        assert client.get("/health")[0] == 200
    assert 0 < len(acknowledged) < 10
    check_kept(loop, acknowledged)


def test_a_store_that_breaks_or_goes_while_it_runs_is_told(loop):
    with Server(loop.path) as server, server.client() as client:
        answer = client.decide("first")
        shutil.copy(loop.events, loop.path / "copy.db")
        moved = loop.path / "moved.db"
        loop.events.rename(moved)
        status, gone = client.decide("second")
        assert status == 503
        assert "is gone: put it back, or restart the server." in gone["error"]
        loop.events.write_bytes(b"this is not a database, " * 400)
        status, broken = client.decide("third")
        assert status == 500
        assert "is damaged" in broken["error"]
        assert "\n" not in broken["error"]
        for suffix in ("-wal", "-shm"):
            loop.events.with_name(f"events.db{suffix}").unlink(missing_ok=True)
        assert answer[0] == 200
    with pytest.raises(RuntimeError, match="is damaged"):
        Server(loop.path)


@contextmanager
def read_only(*paths):
    """Let nobody write, not even root."""
    is_root = os.geteuid() == 0
    if is_root and shutil.which("chattr") is None:
        pytest.skip("root may write everywhere, and there is no chattr")
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    if is_root and subprocess.run(["chattr", "+i", *paths], check=False).returncode:
        pytest.skip("root may write everywhere, and this file system knows no immutable files")
    try:
        yield
    finally:
        if is_root:
            subprocess.run(["chattr", "-i", *paths], check=True)
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def test_a_read_only_folder_is_one_sentence(loop):
    with read_only(loop.path), pytest.raises(RuntimeError, match=r"'.*events\.db' cannot be written: .*ermi"):
        Server(loop.path)


def test_a_store_that_has_become_read_only_is_503(loop):
    with EventStore(loop.events) as store:
        with read_only(loop.events), pytest.raises(StoreError, match="cannot be written") as caught:
            store.add_reward("e", 1.0, window_s=1.0).result()
        assert caught.value.status == 503
        assert store.add_reward("e", 1.0, window_s=1.0).result().n_received == 1


# In a namespace of its own, a server has a small disk; its files are seen from here through /proc.
SMALL_DISK = 'mount -t tmpfs -o size=1m tmpfs "$1" && cp -r "$0/." "$1" && shift && exec "$@"'


def has_namespaces():
    tool = shutil.which("unshare")
    command = [tool, "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return tool is not None and not subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.skipif(not has_namespaces(), reason="no right to mount a small disk")
def test_a_disk_that_is_really_full_is_507_until_there_is_room(loop, tmp_path):
    disk, acknowledged, large = tmp_path / "disk", [], {"text": "x" * 40_000}
    disk.mkdir()
    with Server(disk, before=["unshare", "-m", "sh", "-c", SMALL_DISK, loop.path, disk]) as server:
        with server.client() as client:
            for number in range(100):
                status, answer = client.decide(f"e{number}", large)
                if status != 200:
                    break
                acknowledged.append(("decide", f"e{number}", answer))
            assert (status, "cannot grow: the disk is full" in answer["error"]) == (507, True)
            assert client.decide(f"e{number}", large)[0] == 507
            enlarge = ["mount", "-o", "remount,size=20m", str(disk)]
            subprocess.run(["nsenter", "-t", str(server.process.pid), "-m", *enlarge], check=True)
            assert client.decide(f"e{number}", large)[0] == 200
            assert client.reward("e0")[1]["status"] == "ok"
        assert acknowledged
        seen = Path(f"/proc/{server.process.pid}/root") / disk.relative_to("/")
        shutil.copytree(seen, tmp_path / "copy")
    check_kept(LoopFolder(tmp_path / "copy"), acknowledged)


def test_a_port_that_is_taken_is_one_sentence(loop, tmp_path):
    other = make_loop(tmp_path / "other", actions=ACTIONS)
    with Server(loop.path) as server:
        port = server.address.rsplit(":", 1)[1]
        (other.path / "loop.toml").write_text(f"port = {port}", encoding="utf8")
        with pytest.raises(RuntimeError, match=f"port {port} of 127.0.0.1 cannot be used: Address already in use"):
            Server(other.path)


# -- The clock --------------------------------------------------------------------------------------------------------

SET_CLOCK = """
import time
from pathlib import Path

real = time.time_ns
time.time_ns = lambda: real() + int(Path({file!r}).read_text())
"""


def test_a_clock_that_goes_backwards_changes_nothing_also_over_http_and_after_a_restart(loop, tmp_path, monkeypatch):
    offset = tmp_path / "offset"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SET_CLOCK.format(file=str(offset)), encoding="utf8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    offset.write_text("0", encoding="utf8")
    with Server(loop.path) as server, server.client() as client:
        first = client.decide("first")
        offset.write_text(str(-86_400 * 10**9), encoding="utf8")  # a day back
        assert client.decide("second")[0] == 200
        assert client.decide("first") == first
        assert client.reward("first")[1]["status"] == "ok"
        assert client.reward("second")[1]["status"] == "ok"
    with Server(loop.path) as server, server.client() as client:
        assert client.decide("third")[0] == 200
        assert client.reward("third")[1]["status"] == "ok"
    with EventStore(loop.events) as store:
        rows = list(store.decisions())
    assert [row.event for row in rows] == ["first", "second", "third"]
    times = [row.time for row in rows]
    assert times == sorted(times)
    assert times[-1] - times[0] < 600 * 10**6  # microseconds: nobody waited for the clock to catch up
