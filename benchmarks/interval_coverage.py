"""Coverage of the intervals on worlds with a known truth.

    python benchmarks/interval_coverage.py [--logs 1000] [--worlds plain,"far policy"] [--replicates 600]

For every world, interval and estimator: how often the 95% intervals of the value and of the uplift hold the truth, how
often that of the uplift lies above and below it, the bias in standard errors of its mean over the logs, the mean width,
and how often the verdict was "not trustworthy". The estimators with a reward model get one that is off by a fixed
amount, the same for all logs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors as it is

import argparse
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from revisions import commit

import bopl
from bopl.simulation import World, coverage_worlds, hopeless_world

BOUNDS = ("empirical_bernstein", "log_smoothing", "betting")
HEADINGS = ("world", "interval", "estimator", "value", "uplift", "above", "below", "bias", "width", "not trustworthy")
KEPT = ("value", "ci_lower", "ci_upper", "uplift_ci_lower", "uplift_ci_upper", "verdict")
CHUNK = 20  # logs that a process takes at a time


def evaluate_log(world: World, n_replicates: int, intervals: tuple[str, ...], seed: int) -> dict:
    """Return what was found on one log, by interval and estimator."""
    sample, found = world.sample(seed), {}
    for interval in intervals:
        evaluation = bopl.evaluate(
            sample.log,
            sample.policy_prob,
            estimators=None if interval in BOUNDS else "all",
            interval=interval,
            reward_model=None if interval in BOUNDS else sample.reward_hat,
            logging_policy=sample.logging_prob,
            reward_range=world.reward_range,
            min_propensity=world.min_propensity,
            n_replicates=n_replicates,
            random_state=seed,
            n_jobs=1,
        )
        for row in evaluation.rows:
            found[interval, row["estimator"]] = tuple(row[name] for name in KEPT)
    return found


def measure(world: World, seeds: range, pool: ProcessPoolExecutor, *settings: object) -> list[list[str]]:
    """Return the rows of one world."""
    seen = defaultdict(list)
    for found in pool.map(partial(evaluate_log, world, *settings), seeds, chunksize=CHUNK):
        for key, row in found.items():
            seen[key].append(row)
    return [summarize(world, interval, estimator, rows) for (interval, estimator), rows in seen.items()]


def summarize(world: World, interval: str, estimator: str, rows: list) -> list[str]:
    """Return one line of the table."""
    value, lower, upper, uplift_lower, uplift_upper, verdict = (np.array(column) for column in zip(*rows, strict=True))
    uplift, error = world.value - world.logging_value, value - world.value
    above, below = uplift_lower > uplift, uplift_upper < uplift
    bias = error.mean() / (error.std(ddof=1) / np.sqrt(len(rows)))
    return [
        world.name,
        interval,
        estimator,
        f"{((lower <= world.value) & (world.value <= upper)).mean():.1%}",
        f"{(~above & ~below).mean():.1%}",
        f"{above.mean():.1%}",
        f"{below.mean():.1%}",
        f"{bias:+.1f}",
        f"{(upper - lower).mean():.3g}",
        f"{(verdict == 'not trustworthy').mean():.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=600)
    parser.add_argument("--worlds", default=None, help="names, separated by commas; all by default")
    parser.add_argument("--intervals", default=",".join(("normal", "bootstrap", *BOUNDS)))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    worlds = {**coverage_worlds(), "hopeless": hopeless_world()}
    names = list(worlds) if args.worlds is None else args.worlds.split(",")
    seeds = range(args.first_seed, args.first_seed + args.logs)
    print(f"commit {commit()}, {args.logs} logs of each world, {args.replicates} replicates of the bootstrap\n")
    print("| " + " | ".join(HEADINGS) + " |\n|---|---|---|" + "---:|" * (len(HEADINGS) - 3))
    start = time.perf_counter()
    with ProcessPoolExecutor(args.processes) as pool:
        for name in names:
            for line in measure(worlds[name], seeds, pool, args.replicates, tuple(args.intervals.split(","))):
                print("| " + " | ".join(line) + " |", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
