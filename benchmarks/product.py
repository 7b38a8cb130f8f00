"""From a Parquet file to the report in one ``bopl train``: time and memory of every step.

    python benchmarks/product.py                      # 1,000,000 rows of 50 mixed columns
    python benchmarks/product.py --rows 100000 -- --rounds 50

What follows ``--`` goes to ``bopl train``. The run is a process of its own; its peak memory is the system's count for
that process, beside the peaks that the run noted itself.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from engine import commit

LIMIT_MIB = 4096
CHUNK_ROWS = 100_000
N_ACTIONS = 10
N_NUMBERS, N_WHOLE, N_TEXTS, N_FLAGS = 25, 10, 10, 4  # and one time: fifty context columns
CITIES = np.array([f"city {number:04d}" for number in range(2000)])  # more than there are bins


def make_chunk(rng: np.random.Generator, n_rows: int, start: int) -> pa.Table:
    """Return some rows of the log: what earns depends on numbers, text, flags and the hour."""
    number = rng.normal(size=(n_rows, N_NUMBERS)).astype(np.float32)
    number[rng.random(number.shape) < 0.05] = np.nan
    whole = rng.integers(0, 100, size=(n_rows, N_WHOLE))
    text = np.minimum(rng.geometric(0.01, size=(n_rows, N_TEXTS)), len(CITIES)) - 1
    text[:, 1:] %= 12
    flag = rng.random((n_rows, N_FLAGS)) < 0.3
    second = start + np.arange(n_rows)
    utility = rng.normal(scale=0.1, size=(n_rows, N_ACTIONS))
    utility[:, 0] += np.nan_to_num(number[:, 0])
    utility[:, 1] += whole[:, 0] > 50
    utility[:, 2] += text[:, 0] < 20
    utility[:, 3] += flag[:, 0] * (np.nan_to_num(number[:, 1]) > 0)
    utility[:, 4] += (second // 3600 % 24) > 18
    prob = np.exp(0.5 * utility)
    prob = 0.8 * prob / prob.sum(axis=1, keepdims=True) + 0.2 / N_ACTIONS
    action = (prob.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1).clip(0, N_ACTIONS - 1)
    chosen = np.arange(n_rows), action
    columns: dict[str, object] = {f"number_{i}": number[:, i] for i in range(N_NUMBERS)}
    columns |= {f"whole_{i}": whole[:, i] for i in range(N_WHOLE)}
    columns |= {f"text_{i}": CITIES[text[:, i]] for i in range(N_TEXTS)}
    columns |= {f"flag_{i}": flag[:, i] for i in range(N_FLAGS)}
    columns["time"] = np.datetime64("2024-01-01T00:00:00") + second
    columns["item"] = np.array([f"item {i}" for i in range(N_ACTIONS)])[action]
    columns["click"] = (rng.random(n_rows) < 1 / (1 + np.exp(2.5 - 2 * utility[chosen]))).astype(np.int8)
    columns["p"] = prob[chosen]
    return pa.table(columns)


def write_log(path: Path, n_rows: int) -> None:
    """Write the log chunk by chunk: making it must not need the memory that reading it is measured by."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, n_rows, CHUNK_ROWS):
        table = make_chunk(rng, min(CHUNK_ROWS, n_rows - start), start)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def run_train(log: Path, folder: Path, more: list[str]) -> tuple[dict[str, object], float]:
    """Run the command once; return what it printed and how long it took."""
    roles = ["--action", "item", "--reward", "click", "--propensity", "p"]
    command = [sys.executable, "-m", "bopl", "train", str(log), *roles, "--out", str(folder / "policy.bopl"), "--json"]
    start = time.perf_counter()
    done = subprocess.run([*command, *more], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to keep the log and the run; nowhere by default")
    parser.add_argument("more", nargs="*", help="for bopl train, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "log.parquet"
        write_log(log, options.rows)
        result, seconds = run_train(log, folder, options.more)
    if "error" in result:
        raise SystemExit(f"bopl train: {result['error']}")
    print(f"commit {commit()}, {os.cpu_count()} processors, {options.rows:,} rows × 50 context columns")
    for step in result["steps"]:  # type: ignore[attr-defined]
        print(f"  {step['step']:<12} {step['seconds']:8.1f} s {step['peak_mib']:8.0f} MiB")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    noted = max(step["peak_mib"] for step in result["steps"])  # type: ignore[attr-defined]
    print(f"  {'all':<12} {seconds:8.1f} s {max(peak, noted):8.0f} MiB")
    print(f"{result['verdict']} ({result['estimator']}): {result['reason']}")
    print(f"peak memory {'under' if max(peak, noted) < LIMIT_MIB else 'ABOVE'} {LIMIT_MIB} MiB")
    raise SystemExit(max(peak, noted) >= LIMIT_MIB)


if __name__ == "__main__":
    main()
