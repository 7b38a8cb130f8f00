"""Decisions delivered twice with one column differing: how often the audit finds them, and blames clean logs.

    python benchmarks/copies.py                     # 200 logs of each kind, seeds that nothing was tuned on
    python benchmarks/copies.py --logs 50 --first 9000

A fifth of the decisions is delivered again, on average `delay` rows later, with another value in one column. Contexts
are continuous, or pairs of 8 or 30 values; in `drifting` logs the logging policy changes all the time, and `clean` ones
have no copies. A row says in how many logs `duplicated_rows` is a problem.
"""

from __future__ import annotations

import argparse

import numpy as np
from revisions import commit

import bopl

KINDS = {  # values of a context column (0: continuous), share of copies, delay, drift
    "continuous, copies": (0, 0.2, 10.0, 0.0),
    "30 values, copies": (30, 0.2, 10.0, 0.0),
    "8 values, copies": (8, 0.2, 10.0, 0.0),
    "8 values, copies at once": (8, 0.2, 0.0, 0.0),
    "8 values, drifting, copies": (8, 0.2, 10.0, 2.0),
    "continuous, clean": (0, 0.0, 0.0, 0.0),
    "30 values, clean": (30, 0.0, 0.0, 0.0),
    "8 values, clean": (8, 0.0, 0.0, 0.0),
    "8 values, drifting, clean": (8, 0.0, 0.0, 2.0),
}


def draw_log(seed: int, n: int, n_values: int, share: float, delay: float, drift: float) -> bopl.BanditLog:
    """Return a log whose last column differs between copies."""
    rng = np.random.default_rng([77, seed])
    context = rng.integers(0, n_values, (n, 2)) / n_values if n_values else rng.random((n, 2))
    score = (context - 0.5) @ rng.normal(size=(2, 5)) * 2.0
    score += drift * np.linspace(0.0, 1.0, n)[:, None] * rng.normal(size=5)
    prob = 0.9 * np.exp(score) / np.exp(score).sum(axis=1, keepdims=True) + 0.02
    action = (prob.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=4)
    twice = np.flatnonzero(rng.random(n) < share)
    place = np.concatenate([np.arange(n), twice + 0.5 + rng.exponential(delay, len(twice))])
    row = np.concatenate([np.arange(n), twice])[np.argsort(place)]
    reward, propensity = rng.random(n) < 0.1, prob[np.arange(n), action]
    varying = rng.random(len(row))
    return bopl.BanditLog(
        np.column_stack([context[row], varying]), action[row], reward[row], propensity[row], actions=range(5)
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--first", type=int, default=5000, help="seed of the first log")
    parser.add_argument("--sizes", default="500,2000,10000")
    chosen = parser.parse_args()
    sizes = [int(one) for one in chosen.sizes.split(",")]
    print(f"commit {commit()}, {chosen.logs} logs of each kind and size\n")
    print(f"| logs | {' | '.join(f'{n:,} decisions' for n in sizes)} |\n|---|{'---:|' * len(sizes)}", flush=True)
    for name, settings in KINDS.items():
        cells = []
        for n in sizes:
            logs = (draw_log(chosen.first + number, n, *settings) for number in range(chosen.logs))
            cells.append(str(sum(log.audit()["duplicated_rows"].status == "problem" for log in logs)))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
