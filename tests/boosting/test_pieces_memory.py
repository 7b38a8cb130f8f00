"""A fit over pieces keeps its memory budget, or says which one it would keep."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl._machine import memory_in_use_mib
from bopl.cluster import MemoryBudgetWarning, ThisMachine, WorkingMemory, parse_bytes
from bopl.learner.hist_tree import levels

N, N_COLUMNS, N_ACTIONS, GROUP = 160_000, 12, 8, 20_000
ROLES = {"action": "action", "reward": "reward", "propensity": "p"}
TOLERANCE = 1.05

FIT = """
import hashlib, json, re, sys, warnings
from pathlib import Path
import bopl
from bopl.boosting.pieces.run import working_memory
from bopl.cluster import ThisMachine, parse_bytes

file, cache, memory, saved = sys.argv[1:]
log = bopl.BanditLog.scan_parquet(file, action="action", reward="reward", propensity="p")
tree = bopl.HistTree(6, min_child_weight=5.0, n_jobs=1)
policy = bopl.BoostedPolicy("ips", tree, n_rounds=2, progress=False, random_state=0)
if memory == "smallest":
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ThisMachine(1).reserve(working_memory(log, tree))
    memory = re.search(r"memory='(\\w+)'", str(caught[0].message))[1]
warnings.simplefilter("error")
with ThisMachine(memory, n_threads=2, cache=cache) as machine:
    policy.fit(log, cluster=machine)
policy.save(saved)
digest = hashlib.sha256(open(saved, "rb").read()).hexdigest()
# getrusage would tell the peak of the parent, where that is higher.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(json.dumps({"budget": parse_bytes(memory), "peak": 1024 * int(peak), "digest": digest}))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))


def write_log(file, n_rows=N):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n_rows).astype(np.float32) for j in range(N_COLUMNS)}
    columns |= {"action": rng.integers(0, N_ACTIONS, n_rows), "reward": (columns["x0"] > 0.0).astype(np.int8)}
    pq.write_table(pa.table(columns | {"p": np.full(n_rows, 1.0 / N_ACTIONS)}), file, row_group_size=GROUP)
    return file


def scanned(file):
    return bopl.BanditLog.scan_parquet(str(file), **ROLES)


def fit_in_a_process(folder, memory):
    arguments = [folder / "log.parquet", folder / "cache", memory, folder / "policy.bopl"]
    done = subprocess.run(
        [sys.executable, "-c", FIT, *map(str, arguments)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_peak_of_a_process_is_within_the_smallest_budget_and_the_model_the_same(tmp_path):
    write_log(tmp_path / "log.parquet")
    roomy = fit_in_a_process(tmp_path, "8GB")  # compiles what was not compiled yet
    tight = fit_in_a_process(tmp_path, "smallest")
    assert tight["digest"] == roomy["digest"]
    assert tight["budget"] < 500e6
    assert tight["peak"] <= TOLERANCE * tight["budget"]


def test_a_budget_that_is_too_small_is_told_in_one_sentence_before_any_work(tmp_path):
    log = scanned(write_log(tmp_path / "log.parquet", 2 * GROUP))
    (tmp_path / "log.parquet").unlink()  # nothing is read any more
    policy = bopl.BoostedPolicy("ips", n_rounds=1, progress=False)
    with pytest.raises(
        MemoryBudgetWarning, match=r"^a memory budget of 1\.0 MB is exceeded: .* up to \d+ MB; pass"
    ) as caught:
        policy.fit(log, memory="1MB")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("room", "n_threads"), [("1.5GB", 1), ("2.5GB", 2), ("9GB", 3)])
def test_fewer_pieces_are_processed_at_once_where_memory_is_scarce(tmp_path, room, n_threads):
    held = int(memory_in_use_mib()) << 20
    machine = ThisMachine(held + parse_bytes(room), n_threads=3, cache=tmp_path)
    machine.reserve(WorkingMemory(shared=0, per_piece=parse_bytes("1GB")))
    assert machine.n_slots == n_threads


@pytest.mark.parametrize("at_once", [1, 100_000])
def test_how_many_rows_are_sent_at_once_changes_no_byte(tmp_path, at_once, monkeypatch):
    log = scanned(write_log(tmp_path / "log.parquet", 2 * GROUP))
    policy = bopl.BoostedPolicy("ips", bopl.HistTree(8, n_jobs=1), n_rounds=2, progress=False, random_state=0)
    policy.fit(log).save(tmp_path / "expected.bopl")
    monkeypatch.setattr(levels, "GATHER_BYTES", at_once)
    policy.fit(log).save(tmp_path / "found.bopl")
    assert (tmp_path / "found.bopl").read_bytes() == (tmp_path / "expected.bopl").read_bytes()


class Parking(ThisMachine):
    """All states of pieces are in the file, and three threads open and park them."""

    def __init__(self, cache):
        super().__init__("1kB", n_threads=3, cache=cache)

    def reserve(self, work):
        """Keep the threads."""


@pytest.mark.slow
def test_states_that_come_and_go_on_several_threads_give_the_same_bytes(tmp_path):
    """Their addresses are those of other states soon: what was kept of them by address was once read, or crashed."""
    write_log(tmp_path / "log.parquet", 300_000)
    log, found = scanned(tmp_path / "log.parquet"), []
    for machine in (ThisMachine("8GB"), *(Parking(tmp_path / "cache") for _ in range(4))):
        policy = bopl.BoostedPolicy("ips", bopl.HistTree(8), n_rounds=6, progress=False, random_state=0)
        with machine:
            policy.fit(log, cluster=machine)
        found.append([one.predictor.tree.to_bytes() for one in policy.ensemble_.rounds])
    assert all(one == found[0] for one in found)
