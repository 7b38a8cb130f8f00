"""Real processes: workers that die, pause and join, clients that are interrupted, and the same results."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from bopl._errors import UsageError
from bopl.cluster import Cluster, using_cluster
from cluster.work import (
    InFile,
    build,
    build_from_file,
    count,
    fail_halfway,
    first_value,
    multiply,
    numbers,
    plain_story,
    slowly_multiply,
    slowly_multiply_and_count,
    story,
)

distributed = pytest.importorskip("distributed")

from bopl.cluster import dask as dask_module  # noqa: E402
from bopl.cluster.dask import DaskCluster  # noqa: E402
from bopl.cluster.dask_worker import placements_of  # noqa: E402
from cluster.processes import (  # noqa: E402
    Struck,
    nothing_is_left,
    processes,
    scale,
    some_workers,
    soon,
    until,
    with_tests,
)


@pytest.fixture(scope="module")
def running():
    with some_workers() as both:
        yield both


@pytest.fixture
def client(running):
    """Two workers, whatever happened before."""
    cluster, client = running
    scale(cluster, client, 2)
    return client


def multiplied(*factors):
    """First values of the pieces after some factors."""
    values = [build(piece, factors, None)["values"] for piece in numbers()]
    return [int(one[0]) for one in values]


@pytest.mark.parametrize("n_workers", [1, 3, 2])
def test_verbs_equal_a_plain_loop_on_any_number_of_workers(running, n_workers):
    cluster, client = running
    scale(cluster, client, n_workers)
    with DaskCluster(client) as dask, dask.place(numbers(), build, rows=[one.n_rows for one in numbers()]) as placement:
        assert story(placement) == plain_story()
        assert placement.traffic.n_built == len(numbers())
        assert placement.traffic.n_sent > 0
    until(lambda: nothing_is_left(client, placement.id))


def test_answers_of_many_workers_are_added_on_the_workers(client, monkeypatch):
    monkeypatch.setattr(dask_module, "MANY", 1)
    monkeypatch.setattr(dask_module, "FAN_IN", 2)
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        assert story(placement) == plain_story()


def test_a_worker_that_is_killed_between_verbs_changes_nothing(client):
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        placement.settle(3)
        placement.update(multiply, 5)
        os.kill(min(processes(client).values()), signal.SIGKILL)
        placement.update(multiply, 2)
        assert placement.gather(first_value) == multiplied(3, 5, 2)
        assert placement.traffic.n_built > len(numbers())


def test_a_worker_that_is_killed_during_a_verb_changes_nothing(client):
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        with soon(0.15, os.kill, max(processes(client).values()), signal.SIGKILL):
            placement.update(slowly_multiply, 5, 0.1)
        assert placement.gather(first_value) == multiplied(3, 5)


def test_a_worker_that_is_killed_while_answers_are_added_changes_nothing(client, monkeypatch):
    monkeypatch.setattr(dask_module, "MANY", 1)
    monkeypatch.setattr(dask_module, "FAN_IN", 2)
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        with soon(0.15, os.kill, max(processes(client).values()), signal.SIGKILL):
            counts = placement.update_reduce(slowly_multiply_and_count, 5, 0.1)
        assert counts.tolist() == placement.reduce(count, 8).tolist()
        assert placement.gather(first_value) == multiplied(3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_worker_that_is_killed_at_any_moment_changes_nothing(running, client, seed):
    rng = np.random.default_rng(seed)
    process = sorted(processes(client).values())[rng.integers(2)]
    verb, seconds = int(rng.integers(1, 5 * 8 + 2)), rng.uniform(0.0, 0.05)
    with (
        Struck(client, verb, seconds, lambda: os.kill(process, signal.SIGKILL)) as dask,
        dask.place(numbers(), build) as placement,
    ):
        assert story(placement, 8) == plain_story(8)
        assert dask.n_verbs >= 5 * 8 + 1
    until(lambda: nothing_is_left(client, placement.id))


def test_a_worker_that_joins_takes_pieces_after_the_round(running, client):
    cluster, _ = running
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        placement.settle(3)
        cluster.scale(3)
        until(lambda: len(client.nthreads()) == 3)
        placement.settle()
        placement.update(multiply, 5)
        assert placement.gather(first_value) == multiplied(3, 5)
        assert all(placement.id in held for held in client.run(placements_of).values())
        assert len(numbers()) < placement.traffic.n_built < 2 * len(numbers())


def test_a_worker_that_is_stopped_for_a_while_only_delays(client):
    process = min(processes(client).values())
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        os.kill(process, signal.SIGSTOP)
        with soon(0.6, os.kill, process, signal.SIGCONT):
            placement.update(multiply, 5)
        assert placement.gather(first_value) == multiplied(3, 5)
        assert placement.traffic.n_built == len(numbers())


def test_two_fits_at_once_do_not_meddle(client):
    told = {}

    def fit(name, n_pieces):
        with DaskCluster(client) as dask, dask.place(numbers(n_pieces), build) as placement:
            told[name] = story(placement)

    threads = [threading.Thread(target=fit, args=arguments) for arguments in (("one", 5), ("other", 4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {"one": plain_story(), "other": plain_story(pieces=numbers(4))}


def test_ctrl_c_cancels_what_runs_and_frees_the_states(client):
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        with soon(0.3, os.kill, os.getpid(), signal.SIGINT), pytest.raises(KeyboardInterrupt):
            placement.update(slowly_multiply, 5, 3.0)  # long after the signal, on a busy machine, too
    until(lambda: nothing_is_left(client, placement.id))


def test_a_scheduler_that_is_gone_is_named(tmp_path):
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": with_tests()}
    with subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", str(file)], **silent) as scheduler:
        until(file.exists)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-nanny"]
        with subprocess.Popen([*command, "--no-dashboard", "--nthreads", "1"], **silent) as worker:
            try:
                until(lambda: file.read_text().strip().endswith("}"))
                with DaskCluster(json.loads(file.read_text())["address"]) as dask:
                    placement = dask.place(numbers(), build)
                    placement.update(multiply, 3)
                    scheduler.kill()
                    with pytest.raises(ConnectionError, match=r"the Dask scheduler at tcp://.* is gone, or has"):
                        placement.update(multiply, 5)
            finally:
                scheduler.kill()
                worker.kill()


CLIENT = """
import sys, time
from bopl.cluster.dask import DaskCluster
from cluster.work import build, multiply, numbers

placement = DaskCluster(sys.argv[1]).place(numbers(), build)
placement.update(multiply, 3)
print(placement.id, flush=True)
time.sleep(600)
"""


def test_states_of_a_client_that_was_killed_go(client):
    command = [sys.executable, "-c", CLIENT, client.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=with_tests()) as process:
        placement = process.stdout.readline().strip()
        assert not nothing_is_left(client, placement)
        process.kill()
    until(lambda: nothing_is_left(client, placement))


def test_a_file_that_vanished_is_named_when_its_piece_is_read_again(client, tmp_path):
    paths = [tmp_path / f"{idx}.txt" for idx in range(3)]
    for path in paths:
        np.savetxt(path, np.arange(5), fmt="%d")
    with DaskCluster(client) as dask, dask.place([InFile(str(path)) for path in paths], build_from_file) as placement:
        placement.update(multiply, 3)
        for path in paths:
            path.unlink()
        placement.update(multiply, 5)
        for process in processes(client).values():
            os.kill(process, signal.SIGKILL)
        with pytest.raises(FileNotFoundError, match=r"\.txt' was there when the log was scanned, and is gone now"):
            placement.update(multiply, 2)


def test_a_function_that_fails_on_a_worker_ends_the_placement_with_its_error(client):
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement:
        with pytest.raises(OSError, match="the third file is gone"):
            placement.update(fail_halfway, 2)
        with pytest.raises(RuntimeError, match="closed; place them again"):
            placement.reduce(count, 8)
    until(lambda: nothing_is_left(client, placement.id))


def test_no_pieces_add_up_to_nothing(client):
    with DaskCluster(client) as dask, dask.place([], build) as placement:
        assert placement.reduce(count, 8) is None


def test_without_workers_a_fit_ends_after_its_patience(running, client):
    cluster, _ = running
    with DaskCluster(client, patience=0.5) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        cluster.scale(0)
        until(lambda: not client.nthreads())
        with pytest.raises(ConnectionError, match=r"has had no worker for 0.5 seconds; start one with"):
            placement.update(multiply, 5)


def pause_above(share, dask_worker):
    """Set the share of its memory above which a worker is paused."""
    dask_worker.memory_manager.memory_pause_fraction = share


def test_a_worker_that_dask_has_paused_for_good_is_named_with_its_memory(client, monkeypatch):
    monkeypatch.setattr(dask_module, "LOOKS", 1)
    address = min(client.nthreads())

    def status():
        return client.scheduler_info()["workers"][address]["status"]

    with DaskCluster(client, patience=0.5) as dask, dask.place(numbers(), build) as placement:
        placement.update(multiply, 3)
        client.run(pause_above, 1e-9, workers=[address])
        try:
            until(lambda: status() == "paused")
            with pytest.raises(RuntimeError, match=rf"paused the worker at {address} for 0.5 seconds.* of 1,000 MB"):
                placement.update(multiply, 5)
        finally:
            client.run(pause_above, 0.8, workers=[address])
    until(lambda: status() == "running")
    until(lambda: nothing_is_left(client, placement.id))


def test_an_address_is_a_cluster_too(client):
    with using_cluster(client.scheduler.address) as cluster:
        assert isinstance(cluster, Cluster)
        assert cluster.n_slots == 2
        with cluster.place(numbers(), build) as placement:
            assert placement.gather(first_value) == multiplied()


def test_an_address_without_a_scheduler_is_named():
    with pytest.raises(UsageError, match=r"there is no Dask scheduler at 'tcp://127.0.0.1:9'"):
        DaskCluster("tcp://127.0.0.1:9", timeout=0.5)


@pytest.mark.parametrize("address", ["", "here", "nonsense://x", "tcp://", "inproc://1/2/3", "tls://127.0.0.1:9"])
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(UsageError, match="there is no Dask scheduler at"):
        DaskCluster(address, timeout=0.5)


NAMED = """
import contextlib, threading
from bopl.cluster.dask import DaskCluster
for address in ("here", "tls://127.0.0.1:9"):
    with contextlib.suppress(ValueError):
        DaskCluster(address, timeout=0.5)
print([one.name for one in threading.enumerate()])
"""


def test_an_address_that_is_none_leaves_no_thread_and_nothing_to_say_at_the_end():
    found = subprocess.run([sys.executable, "-c", NAMED], capture_output=True, text=True, timeout=100, check=True)
    assert (found.stdout, found.stderr) == ("['MainThread']\n", "")


def test_what_is_no_client_is_named():
    with pytest.raises(UsageError, match=r"must be a distributed\.Client.*not int"), using_cluster(3):
        pass


def test_without_dask_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"install them with `pip install 'bopl\[dask\]'`"):
        DaskCluster("tcp://127.0.0.1:8786")


def test_another_version_on_the_workers_is_named(client, monkeypatch):
    monkeypatch.setattr("bopl.__version__", "9.9")
    refused = pytest.raises(UsageError, match=r"have bopl .*, and the client has 9\.9; install the same")
    with DaskCluster(client) as dask, dask.place(numbers(), build) as placement, refused:
        placement.reduce(count, 8)
