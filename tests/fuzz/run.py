"""Fuzzing of everything that reads what others wrote: ``python tests/fuzz/run.py --files 50000``, or ``make fuzz``.

Sound files are spoiled, loaded and used in processes of their own, with numba's bounds checks on, and limits on memory
and time. The table says what became of them; the command fails if one of them crashed, hung, took too much memory,
ended in another library's exception, was accepted with numbers that are not finite, or is another log in pieces than in
memory. Cases are numbered: ``--seed 7 --target policy --first 123 --files 1`` runs one of them again, and
``--out faults.json`` lists all faults with that command.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from ast import literal_eval
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

CRASH, HANG = "crash", "hang"
BAD = (CRASH, HANG, "memory", "foreign exception", "not finite", "differs", "harness")
COLUMNS = ("files", "refused", "accepted", *BAD)
START_SECONDS = 900.0  # compiling with bounds checks takes minutes
MEMORY = 3 << 30


@dataclass(frozen=True)
class Fault:
    """A case that is a fault: which one, and how it ended."""

    target: str
    number: int
    outcome: str
    detail: str

    def __str__(self) -> str:
        return f"{self.target} {self.number}: {self.outcome} {self.detail}"

    def command(self, seed: int) -> str:
        """Return what runs the case again."""
        return f"python tests/fuzz/run.py --seed {seed} --target {self.target} --first {self.number} --files 1"


@dataclass
class Tally:
    """What became of the cases, by target, and a few of those that are faults."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, target: str, number: int, outcome: str, detail: str) -> None:
        """Count one case."""
        with self.lock:
            self.counts.setdefault(target, Counter())[outcome] += 1
            if outcome in BAD:
                self.faults.append(Fault(target, number, outcome, detail))

    @property
    def n_bad(self) -> int:
        """How many cases are faults."""
        return sum(count[name] for count in self.counts.values() for name in BAD)

    def table(self) -> str:
        """Return the counts as a table."""
        rows = [["", *COLUMNS]]
        for name, count in [*self.counts.items(), ("all", sum(self.counts.values(), Counter()))]:
            rows.append([name, f"{sum(count.values()):,}", *(f"{count[column]:,}" for column in COLUMNS[1:])])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["| " + " | ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "|".join("-" * (w + 1) + ":" for w in widths) + "|", *lines[1:]])


@dataclass(frozen=True)
class Settings:
    """How cases are run."""

    seed: int
    seconds: float
    seeds: Path
    work: Path
    has_bounds_checks: bool = True


def run_cases(target: str, start: int, stop: int, settings: Settings, tally: Tally) -> None:
    """Run cases in workers, a new one after each that died."""
    while start < stop:
        start = _run_worker(target, start, stop, settings, tally)


def _run_worker(target: str, start: int, stop: int, settings: Settings, tally: Tally) -> int:
    """Run one worker; return the case to go on with."""
    work = tempfile.mkdtemp(dir=settings.work)
    arguments = [target, settings.seed, start, stop, settings.seeds, work, MEMORY]
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("worker.py")), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=worker_environment(settings.has_bounds_checks),
        text=True,
    )
    lines: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []
    readers = [
        threading.Thread(target=_forward, args=(process.stdout, lines.put), daemon=True),
        threading.Thread(target=_forward, args=(process.stderr, errors.append), daemon=True),
    ]
    for reader in readers:
        reader.start()
    number, limit, is_ready = start, START_SECONDS, False
    while True:
        try:
            line = lines.get(timeout=limit)
        except queue.Empty:
            process.kill()
            process.wait()
            tally.add(target, number, HANG, f"nothing for {limit:g} seconds")
            return number + 1
        if line is None:
            break
        word, _, rest = line.partition(" ")
        if word == "ready":
            limit, is_ready = settings.seconds, True
        elif word == "begin":
            number = int(rest)
        elif word == "end":
            place, outcome, detail = rest.split("\t", 2)
            tally.add(target, int(place), outcome, literal_eval(detail))
            number = int(place) + 1
    code = process.wait()
    readers[1].join(5.0)
    if not is_ready:
        raise RuntimeError(f"the sound files of {target!r} were not accepted:\n{''.join(e or '' for e in errors)}")
    if code != 0 or number < stop:
        tally.add(target, number, CRASH, f"exit code {code} " + " | ".join((e or "").strip() for e in errors[-12:]))
        return number + 1
    return stop


def _forward(stream: object, put: object) -> None:
    with stream:  # type: ignore[attr-defined]
        for line in stream:  # type: ignore[attr-defined]
            put(line.rstrip("\n"))  # type: ignore[operator]
    put(None)  # type: ignore[operator]


def worker_environment(has_bounds_checks: bool = True) -> dict[str, str]:
    """Return the environment of workers.

    numba cannot keep compiled code with bounds checks: every worker compiles anew, which takes minutes.
    """
    cache = Path(os.environ.get("BOPL_FUZZ_CACHE", TESTS.parent / "build" / "fuzz" / "numba"))
    cache.mkdir(parents=True, exist_ok=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
    arrow = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # the pool that notices what is written outside
    checks = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)} if has_bounds_checks else {}
    return {**os.environ, **threads, **arrow, **checks, "MALLOC_CHECK_": "3", "BOPL_OFFLINE": "1"}


def fuzz(
    n_files: int,
    *,
    seed: int = 0,
    n_jobs: int = 1,
    seconds: float = 60.0,
    only: str | None = None,
    first: int = 0,
    has_bounds_checks: bool = True,
) -> Tally:
    """Spoil and use files; return what became of them."""
    from fuzz.seeds import write_seeds
    from fuzz.targets import TARGETS

    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="bopl-fuzz-") as folder:
        settings = Settings(seed, seconds, Path(folder) / "seeds", Path(folder) / "work", has_bounds_checks)
        settings.work.mkdir()
        write_seeds(settings.seeds)
        tasks: queue.Queue[tuple[str, int, int]] = queue.Queue()
        for target in TARGETS.values():
            if only in (None, target.name):
                size = n_files if only else round(n_files * target.share)
                tally.counts[target.name] = Counter()
                step = max(-(-size // n_jobs), 1)
                for start in range(first, first + size, step):
                    tasks.put((target.name, start, min(start + step, first + size)))
        failures: list[BaseException] = []

        def work() -> None:
            while True:
                try:
                    name, start, stop = tasks.get_nowait()
                except queue.Empty:
                    return
                try:
                    run_cases(name, start, stop, settings, tally)
                except BaseException as error:
                    failures.append(error)
                    return

        threads = [threading.Thread(target=work) for _ in range(n_jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
    return tally


def write_results(tally: Tally, seed: int, path: Path) -> None:
    """Write counts and faults as JSON."""
    counts = {name: dict(count) for name, count in tally.counts.items()}
    faults = [{**asdict(fault), "command": fault.command(seed)} for fault in tally.faults]
    path.write_text(json.dumps({"seed": seed, "counts": counts, "faults": faults}, indent=1) + "\n", encoding="utf8")


def main() -> int:
    """Run, print the table and the first faults, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000, help="number of files")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a file hangs")
    parser.add_argument("--target", help="policy, checkpoint, log, frame or sparse; all by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--out", type=Path, help="JSON file for the counts, and all faults with what repeats them")
    given = parser.parse_args()
    began = time.monotonic()
    tally = fuzz(
        given.files,
        seed=given.seed,
        n_jobs=given.jobs,
        seconds=given.seconds,
        only=given.target,
        first=given.first,
    )
    print(tally.table())
    print(f"seed {given.seed}, {given.jobs} processes, {time.monotonic() - began:,.0f} s")
    for fault in tally.faults[:40]:
        print(fault)
    if given.out is not None:
        write_results(tally, given.seed, given.out)
    return 1 if tally.n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
