"""One decision: from a plain dict, from numbers, from a pandas row, and the compiled call that all of them end in.

    python benchmarks/deciding.py [--trees 300] [--samples 20000] [--decisions 2000] [--batch 10000]

All ways take turns on the same records in one run and decide alike, to the last bit. `--batch` also times batches: of
dicts, of a frame, and of the policy's ONNX model that takes the raw columns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from revisions import commit

import bopl
from bopl.learner import default_learner
from bopl.learner.hist_tree.predictor import stack_trees

N_ACTIONS, REPEATS = 10, 5
BLOCK = 50  # decisions of one way before the next has its turn: a pandas row clears the caches
ROLES = {"action": "item", "reward": "click", "propensity": "p"}


def mixed_frame(n_samples: int, seed: int = 0) -> pd.DataFrame:
    """Return a log of 50 context columns: numbers, some with gaps, text, codes, flags and a time."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"number_{k}": rng.normal(size=n_samples) for k in range(20)}
    for k in range(8):
        columns[f"gap_{k}"] = np.where(rng.random(n_samples) < 0.2, np.nan, rng.normal(size=n_samples))
    for k in range(12):
        text = np.array([f"value {code}" for code in range(4 + 4 * k)], dtype=object)[
            rng.integers(0, 4 + 4 * k, n_samples)
        ]
        text[rng.random(n_samples) < 0.05] = None
        columns[f"text_{k}"] = text
    for k in range(9):
        columns[f"flag_{k}"] = rng.random(n_samples) < 0.3
    columns["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n_samples), unit="s")
    best = np.argmax(np.stack([columns[f"number_{k}"] for k in range(N_ACTIONS)]), axis=0)
    item = rng.integers(0, N_ACTIONS, n_samples)
    click = rng.random(n_samples) < np.where(item == best, 0.6, 0.2)
    return pd.DataFrame({**columns, "item": item, "click": click.astype(int), "p": 1.0 / N_ACTIONS})


def as_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a service gets it: None for missing, times as text."""
    plain = {name: None if value is None or value != value else value for name, value in record.items()}
    return {name: value.isoformat() if isinstance(value, pd.Timestamp) else value for name, value in plain.items()}


def compiled_call(policy: bopl.BoostedPolicy) -> Callable[[Any], Any]:
    """Return the compiled scoring of the policy's trees alone."""
    rounds = policy.ensemble_.rounds
    trees = stack_trees([entry.predictor for entry in rounds], [entry.step.size for entry in rounds])

    def call(row: Any) -> Any:
        score = np.zeros((1, N_ACTIONS))
        trees._score_one_by_one(row, 0, 1, score)
        return score

    return call


def time_decisions(policy: bopl.BoostedPolicy, frame: pd.DataFrame, n_decisions: int) -> None:
    contexts = frame.drop(columns=list(ROLES.values())).iloc[:n_decisions]
    rows = [contexts.iloc[[place]] for place in range(len(contexts))]
    records = [as_json(record) for record in contexts.to_dict("records")]
    matrix = policy.schema_.encode(contexts)
    assert matrix.tobytes() == policy.schema_.encode_records(records).tobytes()
    np.testing.assert_array_equal(policy.records_proba(records), policy.predict_proba(contexts))
    compiled = compiled_call(policy)
    ways: dict[str, Callable[[int], Any]] = {
        "compiled call": lambda k: compiled(matrix[k : k + 1]),
        "encode_record": lambda k: policy.schema_.encode_record(records[k]),
        "decide, array": lambda k: policy.decide(matrix[k], draw=0.5),
        "decide, dict": lambda k: policy.decide(records[k], draw=0.5),
        "sample, pandas row": lambda k: policy.sample(rows[k], random_state=0),
    }
    times = {name: np.empty(len(records)) for name in ways}
    for first in range(0, len(records), BLOCK):
        for name, way in ways.items():
            for k in range(first, min(first + BLOCK, len(records))):
                start = time.perf_counter()
                way(k)
                times[name][k] = time.perf_counter() - start
    whole = np.median(times["decide, dict"])
    print("| one decision | median µs | p99 µs | ratio to a dict |\n|---|---:|---:|---:|")
    for name, taken in times.items():
        median = np.median(taken)
        print(f"| {name} | {1e6 * median:.0f} | {1e6 * np.quantile(taken, 0.99):.0f} | {median / whole:.2f} |")


def time_batches(policy: bopl.BoostedPolicy, frame: pd.DataFrame, n_rows: int) -> None:
    import onnxruntime

    from bopl.policy.onnx_raw import raw_inputs

    contexts = frame.drop(columns=list(ROLES.values())).iloc[:n_rows]
    records = [as_json(record) for record in contexts.to_dict("records")]
    with tempfile.TemporaryDirectory() as folder:
        policy.to_onnx(Path(folder) / "policy.onnx", raw=True)
        session = onnxruntime.InferenceSession(Path(folder) / "policy.onnx", providers=["CPUExecutionProvider"])
    inputs = raw_inputs(policy.schema_, contexts)
    ways: dict[str, Callable[[], Any]] = {
        "predict_proba, frame": lambda: policy.predict_proba(contexts),
        "records_proba, dicts": lambda: policy.records_proba(records),
        "ONNX Runtime, raw columns": lambda: session.run(["probability"], inputs),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    first = np.median(times["predict_proba, frame"])
    print(f"\n| batch of {len(contexts)} | s | rows a second | ratio |\n|---|---:|---:|---:|")
    for name, taken in times.items():
        median = np.median(taken)
        print(f"| {name} | {median:.3f} | {len(contexts) / median:,.0f} | {median / first:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--decisions", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=0, help="Also time batches of so many rows.")
    args = parser.parse_args()
    frame = mixed_frame(args.samples)
    log = bopl.BanditLog.from_frame(frame, **ROLES)
    learners = {"depth 8": bopl.HistTree(8, min_child_weight=20.0), "default learner, depth 12": default_learner()}
    for title, learner in learners.items():
        policy = bopl.BoostedPolicy(
            "surrogate", learner, n_rounds=args.trees, reward_translation=-0.3, certificate=False, random_state=0
        ).fit(log)
        leaves = np.mean([entry.predictor.n_leaves for entry in policy.ensemble_.rounds])
        n_columns = len(policy.schema_.columns)
        shape = f"{policy.n_rounds_} trees with {leaves:.0f} leaves, {n_columns} columns, {N_ACTIONS} actions"
        print(f"\ncommit {commit()}, {title}: {shape}\n")
        time_decisions(policy, frame, args.decisions)
        if args.batch:
            time_batches(policy, frame, args.batch)


if __name__ == "__main__":
    main()
