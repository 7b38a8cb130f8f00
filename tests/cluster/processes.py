"""Workers in processes of their own, and what happens to them."""

import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import distributed

from bopl.cluster.dask import DaskCluster
from bopl.cluster.dask_worker import placements_of

BOUND = 60.0  # seconds in which what must happen has happened, on a busy machine


@contextmanager
def some_workers(n_workers=2):
    """A scheduler in this process, and workers with one thread each in others."""
    with (
        distributed.LocalCluster(
            processes=True,
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs=50,
            memory_limit="1GB",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def scale(cluster, client, n_workers):
    """Have so many workers that answer; Dask does not always start a killed one again."""
    cluster.scale(n_workers)
    ends = time.monotonic() + BOUND / 2
    while len(processes(client)) != n_workers and time.monotonic() < ends:
        time.sleep(0.05)
    if len(processes(client)) != n_workers:
        cluster.scale(0)
        until(lambda: not client.nthreads())
        cluster.scale(n_workers)
    until(lambda: len(processes(client)) == n_workers)


def until(condition):
    """Wait for something that happens soon."""
    ends = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.05)


def with_tests(**variables):
    """Return the environment for processes that import what tests import."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])} | variables


def processes(client):
    """Return the process of each worker; one that was killed just now may still be listed, and does not answer."""
    return client.run(os.getpid, on_error="ignore")


@contextmanager
def soon(seconds, act, *arguments):
    """Do something while the block runs."""
    timer = threading.Timer(seconds, act, arguments)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class Struck(DaskCluster):
    """A cluster that something happens to during one of its verbs.

    Parameters
    ----------
    client : distributed.Client
    verb : int
        Number of that verb, from 1; 0 for none.
    seconds : float
        How long after the verb was asked for.
    act : callable
    """

    def __init__(self, client, verb=0, seconds=0.0, act=None):
        super().__init__(client)
        self.n_verbs = 0
        self._verb, self._seconds, self._act = verb, seconds, act

    def carry_out(self, order):
        self.n_verbs += 1
        if self.n_verbs != self._verb:
            return super().carry_out(order)
        with soon(self._seconds, self._act):
            return super().carry_out(order)


def nothing_is_left(client, placement=""):
    """Whether no worker has states of a placement, or of any, and the scheduler no task."""
    held = [one for found in client.run(placements_of, on_error="ignore").values() for one in found]
    tasks = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
    is_held = placement in held if placement else bool(held)
    return not is_held and not any("bopl-" in key and placement in key for key in tasks)
