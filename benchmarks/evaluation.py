"""Speed and memory of `bopl.evaluate` on large logs.

    python benchmarks/evaluation.py [--samples 10000000] [--replicates 1000] [--threads 2]
    python benchmarks/evaluation.py --dr [--samples 1000000]

The first compares the Poisson bootstrap of IPS and SNIPS with a plain numpy loop that draws rows with replacement, both
in one run; numpy runs 1% of the replicates and its time is scaled. The second times DR with ten actions: five fits of
the boosted reward model, prediction of all actions, and the estimate.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

import numpy as np
from revisions import commit
from workloads import synthetic_log

import bopl


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def large_log(n_samples: int) -> tuple[bopl.BanditLog, np.ndarray]:
    """Return a log with one context column, and a policy's probabilities of the logged actions."""
    rng = np.random.default_rng(0)
    propensity = rng.uniform(0.05, 0.5, size=n_samples)
    log = bopl.BanditLog(
        rng.random((n_samples, 1), dtype=np.float32),
        rng.integers(10, size=n_samples, dtype=np.int32),
        (rng.random(n_samples, dtype=np.float32) < 0.1).astype(np.float64),
        propensity,
    )
    return log, np.minimum(propensity * rng.gamma(2.0, 0.5, size=n_samples), 1.0)


def numpy_bootstrap(weight: np.ndarray, reward: np.ndarray, n_replicates: int) -> tuple[np.ndarray, float]:
    """Return replicates of IPS and SNIPS by drawing rows, and the seconds they took."""
    rng = np.random.default_rng(0)
    weighted, n_samples = weight * reward, len(weight)
    start = time.perf_counter()
    replicates = np.empty((n_replicates, 2))
    for number in range(n_replicates):
        rows = rng.integers(n_samples, size=n_samples)
        total = weighted[rows].sum()
        replicates[number] = total / n_samples, total / weight[rows].sum()
    return replicates, time.perf_counter() - start


def compare_bootstrap(n_samples: int, n_replicates: int, threads: int) -> None:
    log, prob = large_log(n_samples)
    arguments = {"estimators": ["ips", "snips"], "interval": "bootstrap", "n_jobs": threads}
    bopl.evaluate(log.subset(slice(0, 1000)), prob[:1000], **arguments)  # compile first
    before = peak_mib()
    start = time.perf_counter()
    evaluation = bopl.evaluate(log, prob, n_replicates=n_replicates, **arguments)
    seconds, peak = time.perf_counter() - start, peak_mib()
    start = time.perf_counter()
    exact = [row["std_err"] for row in bopl.evaluate(log, prob, estimators=["ips", "snips"]).rows]
    normal = time.perf_counter() - start
    some = max(n_replicates // 100, 2)
    replicates, theirs = numpy_bootstrap(prob / log.propensity, log.reward, some)
    theirs *= n_replicates / some
    print(f"commit {commit()}, {n_samples:,} samples, {n_replicates} replicates, {threads} threads\n")
    print("| | s | ratio | std_err ips | std_err snips |\n|---|---:|---:|---:|---:|")
    errors = [row["std_err"] for row in evaluation.rows]
    print(f"| bopl.evaluate, bootstrap | {seconds:.1f} | 1.0 | {errors[0]:.3g} | {errors[1]:.3g} |")
    spread = replicates.std(axis=0, ddof=1)
    ratio = f"{theirs / seconds:.1f}"
    print(f"| numpy, {some} replicates, scaled | {theirs:.0f} | {ratio} | {spread[0]:.3g} | {spread[1]:.3g} |")
    print(f"| bopl.evaluate, normal | {normal:.1f} | {normal / seconds:.2f} | {exact[0]:.3g} | {exact[1]:.3g} |")
    print(f"\npeak memory {peak:.0f} MiB, of it {before:.0f} MiB before the evaluation (the log and what is imported)")


def time_dr(n_samples: int, threads: int) -> None:
    log = synthetic_log(n_samples, 20, 10)
    policy = np.random.default_rng(1).dirichlet(np.ones(10), size=n_samples)
    model = bopl.BoostedRewardModel()
    model.fit(log.subset(slice(0, 2000)))  # compile first
    before = peak_mib()
    start = time.perf_counter()
    row = bopl.evaluate(log, policy, estimators="dr", reward_model=bopl.BoostedRewardModel(), n_jobs=threads).row()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    given = bopl.evaluate(log, policy, estimators="dr", reward_model=np.zeros((n_samples, 10)), n_jobs=threads).row()
    alone = time.perf_counter() - start
    print(f"commit {commit()}, {n_samples:,} samples × 10 actions, 20 context columns, {threads} threads\n")
    print("| | s | std_err |\n|---|---:|---:|")
    print(f"| DR, five folds of 100 rounds fitted and predicted | {seconds:.1f} | {row['std_err']:.3g} |")
    print(f"| DR with given predictions (all zero: IPS) | {alone:.2f} | {given['std_err']:.3g} |")
    print(f"\npeak memory {peak_mib():.0f} MiB, of it {before:.0f} MiB before the evaluation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=None)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dr", action="store_true")
    args = parser.parse_args()
    if args.dr:
        time_dr(args.samples or 1_000_000, args.threads)
    else:
        compare_bootstrap(args.samples or 10_000_000, args.replicates, args.threads)


if __name__ == "__main__":
    main()
