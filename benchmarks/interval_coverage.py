"""Coverage of the intervals on worlds with a known truth.

    python benchmarks/interval_coverage.py [--logs 1000] [--worlds plain,"far policy"] [--replicates 600]

For every world, interval and estimator: how often the 95% intervals of the value and of the uplift hold the truth, the
bias in standard errors of its mean over the logs, the mean width, and how often the verdict was "not trustworthy". The
estimators with a reward model get one that is off by a fixed amount, the same for all logs.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import numpy as np
from engine import commit

import bopl
from bopl.simulation import World, coverage_worlds, hopeless_world

BOUNDS = ("empirical_bernstein", "log_smoothing", "betting")
HEADINGS = ("world", "interval", "estimator", "value", "uplift", "bias", "width", "not trustworthy")


def measure(world: World, n_logs: int, n_replicates: int, intervals: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of one world."""
    seen = defaultdict(list)
    for seed in range(n_logs):
        sample = world.sample(seed)
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
            )
            for row in evaluation.rows:
                seen[interval, row["estimator"]].append(row)
    return [summarize(world, interval, estimator, rows) for (interval, estimator), rows in seen.items()]


def summarize(world: World, interval: str, estimator: str, rows: list) -> list[str]:
    """Return one line of the table."""

    def column(name: str) -> np.ndarray:
        return np.array([row[name] for row in rows])

    uplift = world.value - world.logging_value
    covers = (column("ci_lower") <= world.value) & (world.value <= column("ci_upper"))
    covers_uplift = (column("uplift_ci_lower") <= uplift) & (uplift <= column("uplift_ci_upper"))
    error = column("value") - world.value
    bias = error.mean() / (error.std(ddof=1) / np.sqrt(len(rows)))
    width = (column("ci_upper") - column("ci_lower")).mean()
    refused = (column("verdict") == "not trustworthy").mean()
    return [
        world.name,
        interval,
        estimator,
        f"{covers.mean():.1%}",
        f"{covers_uplift.mean():.1%}",
        f"{bias:+.1f}",
        f"{width:.3g}",
        f"{refused:.0%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=600)
    parser.add_argument("--worlds", default=None, help="names, separated by commas; all by default")
    parser.add_argument("--intervals", default=",".join(("normal", "bootstrap", *BOUNDS)))
    args = parser.parse_args()
    worlds = {**coverage_worlds(), "hopeless": hopeless_world()}
    names = list(worlds) if args.worlds is None else args.worlds.split(",")
    print(f"commit {commit()}, {args.logs} logs of each world, {args.replicates} replicates of the bootstrap\n")
    print("| " + " | ".join(HEADINGS) + " |\n|---|---|---|---:|---:|---:|---:|---:|")
    start = time.perf_counter()
    for name in names:
        for line in measure(worlds[name], args.logs, args.replicates, tuple(args.intervals.split(","))):
            print("| " + " | ".join(line) + " |", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
