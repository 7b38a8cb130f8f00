"""Beyond one memory and one machine: out of core and Dask beside the fit in memory, and XGBoost's Dask interface.

    python benchmarks/scale.py                  # everything, small: 200,000 rows × 20 × 10
    python benchmarks/scale.py --show limit     # 20 million rows × 30 × 10 under an address-space limit of 3 GiB
    python benchmarks/scale.py --show budgets   # peak memory by memory= budget
    python benchmarks/scale.py --show ratio     # out of core beside memory, with a cold and a warm cache
    python benchmarks/scale.py --show dask      # two workers beside two threads, at 5 million × 20 × 10, depth 8
    python benchmarks/scale.py --show xgboost   # XGBoost's Dask interface: two runs, two numbers of workers
    python benchmarks/scale.py --show wire      # bytes and tasks per round beside the page's formula
    python benchmarks/scale.py --show growth    # a round as rows, columns, bins, depth, actions, threads grow
    python benchmarks/scale.py --show growth --grow workers,depth

Each of them has a size of its own; --rows and the other flags change it (--rows 20e3 to try one).

The log is written as Parquet files first. Every measurement is a process of its own, so peak memory is its own too.
Seconds per round are the median after the first round; "begin" is everything before the first round ended. Workers have
one thread each, the fit in memory has as many threads as there are workers. The same model has the same digest.

Bytes and tasks per round come from the cluster's own counts, of the rounds alone. By the formula a histogram is 8 bytes
for each of H bins, and each thread sends one for about each split of a node with more than 4,096 rows; the number of
these splits, and of the rows that were gathered, is that of the trees that were grown.

XGBoost gets the expanded matrix [x; onehot(a)] of the same files, row groups expanded on the workers, with the gradient
of the first round as labels: the time of its rounds, not the quality of its policy.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from revisions import commit

ROLES = {"action": "action", "reward": "reward", "propensity": "p"}


# -- The log -----------------------------------------------------------------------------------------------------------


def write_log(folder: Path, n_rows: int, n_columns: int, n_actions: int, group_rows: int) -> None:
    """Write a simulated log in files of ten row groups, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, n_rows, 10 * group_rows)):
        writer = None
        for first in range(begin, min(begin + 10 * group_rows, n_rows), group_rows):
            table = pa.table(columns_of(first, min(group_rows, n_rows - first), n_columns, n_actions))
            writer = writer or pq.ParquetWriter(folder / f"part-{number:04}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def columns_of(seed: int, n_rows: int, n_columns: int, n_actions: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    action = rng.integers(0, n_actions, size=n_rows)
    best = np.abs(context[:, :3]).sum(axis=1).astype(np.int64) % n_actions
    reward = rng.random(n_rows) < np.where(action == best, 0.6, 0.2)
    columns = {f"x{idx}": context[:, idx] for idx in range(n_columns)}
    return columns | {"action": action, "reward": reward.astype(np.int8), "p": np.full(n_rows, 1.0 / n_actions)}


# -- One measurement, in a process of its own --------------------------------------------------------------------------


class Clock:
    """A callback that notes when rounds end."""

    def __init__(self) -> None:
        self.began, self.ends = time.perf_counter(), []

    def __call__(self, state):
        from bopl import CallbackAction

        self.ends.append(time.perf_counter())
        return CallbackAction.CONTINUE

    def facts(self) -> dict[str, float]:
        rounds = np.diff(self.ends)
        per_round = float(np.median(rounds)) if len(rounds) else float("nan")
        return {"begin": self.ends[0] - self.began, "per_round": per_round}


def a_policy(options):
    import bopl

    tree = bopl.HistTree(  # saved with it
        options.depth, max_bins=options.bins, min_child_weight=20.0, n_jobs=options.threads
    )
    return bopl.BoostedPolicy("ips", tree, n_rounds=options.rounds, reward_translation=-0.3, random_state=0)


def facts_of(policy, clock: Clock) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.bopl"
        policy.save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return clock.facts() | {"digest": digest}


def scanned(options):
    import bopl

    return bopl.BanditLog.scan_parquet(f"{options.folder}/*.parquet", **ROLES)


def measure_memory(options) -> dict:
    clock = Clock()
    policy = a_policy(options).fit(scanned(options).to_log(), callbacks=[clock])
    return facts_of(policy, clock)


def measure_pieces(options) -> dict:
    from bopl.cluster import ThisMachine

    with recording(ThisMachine, options.memory, n_threads=options.workers) as cluster:
        clock = Clock()
        policy = a_policy(options).fit(scanned(options), cluster=cluster, callbacks=[clock])
        return facts_of(policy, clock) | cluster.facts(options.rounds)


def measure_dask(options) -> dict:
    from bopl._machine import peak_memory_mib
    from bopl.cluster.dask import DaskCluster

    with a_client(options) as client, recording(DaskCluster, client) as cluster:
        clock = Clock()
        policy = a_policy(options).fit(scanned(options), cluster=cluster, callbacks=[clock])
        peak = max(client.run(peak_memory_mib).values())
        return facts_of(policy, clock) | cluster.facts(options.rounds) | {"worker_peak": peak}


def measure_xgboost(options) -> dict:
    import dask
    import dask.array as da
    import pyarrow.parquet as pq
    from xgboost import dask as dxgb

    from bopl._machine import peak_memory_mib

    groups = [
        (str(path), idx, pq.ParquetFile(path).metadata.row_group(idx).num_rows)
        for path in sorted(Path(options.folder).glob("*.parquet"))
        for idx in range(pq.ParquetFile(path).num_row_groups)
    ]
    width = options.columns + options.actions
    with a_client(options) as client:
        began = time.perf_counter()
        parts = [dask.delayed(expanded, nout=2)(path, idx, options.actions) for path, idx, _ in groups]
        sizes = [n_rows * options.actions for *_, n_rows in groups]
        x = da.concatenate(
            [da.from_delayed(one[0], (n, width), np.float32) for one, n in zip(parts, sizes, strict=True)]
        )
        y = da.concatenate([da.from_delayed(one[1], (n,), np.float32) for one, n in zip(parts, sizes, strict=True)])
        matrix = dxgb.DaskDMatrix(client, x, y)
        settings = {"tree_method": "hist", "max_depth": options.depth, "min_child_weight": 20.0, "nthread": 1}
        settings |= {"eta": 1.0, "objective": "reg:squarederror", "seed": 0}
        timed = []
        for n_rounds in (1, 1, options.rounds):  # the first makes the matrix
            begin = time.perf_counter()
            booster = dxgb.train(client, settings, matrix, num_boost_round=n_rounds)["booster"]
            timed.append(time.perf_counter() - begin)
        digest = hashlib.sha256(booster.save_raw("json")).hexdigest()[:12]
        return {
            "begin": begin - began,
            "per_round": (timed[2] - timed[1]) / max(options.rounds - 1, 1),
            "digest": digest,
            "worker_peak": max(client.run(peak_memory_mib).values()),
        }


def expanded(path: str, row_group: int, n_actions: int):
    """Return the rows of a row group, one for every action, and the gradient of the first round."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read_row_group(row_group).to_pandas()
    context = table[[name for name in table if name.startswith("x")]].to_numpy(np.float32)
    n_rows = len(context)
    x = np.hstack([np.repeat(context, n_actions, axis=0), np.tile(np.eye(n_actions, dtype=np.float32), (n_rows, 1))])
    gain = ((table["reward"] - 0.3) / table["p"]).to_numpy() / n_actions
    chosen = np.arange(n_actions) == table["action"].to_numpy()[:, None]
    return x, (gain[:, None] * (chosen - 1.0 / n_actions)).astype(np.float32).ravel()


def recording(kind, *arguments, **settings):
    """Return a cluster that keeps what it placed."""

    from bopl.learner.hist_tree.wave import Wave

    class Recording(kind):
        placements = ()
        n_histograms = n_bins = n_gathered = n_gradients = 0

        def place(self, *given, **named):
            placed = super().place(*given, **named)
            self.placements = (*self.placements, placed)
            pass_over = placed.update_reduce

            def counted(function, *shared, **settings):
                answer = pass_over(function, *shared, **settings)
                if shared and isinstance(shared[0], Wave):
                    self.note(shared[0], answer)
                return answer

            placed.update_reduce = counted
            return placed

        def note(self, wave, answer) -> None:
            self.n_histograms += wave.n_histograms
            self.n_bins = max(self.n_bins, answer.counts.packed.shape[1])
            self.n_gathered += sum(int(rows.counts.sum()) for rows in answer.rows.values())
            self.n_gradients += sum(len(rows.gradient) for rows in answer.rows.values())

        def facts(self, n_rounds: int) -> dict:
            traffic = self.placements[-1].traffic  # of the rounds; the placements before found the bins
            return {
                "histogram_bytes": 8 * self.n_bins * self.n_histograms / n_rounds,  # of one thread
                "gathered_rows": self.n_gathered / n_rounds,
                "gathered_gradients": self.n_gradients / n_rounds,
                "bytes": traffic.n_bytes / n_rounds,
                "sent": traffic.n_sent / n_rounds,
                "tasks": traffic.n_tasks / n_rounds,
                "passes": traffic.n_passes / n_rounds,
                "waiting": traffic.waiting_share,
            }

    return Recording(*arguments, **settings)


def a_client(options):
    """Return a client that owns a cluster of single-thread workers."""
    from distributed import Client

    return Client(
        n_workers=options.workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
        memory_limit=0,
        set_as_default=True,
    )


MEASURES = {"memory": measure_memory, "pieces": measure_pieces, "dask": measure_dask, "xgboost": measure_xgboost}


def measured(options) -> dict:
    """Measure one way, here."""
    from bopl._machine import peak_memory_mib
    from bopl.cluster import parse_bytes

    if options.address_space:
        limit = parse_bytes(options.address_space)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    began = time.perf_counter()
    facts = MEASURES[options.measure](options)
    facts |= {"seconds": time.perf_counter() - began, "peak": peak_memory_mib(), "workers": options.workers}
    return facts


# -- The table ---------------------------------------------------------------------------------------------------------


def run(options, measure: str, cache: Path, **changes) -> dict:
    """Measure one way in a process of its own."""
    settings = vars(options) | {"measure": measure} | changes
    command = [sys.executable, __file__, "--settings", json.dumps(settings)]
    env = os.environ | {"BOPL_CACHE": str(cache)}
    if options.address_space:
        # Addresses that libraries reserve without using them: a GiB by arrow's allocator, 64 MiB a thread by malloc,
        # buffers of a BLAS thread for every core.
        env |= {
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "MALLOC_ARENA_MAX": "2",
            "NUMBA_NUM_THREADS": str(options.workers),
        }
        env |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1][:100]}
    return json.loads(done.stdout.splitlines()[-1])


#: What must be shown, each with the size that it is shown at.
SHOWN = {
    "limit": {
        "rows": 20e6,
        "columns": 30,
        "rounds": 20,
        "only": "pieces",
        "memory": "2GB",
        "address_space": "3GiB",
        "workers": 1,
    },
    "budgets": {"rows": 5e6, "columns": 30, "rounds": 3, "only": "memory,pieces", "budgets": "500MB,1GB,2GB,4GB"},
    "ratio": {"rows": 2e6, "only": "memory,pieces"},
    "dask": {"rows": 5e6, "columns": 20, "depth": 8, "only": "memory,dask"},
    "xgboost": {"rows": 1e6, "only": "dask,xgboost"},
    "wire": {"rows": 1e6, "only": "dask"},
    "growth": {"rows": 400e3, "row_group": 25_000, "rounds": 6},
}
#: What `--show growth` changes, one at a time.
GROWTH = {
    "rows": (100_000, 200_000, 800_000),
    "columns": (5, 10, 40, 80),
    "bins": (16, 64, 128),
    "depth": (4, 6, 10, 12),
    "actions": (2, 5, 20, 50),
    "workers": (1, 4, 8),
}
COLUMNS = (
    "begin s",
    "s/round",
    "ratio",
    "peak MiB",
    "MB/round",
    "by formula",
    "passes/round",
    "tasks/round",
    "waiting",
    "digest",
)
DEFAULTS = {
    "rows": 200e3,
    "columns": 20,
    "actions": 10,
    "depth": 8,
    "bins": 256,
    "rounds": 5,
    "workers": 2,
    "row_group": 100_000,
    "only": "memory,pieces,dask,xgboost",
    "budgets": "",
    "memory": None,
    "address_space": None,
}


def rows_of(options, cache: Path):
    """Yield the name of each measurement and what came of it."""
    only = options.only.split(",")
    if "memory" in only:
        yield f"in memory, {options.workers} threads", run(options, "memory", cache)
    if "pieces" in only:
        yield "pieces, cold cache", run(options, "pieces", cache)
        yield "pieces, warm cache", run(options, "pieces", cache)
        for budget in filter(None, options.budgets.split(",")):
            yield f"pieces, memory={budget}", run(options, "pieces", cache, memory=budget)
    counts = sorted({1, options.workers})
    for measure in ("dask", "xgboost"):
        if measure in only:
            for n_workers in counts:
                yield f"{measure}, {n_workers} workers", run(options, measure, cache, workers=n_workers)
    if "xgboost" in only:
        yield f"xgboost, {options.workers} workers, again", run(options, "xgboost", cache)


def print_growth(options, temporary: Path) -> None:
    """Print a round over pieces beside one in memory, as each size grows while the others stay as they are."""
    usual = {name: int(getattr(options, name)) for name in GROWTH}
    print("| what | s/round in memory | s/round over pieces | MB/round | by formula | passes/round |")
    print("|---|---:|---:|---:|---:|---:|")
    chosen = {name: GROWTH[name] for name in options.grow.split(",")}
    for name, value in [("", 0), *((name, value) for name, values in chosen.items() for value in values)]:
        sizes = usual | ({name: value} if name else {})
        folder = temporary / "-".join(str(sizes[one]) for one in ("rows", "columns", "actions"))
        if not folder.is_dir():
            write_log(folder, sizes["rows"], sizes["columns"], sizes["actions"], options.row_group)
        changes = sizes | {"folder": str(folder), "threads": sizes["workers"]}
        memory, pieces = (run(options, measure, temporary / "cache", **changes) for measure in ("memory", "pieces"))
        if "error" in memory or "error" in pieces:
            print(f"| {name} {value:,} | {memory.get('error')} | {pieces.get('error')} |", flush=True)
            continue
        assert memory["digest"] == pieces["digest"], "one model"
        what = f"{'threads' if name == 'workers' else name} {value:,}" if name else "as above"
        by_formula = formula_text(pieces, argparse.Namespace(**vars(options) | sizes))
        print(
            f"| {what} | {memory['per_round']:.3f} | {pieces['per_round']:.3f} | {pieces['bytes'] / 1e6:.2f} | "
            f"{by_formula} | {pieces['passes']:.1f} |",
            flush=True,
        )


def print_row(name: str, facts: dict, baseline: dict | None, options) -> None:
    if "error" in facts:
        print(f"| {name} | {facts['error']} |")
        return
    ratio = facts["per_round"] / baseline["per_round"] if baseline and "per_round" in baseline else float("nan")
    peak = max(facts["peak"], facts.get("worker_peak", 0.0))
    traffic = [f"{facts[key]:.{digits}f}" if key in facts else "" for key, digits in (("passes", 1), ("tasks", 1))]
    sent = f"{facts['bytes'] / 1e6:.2f}" if "bytes" in facts else ""
    waiting = f"{facts['waiting']:.0%}" if "waiting" in facts else ""
    print(
        f"| {name} | {facts['begin']:.1f} | {facts['per_round']:.3f} | {ratio:.2f} | {peak:.0f} | {sent} | "
        f"{formula_text(facts, options)} | {' | '.join(traffic)} | {waiting} | {facts['digest']} |",
        flush=True,
    )


def formula_text(facts: dict, options) -> str:
    """Return the bytes that the page's formula gives for the splits that were made, in MB."""
    if "histogram_bytes" not in facts:
        return ""
    rows = facts["gathered_rows"] * (3 * options.columns + 8) + 8 * facts["gathered_gradients"]
    return f"{(facts['histogram_bytes'] * facts['workers'] + rows) / 1e6:.2f}"


def print_verdicts(found: dict[str, dict]) -> None:
    """Print whether models are the same, and the ratios that the page promises."""
    fine = {name: facts for name, facts in found.items() if "error" not in facts}
    for measure, whose in (("", "bopl"), ("xgboost", "XGBoost")):
        digests = {facts["digest"] for name, facts in fine.items() if name.startswith("xgboost") == bool(measure)}
        if digests:
            print(
                f"{whose}: {'the same model everywhere' if len(digests) == 1 else f'{len(digests)} different models'}."
            )
    memory = next((facts for name, facts in fine.items() if name.startswith("in memory")), None)
    for name, most in (("pieces, warm cache", 2.0), ("dask, 2 workers", 1.7)):
        if memory is not None and name in fine:
            ratio = fine[name]["per_round"] / memory["per_round"]
            print(f"{name}: {ratio:.2f} times a round in memory; at most {most:g} is promised.")


def print_formulas(options, n_rows: int, commit: str) -> None:
    """Print what the page on scale says of such a log."""
    state, histogram = 3 * options.columns + 28 * options.actions + 40, 8 * 256 * options.columns
    whole = 7 * options.columns + 24 * options.actions + 40
    splits = 2**options.depth - 1
    print(f"{n_rows:,} rows × {options.columns} × {options.actions} actions, depth {options.depth}, commit {commit}")
    print(f"By the formulas: a state takes {state} bytes a row, {state * n_rows / 1e6:.0f} MB in all; in memory a row")
    print(f"takes {whole} bytes, {whole * n_rows / 1e6:.0f} MB in all, beside the table it is read from. A histogram")
    print(f"takes {histogram / 1e6:.3f} MB at most; {splits} splits: {splits * histogram / 1e6:.1f} MB per thread.\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", choices=SHOWN, help="one of what must be shown, at its size")
    parser.add_argument("--rows", type=float)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--actions", type=int)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--bins", type=int, help="most bins of a column")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--row-group", type=int)
    parser.add_argument("--only", help="what to measure: memory,pieces,dask,xgboost")
    parser.add_argument("--grow", default=",".join(GROWTH), help="what grows, with --show growth")
    parser.add_argument("--budgets", help="memory budgets for pieces, as 1GB,2GB")
    parser.add_argument("--memory", help="memory budget of every fit of pieces")
    parser.add_argument("--address-space", help="limit of each process, as 3GiB")
    parser.add_argument("--folder", default=None, help="keep the files of the log here, and find them there again")
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.settings:
        print(json.dumps(measured(argparse.Namespace(**json.loads(options.settings)))))
        return
    for name, value in (DEFAULTS | SHOWN.get(options.show, {})).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    n_rows, options.threads = int(options.rows), options.workers
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or f"{temporary}/log"
        if not Path(options.folder).is_dir():
            write_log(Path(options.folder), n_rows, options.columns, options.actions, options.row_group)
        print_formulas(options, n_rows, commit())
        if options.show == "growth":
            print_growth(options, Path(temporary))
            return
        print("| " + " | ".join(["", *COLUMNS]) + " |")
        print("|---|" + "---:|" * (len(COLUMNS) - 1) + "---|")
        baseline, found = None, {}
        for name, facts in rows_of(options, Path(temporary) / "cache"):
            baseline = facts if name.startswith("in memory") else baseline
            found[name] = facts
            print_row(name, facts, baseline, options)
        print()
        print_verdicts(found)


if __name__ == "__main__":
    main()
