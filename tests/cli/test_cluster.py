"""Commands of a shell on a Dask cluster of other processes: a scheduler and two workers, as a user starts them."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

import bopl
from cli.test_pieces import ROLES, a_log
from pieces_logs import write

pytest.importorskip("distributed")

BOUND = 120.0  # seconds in which a command ends, on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write(folder, a_log(), (400, 0, 1, 499), 150)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("cache"))
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "BOPL_CACHE": cache, "COLUMNS": "200"}


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory, environment):
    """The address of a scheduler with two workers."""
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    with ExitStack() as stack:

        def start(program, *words):
            command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(file), *words]
            process = subprocess.Popen([*command, "--host", "127.0.0.1", "--no-dashboard"], **quiet)
            stack.callback(process.wait)
            stack.callback(process.kill)

        start("scheduler", "--port", "0")
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        for _ in range(2):
            start("worker", "--no-nanny", "--nthreads", "1", "--memory-limit", "1GB")
        yield json.loads(file.read_text())["address"]


def until(condition):
    ends = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.05)


def bopl_in_a_shell(environment, *words):
    """Run a command; return its exit status and what it said."""
    command = [sys.executable, "-m", "bopl", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=BOUND)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_all_four_commands_do_on_a_cluster_what_they_do_here(folder, environment, scheduler, tmp_path):
    files = sorted(folder.glob("*.parquet"))
    where = {"here": ["--memory", "1kB"], "cluster": ["--cluster", scheduler]}

    def both(*words):
        found = {name: bopl_in_a_shell(environment, *words, *more) for name, more in where.items()}
        assert found["here"][0] == found["cluster"][0], found
        return found["here"][1], found["cluster"][1]

    here, cluster = both("audit", *files, *ROLES, "--json")
    assert json.loads(cluster) == json.loads(here)
    trained = ["train", *files, *ROLES, "--ignore", "request", "--objective", "ips", "--n-rounds", "4"]
    policies = []
    for name, more in where.items():
        out = tmp_path / name / "policy.bopl"
        code, said, error = bopl_in_a_shell(environment, *trained, *more, "--out", out)
        assert code in (0, 4), error
        policies.append(bopl.load(out))
    assert f"by the workers of {scheduler}" in said
    trees = [[made.predictor.tree.to_bytes() for made in policy.ensemble_.rounds] for policy in policies]
    assert trees[0] == trees[1]
    here, cluster = both("evaluate", *files, out, "--estimators", "snips,ips", "--json")
    assert json.loads(cluster)["rows"] == json.loads(here)["rows"]
    decided = []
    for name, more in where.items():
        path = tmp_path / f"{name}.csv"
        code, said, error = bopl_in_a_shell(
            environment, "predict", *files, out, "--keep", "request", "--out", path, *more
        )
        assert (code, "900 decisions written" in said) == (0, True), error
        decided.append(path.read_text())
    assert decided[0] == decided[1]


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_one_sentence(folder, environment):
    code, _, said = bopl_in_a_shell(environment, "audit", folder, *ROLES, "--cluster", "tcp://127.0.0.1:9")
    assert code == 2
    assert "there is no Dask scheduler at 'tcp://127.0.0.1:9'" in " ".join(said.split())
