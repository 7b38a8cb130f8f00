"""How often a loop is wrong: simulated loops with a known truth, without HTTP, by the code that serves and learns.

    python benchmarks/loops.py --jobs 2                  # 100 loops of each kind: about 20 minutes of one core
    python benchmarks/loops.py --loops 10 --only null
    python benchmarks/loops.py --loops 50 --first 50     # other loops than --loops 50

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
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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


def run_one(kind: str, seed: int, n_days: int, n_visits: int) -> dict[str, float]:
    """Run one loop in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as scratch:
        return KINDS_OF_LOOP[kind](Path(scratch) / "loop", seed, n_days, n_visits)


def rate_text(hits: int, trials: int) -> str:
    """Return a rate with its exact interval."""
    low = beta.ppf(0.025, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, trials - hits) if hits < trials else 1.0
    return f"{hits} of {trials} ({100.0 * low:.1f}% to {100.0 * high:.1f}%)"


def report(kind: str, found: list[dict[str, float]], seconds: float) -> None:
    """Print what was counted."""
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        is_count = all(isinstance(value, bool | np.bool_) for value in values)
        text = rate_text(int(sum(values)), len(values)) if is_count else f"mean {np.mean(values):.3g}"
        print(f"| {kind} | {name} | {text} |", flush=True)
    print(f"  {kind}: {seconds:.0f} s", flush=True)


def main() -> None:
    """Run the loops and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=100, help="Loops of each kind.")
    parser.add_argument("--first", type=int, default=0, help="Seed of the first loop; the others follow.")
    parser.add_argument("--days", type=int, default=10, help="Steps of a loop.")
    parser.add_argument("--visits", type=int, default=500, help="Decisions between two steps.")
    parser.add_argument("--only", default=",".join(KINDS_OF_LOOP), help="Kinds of loops, separated by commas.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes.")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for kind in given.only.split(","):
            began = time.perf_counter()
            seeds = range(given.first, given.first + given.loops)
            asked = [pool.submit(run_one, kind, seed, given.days, given.visits) for seed in seeds]
            report(kind, [one.result() for one in asked], time.perf_counter() - began)


if __name__ == "__main__":
    main()
