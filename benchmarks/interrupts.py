"""Stop ``bopl train`` at random moments with SIGKILL, SIGTERM and SIGINT, and look at what it leaves.

An old policy lies in the run folder. After every stop the folder and the file asked for must hold the old policy or a
new one, whole; then the same command runs to its end, and must write the policy that a run without a stop writes.

    python benchmarks/interrupts.py --moments 100
    python benchmarks/interrupts.py --moments 100 --jobs 16     # the moments divided among processes
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bopl
from bopl.cli import main
from bopl.workflow import checkpoints

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
RUNS = {
    "single objective": ("--objective", "dr", "--n-rounds", "40", "--max-depth", "4"),
    "race": ("--include", "regression,ips"),
}
PATIENCE = 300.0  # seconds after which a run hangs


@dataclass
class Tally:
    """What became of the runs that one signal stopped."""

    left: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def write_log(path: Path, n_samples: int = 1200, seed: int = 0) -> None:
    """Write a log with a signal worth finding."""
    rng = np.random.default_rng(seed)
    context, action = rng.normal(size=(n_samples, 3)), rng.integers(0, 3, n_samples)
    best = np.where(context[:, 0] > 0, 0, np.where(context[:, 1] > 0, 1, 2))
    click = rng.random(n_samples) < 0.2 + 0.5 * (action == best)
    columns = {f"x{k}": context[:, k] for k in range(3)}
    pq.write_table(
        pa.table({**columns, "item": action, "click": click.astype(int), "p": np.full(n_samples, 1 / 3)}), path
    )


def command(folder: Path, settings: tuple[str, ...]) -> list[str]:
    """Return the words of ``bopl train``."""
    roles = ("--action", "item", "--reward", "click", "--propensity", "p", "--n-jobs", "1")
    return ["train", str(folder / "log.parquet"), *roles, *settings, "--out", str(folder / "policy.bopl")]


def begin(words: list[str]) -> int:
    """Run the command in a child that has everything imported, and return its process."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 71
    except KeyboardInterrupt:  # before the command began, or after it had ended
        code = 130
    finally:
        os._exit(code)


def end_of(process: int) -> int | None:
    """Return how a child ended: its exit code, minus its signal, or None if it hangs."""
    stop_at = time.monotonic() + PATIENCE
    while time.monotonic() < stop_at:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def state_of(folder: Path) -> str | None:
    """Return what lies in the run folder, or None if something there is not whole."""
    run = folder / "policy.run"
    with contextlib.suppress(Exception):
        bopl.load(folder / "policy.bopl")
        bopl.load(run / "policy.bopl")
        for name in ("run.json", "summary.json"):
            if (run / name).exists():
                json.loads((run / name).read_text())
        is_old = (run / "policy.bopl").read_bytes() == (folder / "old.run" / "policy.bopl").read_bytes()
        if is_old:
            parts = ("config.toml", "history.csv", "report.html")
            is_whole = all((run / one).read_bytes() == (folder / "old.run" / one).read_bytes() for one in parts)
            return "old" if is_whole else None
        return "new" if (run / "summary.json").exists() else "new, no verdict"
    return None


def put_old_back(folder: Path) -> None:
    """Let the old policy lie there again."""
    shutil.rmtree(folder / "policy.run", ignore_errors=True)
    shutil.copytree(folder / "old.run", folder / "policy.run")
    shutil.copy(folder / "old.bopl", folder / "policy.bopl")


def stop_once(folder: Path, words: list[str], number: signal.Signals, after: float, tally: Tally) -> None:
    """Stop a run some time after its begin, look at what it left, and run the command again."""
    put_old_back(folder)
    process = begin(words)
    time.sleep(after)
    os.kill(process, number)
    code, left = end_of(process), state_of(folder)
    tally.left[left or "broken"] += 1
    where = f"{number.name} after {after:.3f} s"
    if left is None:
        tally.faults.append(f"{where}: the folder is broken")
    is_early = code == -number and left == "old"  # before the command listened: a shell says 143 or 130 all the same
    if code not in (CODES[number], 0, 4) and not is_early:  # 0 and 4: it had come to its verdict
        tally.faults.append(f"{where}: ended with {code}")
    again = end_of(begin(words))
    if again not in (0, 4):
        tally.faults.append(f"{where}: the next run ended with {again}")
    elif (folder / "policy.bopl").read_bytes() != (folder / "new.bopl").read_bytes():
        tally.faults.append(f"{where}: the next run made another policy")
    rest = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
    if rest or any(path.name.startswith(".") for path in (folder / "policy.run").iterdir()):
        tally.faults.append(f"{where}: something was left behind: {rest}")


def prepare(folder: Path, settings: tuple[str, ...]) -> float:
    """Make the old policy and the one to come; return how long a run takes."""
    words = command(folder, settings)
    for name, more in (("old", ("--random-state", "7")), ("new", ()), ("new", ())):
        began = time.monotonic()
        code = end_of(begin([*words, *more]))
        if code not in (0, 4):
            raise RuntimeError(f"a run without a stop ended with {code}")
        seconds = time.monotonic() - began
        shutil.copy(folder / "policy.bopl", folder / f"{name}.bopl")
        if name == "old":
            (folder / "policy.run").rename(folder / "old.run")
    return seconds


def measure(name: str, n_moments: int, seed: int, folder: Path) -> dict[str, Tally]:
    """Return what became of one kind of run, by signal."""
    write_log(folder / "log.parquet")
    seconds = prepare(folder, RUNS[name])
    moments, found = random.Random(seed), {}
    for number in SIGNALS:
        tally = found[number.name] = Tally()
        for _ in range(n_moments):
            after = moments.uniform(0.0, 1.1 * seconds)
            stop_once(folder, command(folder, RUNS[name]), number, after, tally)
    return found


def measure_apart(name: str, n_moments: int, seed: int, n_jobs: int) -> dict[str, Tally]:
    """Return the same, with the moments divided among processes that know nothing of each other."""
    shares = [n_moments // n_jobs + (job < n_moments % n_jobs) for job in range(n_jobs)]
    words = [sys.executable, __file__, "--only", name, "--json"]
    processes = [
        subprocess.Popen(
            [*words, "--moments", str(share), "--seed", str(1000 * seed + job)], stdout=subprocess.PIPE, text=True
        )
        for job, share in enumerate(shares)
        if share
    ]
    found = {number.name: Tally() for number in SIGNALS}
    for process in processes:
        printed, _ = process.communicate()
        if process.returncode not in (0, 1):
            raise RuntimeError(f"a process that stops runs has failed with {process.returncode}")
        for signal_name, one in json.loads(printed).items():
            found[signal_name].left.update(one["left"])
            found[signal_name].faults += one["faults"]
    return found


def row_of(name: str, signal_name: str, tally: Tally) -> str:
    """Return the line of the table for one kind of run and signal."""
    counts = [tally.left[one] for one in ("old", "new", "new, no verdict", "broken")]
    shown = [name, signal_name, sum(tally.left.values()), *counts, len(tally.faults)]
    return f"| {' | '.join(map(str, shown))} |"


def warm_up() -> None:
    """Have everything imported and compiled before the first fork, and the threads of it ended."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "log.parquet", 300)
        for settings in RUNS.values():
            with contextlib.suppress(SystemExit), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                main(command(folder, settings))


def run(arguments: list[str] | None = None) -> int:
    """Print the table and the faults; return whether there were any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=20, help="of each signal and kind of run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(RUNS), help="one kind of run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that stop runs")
    parser.add_argument("--json", action="store_true", help="print counts and faults of one kind of run as JSON")
    chosen = parser.parse_args(arguments)
    if chosen.json and chosen.only is None:
        parser.error("--json needs --only")
    if chosen.jobs == 1:
        checkpoints.SECONDS = 0.05  # runs are short here, and checkpoints are to be met
        warm_up()
    if not chosen.json:
        print("| run | signal | moments | old policy | new policy | new, no verdict | broken | faults |")
        print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    faults = []
    for name in RUNS if chosen.only is None else [chosen.only]:
        if chosen.jobs > 1:
            found = measure_apart(name, chosen.moments, chosen.seed, chosen.jobs)
        else:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(name, chosen.moments, chosen.seed, Path(folder))
        faults += [f"{name}: {one}" for tally in found.values() for one in tally.faults]
        if chosen.json:
            print(json.dumps({one: {"left": tally.left, "faults": tally.faults} for one, tally in found.items()}))
        else:
            print("\n".join(row_of(name, one, tally) for one, tally in found.items()), flush=True)
    if not chosen.json:
        print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(run())
