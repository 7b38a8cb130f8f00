"""Batch prediction of all actions against XGBoost on the expanded matrix, and the time of a single decision.

    python benchmarks/prediction.py [--threads 2] [--contexts 20000]

The XGBoost model is the policy's own export, so both sides score the same trees. A booster remembers its predictions
of a matrix, so every timed call of XGBoost gets a matrix of its own, built outside the timing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import xgboost
from numba import njit
from revisions import commit
from workloads import synthetic_log

import bopl
from bopl.learner.expanded import action_columns, expand
from bopl.learner.hist_tree.predictor import stack_trees
from bopl.learner.hist_tree.traversal import score_row

N_TREES, N_ACTIONS, DEPTH, REPEATS = 300, 10, 8, 5


@njit(nogil=True)
def decide(context, trees, open_node, open_set, score):
    """One decision for each context, one after another, as a service would make them."""
    chosen = 0
    for i in range(len(context)):
        score[:] = 0.0
        score_row(context[i], trees, open_node, open_set, score)
        chosen += score.argmax()
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--contexts", type=int, default=20_000)
    args = parser.parse_args()
    log = synthetic_log(args.contexts, 20, N_ACTIONS)
    learner = bopl.HistTree(DEPTH, min_child_weight=20.0)
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=N_TREES, reward_translation=-0.3, random_state=0)
    policy.fit(log)
    rounds = policy.ensemble_.rounds
    ensemble = stack_trees([entry.predictor for entry in rounds], [entry.step.size for entry in rounds])
    with tempfile.TemporaryDirectory() as folder:
        policy.to_xgboost(Path(folder) / "model.json")
        booster = xgboost.Booster(model_file=str(Path(folder) / "model.json"))
    booster.set_param({"nthread": args.threads})
    expanded = expand(log.context, action_columns(N_ACTIONS))
    matrices = [xgboost.DMatrix(expanded, nthread=args.threads) for _ in range(REPEATS)]
    ours, theirs = [], []
    ensemble.score(log.context[:10], n_jobs=args.threads)
    for matrix in matrices:
        start = time.perf_counter()
        mine = ensemble.score(log.context, n_jobs=args.threads)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        other = booster.predict(matrix, output_margin=True)
        theirs.append(time.perf_counter() - start)
    leaves = np.mean([entry.predictor.n_leaves for entry in rounds])
    print(f"commit {commit()}, {len(rounds)} trees of depth {DEPTH} with {leaves:.0f} leaves, {args.threads} threads")
    print(f"largest difference of the scores: {np.abs(mine.ravel() - other).max():.1e}\n")
    print("| batch of all actions | s | ratio |\n|---|---:|---:|")
    print(f"| HistTree, {args.contexts} contexts | {np.median(ours):.3f} | 1.0 |")
    print(f"| XGBoost, {len(expanded)} rows | {np.median(theirs):.3f} | {np.median(theirs) / np.median(ours):.1f} |")
    room = (np.empty(ensemble.depth, np.int64), np.empty(ensemble.depth, np.uint64), np.empty(N_ACTIONS))
    decide(log.context[:2], ensemble.trees, *room)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        decide(log.context[:2000], ensemble.trees, *room)
        times.append((time.perf_counter() - start) / 2000)
    print(f"\none decision, {N_ACTIONS} actions: {1e6 * np.median(times):.0f} microseconds in the compiled call")


if __name__ == "__main__":
    main()
