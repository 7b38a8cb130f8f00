"""How often a loop is wrong: simulated loops with a known truth, without HTTP, by the code that serves and learns.

    python benchmarks/loops.py --jobs 16 --out loops.jsonl   # 100 loops of each kind: half an hour of one core
    python benchmarks/loops.py --loops 10 --only null,bad
    python benchmarks/loops.py --loops 50 --first 50         # other loops than --loops 50

Every process has one thread. A line of ``--out`` is one loop; loops that the file has already are not run again, so
that an interrupted run goes on where it was.

Kinds of loops, and what is counted:

- `null`: no action earns more than another. Every canary is wrong; counted are loops that ever start one, that ever
  raise one beyond the first ramp, and that ever give one all traffic.
- `bad`: a policy that earns less lies in ``policies/``. Counted are loops that ever serve it.
- `by hand`, `all by hand`: a policy that earns less is given half of the traffic, or all of it, by hand. Counted are
  loops in which it has none in the end, and those that have taken it back as worse rather than replaced it; `steps` is
  how many it took.
- `good`: actions matter, and nothing is known in the beginning. Counted are loops that earn more in the end, and those
  that ever promote a policy that earns less than the one before.

A loop promises that a policy is replaced by one that is not better with probability ``1 - confidence`` (5%) at most,
over all looks. Beside a count stands the exact 95% interval of its rate.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy.stats import beta

import bopl
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.joining import join
from bopl.serving.promotion import promote
from bopl.serving.rehearsal import rehearse
from bopl.serving.settings import LoopSettings
from bopl.serving.step import step

ACTIONS, KINDS = ("a", "b", "c", "d"), ("p", "q", "r", "s")
LATER = 86_400 * 10**6  # microseconds, in which all windows close
SETTINGS: dict[str, Any] = {
    "actions": ACTIONS,
    "exploration": 0.1,
    "min_decisions": 300,
    "ramp": (0.1, 0.5, 1.0),
    "train": {"objective": "dr", "n_rounds": 10, "max_depth": 3, "n_jobs": 1},
}


class World:
    """Visits of four kinds; where actions matter, each kind likes one of them."""

    def __init__(self, seed: int, right: float, wrong: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.chance = {"right": right, "wrong": wrong}

    def visits(self, n_visits: int) -> list[dict[str, Any]]:
        """Return what is known of some visits."""
        kind, age = self.rng.integers(0, 4, n_visits), self.rng.normal(40.0, 12.0, n_visits)
        return [{"kind": KINDS[one], "age": float(years)} for one, years in zip(kind, age, strict=True)]

    def chance_of(self, record: Mapping[str, Any], action: Any) -> float:
        """Return the chance of a reward."""
        return self.chance["right" if KINDS.index(record["kind"]) == ACTIONS.index(action) else "wrong"]

    def reward(self, record: Mapping[str, Any], action: Any) -> float | None:
        """Return a reward, or None where none is sent."""
        return 1.0 if self.rng.random() < self.chance_of(record, action) else None

    def value(self, policy: Any) -> float:
        """Return what a policy earns; None is the uniform one."""
        records = [{"kind": kind, "age": age} for kind in KINDS for age in (20.0, 30.0, 40.0, 50.0, 60.0)]
        chance = np.array([[self.chance_of(record, action) for action in ACTIONS] for record in records])
        if policy is None:
            return float(chance.mean())
        order = [ACTIONS.index(label) for label in policy.actions_.tolist()]
        return float((policy.records_proba(records) * chance[:, order]).sum(axis=1).mean())


class Rehearsal:
    """A loop in a folder of its own."""

    def __init__(self, folder: Path, seed: int, world: World, n_visits: int, **settings: Any) -> None:
        self.world, self.n_visits, self.n_days = world, n_visits, 0
        self.settings = LoopSettings(**SETTINGS | {"random_state": seed} | settings)
        self.loop = LoopFolder.create(folder, self.settings)

    def day(self) -> Any:
        """Let a day pass, and do a step at night."""
        self.n_days += 1
        rehearse(self.loop, self.world.visits(self.n_visits), self.world.reward, name=f"day{self.n_days}")
        return step(self.loop.path, now=time.time_ns() // 1000 + LATER)

    def bad_policy(self) -> str:
        """Put a policy into the folder that was trained to take what nobody likes, and return its id."""
        rehearse(self.loop, self.world.visits(self.n_visits), self.world.reward, name="before")
        with EventStore(self.loop.events) as store:
            join(self.loop.path, store, self.settings, now=time.time_ns() // 1000 + LATER)
        log = bopl.BanditLog.read(self.loop.log)
        kinds = [log.schema.describe("kind", code) for code in log.context[:, log.feature_names.index("kind")]]
        liked = [self.world.chance_of({"kind": kind}, action) for kind, action in zip(kinds, log.action, strict=True)]
        wrong = (np.array(liked) == self.world.chance["wrong"]).astype(float)
        policy = bopl.BoostedPolicy("ips", n_rounds=30, progress=False, random_state=0).fit(log.with_reward(wrong))
        file = self.loop.path / "bad.bopl"
        policy.sharpened(20.0).save(file)
        return self.loop.add_policy(file)

    def promotions(self) -> list[Any]:
        """Return all promotions after the first."""
        with EventStore(self.loop.events) as store:
            return store.promotions()[1:]


def null(folder: Path, seed: int, n_days: int, n_visits: int) -> dict[str, float]:
    """No action earns more than another: whatever is promoted is not better."""
    one = Rehearsal(folder, seed, World(seed, 0.3, 0.3), n_visits)
    for _ in range(n_days):
        one.day()
    shares = [row.share for row in one.promotions() if row.policy != "uniform"]
    return {"canary": bool(shares), "beyond the first ramp": max(shares, default=0.0) > 0.1, "all": 1.0 in shares}


def bad(folder: Path, seed: int, n_days: int, n_visits: int) -> dict[str, float]:
    """A policy that earns less lies in the folder, and is judged at every look."""
    one = Rehearsal(folder, seed, World(seed, 0.5, 0.2), n_visits)
    spoiled = one.bad_policy()
    for _ in range(n_days):
        one.day()
    return {"served": spoiled in {row.policy for row in one.promotions()}}


def by_hand(folder: Path, seed: int, n_days: int, n_visits: int, share: float = 0.5) -> dict[str, float]:
    """A policy that earns less is given a share of the traffic by hand."""
    one = Rehearsal(folder, seed, World(seed, 0.5, 0.2), n_visits)
    spoiled = one.bad_policy()
    promote(one.loop.path, spoiled, share=share)
    for day in range(1, n_days + 1):
        result = one.day()
        if spoiled not in (result.promotion.policy, result.promotion.baseline):
            return {"gone": True, "taken back": result.action == "roll back", "steps": day}
    return {"gone": False, "taken back": False}


def all_by_hand(folder: Path, seed: int, n_days: int, n_visits: int) -> dict[str, float]:
    """A policy that earns less is given all traffic by hand."""
    return by_hand(folder, seed, n_days, n_visits, share=1.0)


def good(folder: Path, seed: int, n_days: int, n_visits: int) -> dict[str, float]:
    """Actions matter: the loop should find out, and never go back."""
    one = Rehearsal(folder, seed, World(seed, 0.5, 0.2), n_visits)
    for _ in range(n_days):
        one.day()
    full = [row.policy for row in one.promotions() if row.share == 1.0]
    values = [one.world.value(None), *(one.world.value(one.loop.load_policy(policy)) for policy in full)]
    return {
        "earns more": values[-1] > values[0],
        "ever less": min(np.diff(values), default=0.0) < 0.0,
        "gain": values[-1] - values[0],
    }


KINDS_OF_LOOP: dict[str, Callable[[Path, int, int, int], dict[str, float]]] = {
    "null": null,
    "bad": bad,
    "by hand": by_hand,
    "all by hand": all_by_hand,
    "good": good,
}


# Counts of what must not happen, with the largest rate that is promised: a candidate is called better wrongly with
# probability 1 - confidence at most, and a canary raised wrongly with half of that at each ramp.
PROMISED = {
    ("null", "canary"): 0.05,
    ("null", "beyond the first ramp"): 0.05,
    ("null", "all"): 0.05,
    ("bad", "served"): 0.05,
    ("good", "ever less"): 0.05,
}
MEMORY = Path("/dev/shm")  # 16 loops that sync one disk wait for each other, and nothing here depends on it


def run_one(kind: str, seed: int, n_days: int, n_visits: int) -> dict[str, Any]:
    """Run one loop in a folder that is thrown away, and return its line."""
    began, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as scratch:
        found = KINDS_OF_LOOP[kind](Path(scratch) / "loop", seed, n_days, n_visits)
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
    spent = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - processor}
    return {"kind": kind, "seed": seed, "days": n_days, "visits": n_visits, "found": plain, **spent}


def key_of(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a loop is known by."""
    return line["kind"], line["seed"], line["days"], line["visits"]


def run_all(wanted: list[tuple[Any, ...]], n_jobs: int, out: TextIO | None) -> list[dict[str, Any]]:
    """Run loops side by side and return their lines; each is written as soon as it is there."""
    if not wanted:
        return []
    run_one("good", 0, 1, 400)  # compiles what is not compiled yet, once and not in every process
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"  # of the processes that are spawned now
    lines = []
    with ProcessPoolExecutor(min(n_jobs, len(wanted)), mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_one, *one) for one in wanted]):
            lines.append(future.result())
            if out is not None:
                print(json.dumps(lines[-1]), file=out, flush=True)
            if len(lines) % 50 == 0:
                print(f"{len(lines)} of {len(wanted)} loops", file=sys.stderr, flush=True)
    return lines


def interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the exact 95% interval of a rate."""
    low = beta.ppf(0.025, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def report(kind: str, lines: list[dict[str, Any]]) -> None:
    """Print what was counted in the loops of a kind, beside what is promised."""
    found = [line["found"] for line in lines]
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        if not all(isinstance(value, bool) for value in values):
            print(f"| {kind} | {name} | mean {np.mean(values):.3g} | | |")
            continue
        hits, trials = sum(values), len(values)
        low, high = interval(hits, trials)
        limit = PROMISED.get((kind, name))
        promise = "" if limit is None else f"at most {100.0 * limit:g}%"
        judged = "" if limit is None else "broken" if low > limit else "kept"
        print(
            f"| {kind} | {name} | {hits} of {trials} ({100 * low:.1f}% to {100 * high:.1f}%) | {promise} | {judged} |"
        )


def main() -> None:
    """Run the loops and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=100, help="Loops of each kind.")
    parser.add_argument("--first", type=int, default=0, help="Seed of the first loop; the others follow.")
    parser.add_argument("--days", type=int, default=10, help="Steps of a loop.")
    parser.add_argument("--visits", type=int, default=500, help="Decisions between two steps.")
    parser.add_argument("--only", default=",".join(KINDS_OF_LOOP), help="Kinds of loops, separated by commas.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes.")
    parser.add_argument("--out", type=Path, help="JSON-lines file, one line for each loop; it is added to.")
    given = parser.parse_args()
    kinds, began = given.only.split(","), time.perf_counter()
    if unknown := set(kinds) - set(KINDS_OF_LOOP):
        parser.error(f"unknown kinds {sorted(unknown)}; there are {', '.join(KINDS_OF_LOOP)}")
    seeds = range(given.first, given.first + given.loops)
    wanted = [(kind, seed, given.days, given.visits) for seed in seeds for kind in kinds]
    old = []
    if given.out is not None and given.out.is_file():
        old = [json.loads(line) for line in given.out.read_text(encoding="utf8").splitlines()]
    known = {key_of(line): line for line in old}
    missing = [one for one in wanted if one not in known]
    if given.out is None:
        lines = run_all(missing, given.jobs, None)
    else:
        with given.out.open("a", encoding="utf8") as out:
            lines = run_all(missing, given.jobs, out)
    known |= {key_of(line): line for line in lines}
    print("| kind | counted | loops | promised | |\n|---|---|---:|---|---|")
    for kind in kinds:
        report(kind, [known[one] for one in wanted if one[0] == kind])
    processor = sum(line["processor_seconds"] for line in lines)
    print(f"\n{len(lines)} loops in {time.perf_counter() - began:.0f} s, {processor:.0f} s of processor time.")


if __name__ == "__main__":
    main()
