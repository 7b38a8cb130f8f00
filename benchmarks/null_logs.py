"""How often the default policy ends at the logging policy where actions do not matter.

    python benchmarks/null_logs.py                       # 100 logs
    python benchmarks/null_logs.py --logs 20 --jobs 2
    python benchmarks/null_logs.py --include regression,dr

Every log is drawn anew: its size, actions, columns, logging policy and rewards. Rewards never depend on the action, at
times on the context; nothing can beat the logging policy, and a race that ends elsewhere has been misled by noise. The
exit status is 1 if that happens in more than one log of twenty.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors as it is

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from revisions import commit

import bopl
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

GOAL = 0.95
N_SAMPLES, N_ACTIONS, N_COLUMNS = (500, 1000, 2000, 4000), (2, 3, 5, 10, 20), (2, 6, 15)
STRENGTH, FLOOR, RATE = (0.0, 0.3, 0.7, 1.5), (0.05, 0.2), (0.02, 0.1, 0.3, 0.5)
KINDS = ("clicks", "clicks by context", "normal", "heavy tails")


@dataclass(frozen=True)
class Null:
    """What a log was drawn from."""

    n_samples: int
    n_actions: int
    n_columns: int
    strength: float
    floor: float
    rate: float
    kind: str


def draw_null(number: int) -> tuple[Null, bopl.BanditLog]:
    """Return the description of a log and the log, both decided by its number."""
    rng = np.random.default_rng([number, 17])
    n_samples, n_actions, n_columns = (int(rng.choice(sizes)) for sizes in (N_SAMPLES, N_ACTIONS, N_COLUMNS))
    strength, floor, rate = (float(rng.choice(values)) for values in (STRENGTH, FLOOR, RATE))
    null = Null(n_samples, n_actions, n_columns, strength, floor, rate, str(rng.choice(KINDS)))
    context = rng.normal(size=(n_samples, n_columns))
    score = strength * context @ rng.normal(size=(n_columns, n_actions)) / np.sqrt(n_columns / 4.0)
    prob = (1.0 - floor) * softmax(score) + floor / n_actions
    action = draw_actions(prob, rng)
    propensity = prob[np.arange(n_samples), action]
    return null, bopl.BanditLog(
        context, action, draw_reward(null, context, rng), propensity, actions=list(range(n_actions))
    )


def draw_reward(null: Null, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rewards in which the action has no part."""
    if null.kind == "clicks":
        return (rng.random(null.n_samples) < null.rate).astype(float)
    if null.kind == "clicks by context":
        return (rng.random(null.n_samples) < np.clip(null.rate * np.exp(context[:, 0]), 0.0, 0.9)).astype(float)
    if null.kind == "normal":
        return context[:, 0] + rng.normal(size=null.n_samples)
    return rng.standard_t(3, size=null.n_samples)


def race(include: list[str] | None, number: int) -> dict:
    """Return how the race on one log ended."""
    null, log = draw_null(number)
    start = time.perf_counter()
    policy = bopl.AutoPolicy(include, random_state=number, progress=False, n_jobs=1).fit(log)
    return {
        "number": number,
        "null": null,
        "is_logging": policy.is_logging_,
        "verdict": policy.leaderboard_.verdict,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first log")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each of one thread")
    parser.add_argument("--include", help="candidates, separated by commas; all by default")
    args = parser.parse_args()
    include = None if args.include is None else args.include.split(",")
    numbers = range(args.first, args.first + args.logs)
    found = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for one in pool.map(partial(race, include), numbers):
            found.append(one)
            if not one["is_logging"]:
                print(f"log {one['number']}, {one['null']}: {one['verdict']}", flush=True)
    n_right = sum(one["is_logging"] for one in found)
    seconds = float(np.median([one["seconds"] for one in found]))
    print(f"commit {commit()}, {args.jobs} processes, {seconds:.1f} s a race")
    print(f"{n_right} of {len(found)} races on logs of noise ended at the logging policy; {GOAL:.0%} are asked for")
    raise SystemExit(n_right < GOAL * len(found))


if __name__ == "__main__":
    main()
