"""Whole fits on real processes: workers that die, join and pause, interrupted clients, lost files and full disks.

A fit ends with the bytes of the log in memory, or with one sentence; nothing is left behind, and nothing hangs.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import bopl
from bopl.cluster import CacheWarning, MemoryBudgetWarning, ThisMachine
from bopl.learner.hist_tree import levels

distributed = pytest.importorskip("distributed")
pandas = pytest.importorskip("pandas")

from bopl.cluster.dask import DaskCluster  # noqa: E402
from bopl.cluster.dask_worker import placements_of  # noqa: E402
from cluster.processes import (  # noqa: E402
    BOUND,
    Struck,
    nothing_is_left,
    processes,
    scale,
    some_workers,
    until,
    with_tests,
)

N = 600
ROLES = {"action": "action", "reward": "reward", "propensity": "p"}
PAUSE = 20.0  # seconds


@pytest.fixture(autouse=True)
def shallow(monkeypatch):
    """Most of a tree is grown by levels."""
    monkeypatch.setattr(levels, "GATHER_ROWS", 100)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOPL_CACHE", str(tmp_path_factory.mktemp("cache")))  # of the workers
        with some_workers(2) as both:
            yield both


@pytest.fixture
def client(running):
    """Two workers, whatever happened before."""
    scale(*running, 2)
    return running[1]


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path / "log")


@pytest.fixture
def pieces(files):
    return bopl.BanditLog.scan_parquet([str(file) for file in files], **ROLES)


def write_files(folder, n_rows=N, n_columns=4, row_group=80):
    """Write a log of three files, one of them with a single row."""
    rng = np.random.default_rng(0)
    context = rng.normal(size=(n_rows, n_columns))
    frame = pandas.DataFrame(context, columns=[f"x{idx}" for idx in range(n_columns)])
    frame["kind"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, n_rows)]
    frame["action"], frame["p"] = rng.integers(0, 3, n_rows), 0.2 + 0.6 * rng.random(n_rows)
    frame["reward"] = (frame["action"] == (context[:, 0] > 0)) + 0.3 * rng.normal(size=n_rows)
    folder.mkdir()
    ends = [0, 1, n_rows // 2, n_rows]
    files = [folder / f"{number}.parquet" for number in range(3)]
    for file, start, end in zip(files, ends, ends[1:], strict=False):
        frame.iloc[start:end].to_parquet(file, row_group_size=row_group)
    return files


def a_policy(n_rounds=4, random_state=0):
    tree = bopl.HistTree(4, min_child_weight=5.0, subsample=0.8, colsample=0.7, n_jobs=1)
    return bopl.BoostedPolicy("ips", tree, n_rounds=n_rounds, random_state=random_state)


def saved(policy, tmp_path):
    path = tmp_path / "model.bopl"
    policy.save(path)
    return path.read_bytes()


def at_round(number, act):
    """Return a callback that does something once, after a round."""

    def callback(state):
        if len(state.rounds) == number:
            act()
        return bopl.CallbackAction.CONTINUE

    return callback


def kill(process):
    os.kill(process, signal.SIGKILL)


# -- Workers -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_worker_that_is_killed_at_any_moment_of_a_fit_changes_no_byte(client, pieces, tmp_path, seed):
    rng = np.random.default_rng(seed)
    with Struck(client) as calm:
        expected = saved(a_policy().fit(pieces, cluster=calm), tmp_path)
    assert expected == saved(a_policy().fit(pieces.to_log()), tmp_path)
    process = sorted(processes(client).values())[rng.integers(2)]
    verb, seconds = int(rng.integers(1, calm.n_verbs + 1)), rng.uniform(0.0, 0.05)
    with Struck(client, verb, seconds, lambda: kill(process)) as struck:
        assert saved(a_policy().fit(pieces, cluster=struck), tmp_path) == expected
    until(lambda: nothing_is_left(client))


@pytest.mark.slow
def test_a_worker_that_joins_a_fit_takes_part_in_it(running, client, pieces, tmp_path):
    cluster, _ = running
    expected = saved(a_policy().fit(pieces.to_log()), tmp_path)
    held = {}
    scale(cluster, client, 1)
    joins = at_round(1, lambda: scale(cluster, client, 2))
    looks = at_round(3, lambda: held.update(client.run(placements_of)))
    fitted = a_policy().fit(pieces, cluster=client, callbacks=[joins, looks])
    assert saved(fitted, tmp_path) == expected
    assert len(held) == 2
    assert all(held.values())


@pytest.mark.slow
def test_five_workers_give_the_same_bytes_and_resume_what_two_began(running, client, pieces, tmp_path):
    cluster, _ = running
    expected = saved(a_policy().fit(pieces.to_log()), tmp_path)
    checkpoint = tmp_path / "fit.ckpt"
    a_policy(2).fit(pieces, cluster=client, callbacks=[bopl.Checkpoint(checkpoint)])
    scale(cluster, client, 5)
    assert saved(a_policy().fit(pieces, cluster=client), tmp_path) == expected
    assert saved(a_policy().fit(pieces, cluster=client, resume_from=checkpoint), tmp_path) == expected
    until(lambda: nothing_is_left(client))


@pytest.mark.slow
def test_a_worker_that_is_stopped_for_a_while_delays_a_fit_and_changes_no_byte(client, pieces, tmp_path):
    expected = saved(a_policy().fit(pieces.to_log()), tmp_path)
    process = min(processes(client).values())
    resumes = threading.Timer(PAUSE, os.kill, (process, signal.SIGCONT))

    def stop():
        os.kill(process, signal.SIGSTOP)
        resumes.start()

    fitted = a_policy().fit(pieces, cluster=client, callbacks=[at_round(2, stop)])
    resumes.join()
    assert saved(fitted, tmp_path) == expected
    until(lambda: nothing_is_left(client))


def test_two_fits_at_once_on_one_cluster_do_not_meddle(client, pieces, tmp_path):
    whole = pieces.to_log()
    expected = [saved(a_policy(random_state=seed).fit(whole), tmp_path) for seed in (0, 1)]
    fitted = {}

    def fit(seed):
        fitted[seed] = a_policy(random_state=seed).fit(pieces, cluster=client)

    threads = [threading.Thread(target=fit, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert [saved(fitted[seed], tmp_path) for seed in (0, 1)] == expected
    until(lambda: nothing_is_left(client))


# -- The client --------------------------------------------------------------------------------------------------------

CLIENT = """
import sys
import bopl
from cluster.test_faults import ROLES, a_policy, at_round

log = bopl.BanditLog.scan_parquet(sys.argv[2], **ROLES)
say = at_round(2, lambda: print("two rounds", flush=True))
print(a_policy(100_000).fit(log, cluster=sys.argv[1], callbacks=[say]).stop_reason_)
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_client_and_frees_the_workers(client, files):
    command = [sys.executable, "-c", CLIENT, client.scheduler.address, str(files[0].parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=with_tests(), **pipes) as process:
        try:
            assert process.stdout.readline().strip() == "two rounds"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=BOUND)
        finally:
            process.kill()
    assert process.returncode == 0
    assert said.strip() == "interrupted by the user"  # the rounds so far are kept
    until(lambda: nothing_is_left(client))


# -- Files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gone", pytest.param("changed", marks=pytest.mark.slow)])
def test_a_file_that_a_lost_worker_had_read_and_that_is_another_now_is_named(client, files, pieces, how):
    def strike():
        for file in files:
            file.unlink()
            if how == "changed":
                file.write_bytes(b"something else")
        for process in processes(client).values():
            kill(process)

    with pytest.raises((OSError, ValueError), match=r"[012]\.parquet") as caught:
        a_policy().fit(pieces, cluster=client, callbacks=[at_round(2, strike)])
    assert how in str(caught.value)
    assert "\n" not in str(caught.value)
    until(lambda: nothing_is_left(client))


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_file_that_is_another_after_the_scan_is_named_out_of_core(files, pieces, tmp_path, how):
    files[1].unlink()
    if how == "changed":
        files[1].write_bytes(files[2].read_bytes())
    with pytest.raises((OSError, ValueError), match=rf"1\.parquet.*{how}"):
        a_policy().fit(pieces, memory="2GB")
    assert not list((tmp_path / "cache").glob("*"))


# -- Disks -------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder, size):
    """A disk of a few bytes; skips where this process may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def many(tmp_path):
    """A log whose codes and states do not fit on a disk of 64 kB."""
    files = write_files(tmp_path / "many", 6000, 20, 500)
    return bopl.BanditLog.scan_parquet([str(file) for file in files], **ROLES)


def test_a_full_disk_under_the_cache_changes_no_byte(many, tmp_path):
    expected = saved(a_policy(2).fit(many.to_log()), tmp_path)
    with small_disk(tmp_path / "disk", "64k") as disk:
        with (
            ThisMachine("8GB", cache=disk / "cache") as machine,
            pytest.warns(CacheWarning, match="the disk is full. They stay in memory"),
        ):
            assert saved(a_policy(2).fit(many, cluster=machine), tmp_path) == expected
        assert not [file for file in disk.rglob("*") if file.is_file() and not file.name.endswith(".arrays")]


def test_a_full_disk_under_the_states_is_one_sentence(many, tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        with (
            ThisMachine("1MB", cache=disk / "cache") as machine,
            pytest.warns(MemoryBudgetWarning, match="1.0 MB is exceeded"),
            pytest.raises(OSError, match=r"states of the log's pieces .* the disk is full\. Free some space") as caught,
        ):
            a_policy(2).fit(many, cluster=machine)
        assert "\n" not in str(caught.value)
        assert not [file for file in disk.rglob("*") if file.is_file() and not file.name.endswith(".arrays")]


@pytest.mark.slow
def test_a_full_disk_under_the_cache_of_workers_changes_no_byte(many, tmp_path, monkeypatch):
    expected = saved(a_policy(2).fit(many.to_log()), tmp_path)
    with small_disk(tmp_path / "disk", "64k") as disk:
        monkeypatch.setenv("BOPL_CACHE", str(disk / "cache"))
        with some_workers(1) as (_, client), DaskCluster(client) as cluster:
            assert saved(a_policy(2).fit(many, cluster=cluster), tmp_path) == expected
