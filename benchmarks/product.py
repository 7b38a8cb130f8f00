"""From a Parquet file to the report in one ``bopl train``: time and memory of every step.

    python benchmarks/product.py                      # 1,000,000 rows of 50 mixed columns
    python benchmarks/product.py --rows 100000 -- --include regression
    python benchmarks/product.py --against            # beside the command of commit 1c121d3, in the same run
    python benchmarks/product.py --against v1.0 --rows 100000

What follows ``--`` goes to ``bopl train``, of this commit only. A run is a process of its own; its peak memory is the
system's count for that process, beside the peaks that the run noted itself.

With ``--against`` another commit is checked out into a temporary worktree, and its command is run first, on the same
file. Both are run once on a few rows before, so that neither compiles while it is measured. Then each policy acts on
fresh contexts of the generator, which knows how likely every action is to be clicked there: the mean of that, for the
most probable action and for actions as they are drawn, is the policy's true reward. Each policy is read by the code
that wrote it, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from revisions import commit, environment_of, worktree

BEFORE = "1c121d3"  # the last commit whose `bopl train` made one policy, without a race
MAX_SHARE_OF_TIME = 1 / 3  # of the command before, that the command may take
LIMIT_MIB = 4096
CHUNK_ROWS = 100_000
WARM_UP_ROWS = 3_000
N_ACTIONS = 10
N_NUMBERS, N_WHOLE, N_TEXTS, N_FLAGS = 25, 10, 10, 4  # and one time: fifty context columns
CITIES = np.array([f"city {number:04d}" for number in range(2000)])  # more than there are bins
ITEMS = np.array([f"item {i}" for i in range(N_ACTIONS)])
ROLES = ["--action", "item", "--reward", "click", "--propensity", "p"]


# -- The log -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Contexts, and how likely every action is to be taken and to be clicked there (both rows × actions)."""

    context: dict[str, object]
    logging_prob: np.ndarray
    click_prob: np.ndarray


def draw_rows(rng: np.random.Generator, second: np.ndarray) -> Rows:
    """Return the rows of some points in time: what earns depends on numbers, text, flags and the hour."""
    n_rows = len(second)
    number = rng.normal(size=(n_rows, N_NUMBERS)).astype(np.float32)
    number[rng.random(number.shape) < 0.05] = np.nan
    whole = rng.integers(0, 100, size=(n_rows, N_WHOLE))
    text = np.minimum(rng.geometric(0.01, size=(n_rows, N_TEXTS)), len(CITIES)) - 1
    text[:, 1:] %= 12
    flag = rng.random((n_rows, N_FLAGS)) < 0.3
    utility = rng.normal(scale=0.1, size=(n_rows, N_ACTIONS))
    utility[:, 0] += np.nan_to_num(number[:, 0])
    utility[:, 1] += whole[:, 0] > 50
    utility[:, 2] += text[:, 0] < 20
    utility[:, 3] += flag[:, 0] * (np.nan_to_num(number[:, 1]) > 0)
    utility[:, 4] += (second // 3600 % 24) > 18
    prob = np.exp(0.5 * utility)
    prob = 0.8 * prob / prob.sum(axis=1, keepdims=True) + 0.2 / N_ACTIONS
    columns: dict[str, object] = {f"number_{i}": number[:, i] for i in range(N_NUMBERS)}
    columns |= {f"whole_{i}": whole[:, i] for i in range(N_WHOLE)}
    columns |= {f"text_{i}": CITIES[text[:, i]] for i in range(N_TEXTS)}
    columns |= {f"flag_{i}": flag[:, i] for i in range(N_FLAGS)}
    columns["time"] = np.datetime64("2024-01-01T00:00:00") + second
    return Rows(columns, prob, 1 / (1 + np.exp(2.5 - 2 * utility)))


def make_chunk(rng: np.random.Generator, n_rows: int, start: int) -> pa.Table:
    """Return some rows of the log, with an action drawn by the logging policy and whether it was clicked."""
    rows = draw_rows(rng, start + np.arange(n_rows))
    action = (rows.logging_prob.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1).clip(0, N_ACTIONS - 1)
    chosen = np.arange(n_rows), action
    click = (rng.random(n_rows) < rows.click_prob[chosen]).astype(np.int8)
    return pa.table(rows.context | {"item": ITEMS[action], "click": click, "p": rows.logging_prob[chosen]})


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


# -- One command -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one ``bopl train`` printed, took and needed."""

    name: str
    result: dict
    seconds: float
    mib: float

    @property
    def peak_mib(self) -> float:
        """Peak memory: the system's count, or what the run noted itself if that is more."""
        return max(self.mib, *(step["peak_mib"] for step in self.result["steps"]))


def run_train(name: str, log: Path, folder: Path, more: list[str], code: Path | None = None) -> Run:
    """Run the command once, in a process whose memory is its own."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bopl", "train", str(log), *ROLES, "--out", str(folder / "policy.bopl"), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, text=True, cwd=folder, env=environment_of(code)
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    result = json.loads(printed)
    if "error" in result:
        raise SystemExit(f"bopl train, {name}: {result['error']}")
    return Run(name, result, seconds, usage.ru_maxrss / 1024)


def show(run: Run) -> None:
    for step in run.result["steps"]:
        print(f"  {step['step']:<12} {step['seconds']:8.1f} s {step['peak_mib']:8.0f} MiB")
    print(f"  {'all':<12} {run.seconds:8.1f} s {run.peak_mib:8.0f} MiB")
    print(f"{run.result['verdict']} ({run.result['estimator']}): {run.result['reason']}", flush=True)


# -- Beside another commit ---------------------------------------------------------------------------------------------

SCORE = """
import sys
import numpy as np, pyarrow.parquet as pq
import bopl
policy = bopl.load(sys.argv[1])
prob = policy.predict_proba(pq.read_table(sys.argv[2]))
np.savez(sys.argv[3], prob=prob, actions=np.asarray(policy.actions_).astype(str), code=bopl.__file__)
"""


def act(policy: Path, contexts: Path, code: Path | None) -> np.ndarray:
    """Return a policy's probabilities, actions in the order of `ITEMS`, from a process with the code that wrote it."""
    found = policy.with_suffix(".npz")
    command = [sys.executable, "-c", SCORE, str(policy), str(contexts), str(found)]
    subprocess.run(command, check=True, cwd=policy.parent, env=environment_of(code))
    with np.load(found) as arrays:
        if code is not None and not Path(str(arrays["code"])).is_relative_to(code):
            raise SystemExit(f"the policy was read by {arrays['code']}, not by the code in {code}")
        place = {label: column for column, label in enumerate(arrays["actions"].tolist())}
        return arrays["prob"][:, [place[item] for item in ITEMS]]


def rates(prob: np.ndarray, click_prob: np.ndarray) -> dict[str, np.ndarray]:
    """Return the click rates of a policy on every fresh context: of its most probable action, and of a drawn one."""
    greedy = click_prob[np.arange(len(prob)), prob.argmax(axis=1)]
    return {"greedy": greedy, "as drawn": (prob * click_prob).sum(axis=1)}


def compare(before: Run, after: Run, probs: list[np.ndarray], rows: Rows) -> None:
    """Print time, memory and true reward of both, and whether the goals are reached."""
    share, memory = after.seconds / before.seconds, after.peak_mib / before.peak_mib
    print(f"\n| | {before.name} | {after.name} | ratio | |\n|---|---:|---:|---:|---|")
    reached = "reached" if share <= MAX_SHARE_OF_TIME else f"MISSED: at most {MAX_SHARE_OF_TIME:.2f}"
    print(f"| seconds | {before.seconds:.1f} | {after.seconds:.1f} | {share:.2f} | {reached} |")
    reached = "reached" if memory <= 1.0 else "MISSED: no more than before"
    print(f"| peak MiB | {before.peak_mib:.0f} | {after.peak_mib:.0f} | {memory:.2f} | {reached} |")
    old, new = (rates(prob, rows.click_prob) for prob in probs)
    for how in old:
        gap = new[how] - old[how]
        std_err = float(gap.std(ddof=1)) / np.sqrt(len(gap))
        reached = f"difference {gap.mean():+.4f} ± {1.96 * std_err:.4f}"
        reached += ", reached" if gap.mean() >= 0.0 else ", MISSED: at least as high"
        ratio = new[how].mean() / old[how].mean()
        print(f"| true click rate, {how} | {old[how].mean():.4f} | {new[how].mean():.4f} | {ratio:.3f} | {reached} |")
    logging = rates(rows.logging_prob, rows.click_prob)
    drawn, greedy, best = (one.mean() for one in (*reversed(logging.values()), rows.click_prob.max(axis=1)))
    print(
        f"\n{len(rows.click_prob):,} fresh contexts, on which the logging policy earns {drawn:.4f}, its most probable"
    )
    print(f"action {greedy:.4f} and the best action {best:.4f} (both know what the context does not show).")


def run_both(options: argparse.Namespace, log: Path, folder: Path) -> Run:
    """Run the command of another commit and then this one's on the same file; compare them."""
    small = folder / "warm_up.parquet"
    write_log(small, WARM_UP_ROWS)
    rng = np.random.default_rng(1)
    rows = draw_rows(rng, np.sort(rng.integers(0, options.rows, size=options.fresh)))
    pq.write_table(pa.table(rows.context), folder / "fresh.parquet")
    with tempfile.TemporaryDirectory() as temporary, worktree(options.against, Path(temporary) / "code") as checkout:
        code = checkout / "src"
        run_train(f"{options.against}, warming up", small, folder / "warm_up_before", [], code)
        run_train("warming up", small, folder / "warm_up", options.more)
        before = run_train(options.against, log, folder / "before", [], code)
        print(f"{options.against}:")
        show(before)
        after = run_train(commit(), log, folder / "after", options.more)
        print(f"{commit()}:")
        show(after)
        probs = [
            act(folder / name / "policy.bopl", folder / "fresh.parquet", where)
            for name, where in (("before", code), ("after", None))
        ]
    compare(before, after, probs, rows)
    return after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to keep the log and the run; nowhere by default")
    parser.add_argument("--against", nargs="?", const=BEFORE, metavar="REV", help=f"commit; {BEFORE} if none is named")
    parser.add_argument("--fresh", type=int, default=100_000, help="contexts on which policies are compared")
    parser.add_argument("more", nargs="*", help="for bopl train, after --")
    options = parser.parse_args()
    print(f"commit {commit()}, {os.cpu_count()} processors, {options.rows:,} rows × 50 context columns", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "log.parquet"
        write_log(log, options.rows)
        if options.against is None:
            run = run_train(commit(), log, folder, options.more)
            show(run)
        else:
            run = run_both(options, log, folder)
    print(f"peak memory {'under' if run.peak_mib < LIMIT_MIB else 'ABOVE'} {LIMIT_MIB} MiB")
    raise SystemExit(run.peak_mib >= LIMIT_MIB)


if __name__ == "__main__":
    main()
