"""Final reward of HistTree beside XGBoost hist: the paper's datasets and BOPL-S-regr settings, on held-out data.

    python benchmarks/rewards.py --out rewards.jsonl                       # four datasets, three trials, both learners
    python benchmarks/rewards.py --datasets scene --trials 0 --threads 2
    python benchmarks/rewards.py --table rewards.jsonl                     # the table from lines already written

Each (dataset, trial, learner) writes one line when it is done; lines already in the file are not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from workloads import PAPER_SETTINGS, Settings

import bopl
from bopl.simulation import SimulatedProblem
from bopl_paper.dataset import simulate_paper

LEARNERS = ("hist_tree", "xgb_hist")


def make_learner(name: str, settings: Settings, threads: int):
    if name == "hist_tree":
        return bopl.HistTree(settings.max_depth, min_child_weight=settings.min_child_weight, n_jobs=threads)
    return bopl.XGBTree("hist", settings.max_depth, settings.min_child_weight, n_jobs=threads)


def train(problem: SimulatedProblem, learner: str, settings: Settings, threads: int) -> dict:
    policy = bopl.BoostedPolicy(
        bopl.objective.Surrogate(smoothness="paper"),
        make_learner(learner, settings, threads),
        n_rounds=settings.n_rounds,
        reward_translation=settings.reward_translation,
        random_state=0,
    )
    start = time.perf_counter()
    policy.fit(problem.train)
    return {
        "test_reward": problem.true_value(policy),
        "logging_reward": problem.logging_value,
        "seconds": time.perf_counter() - start,
        "rounds": policy.n_rounds_,
        "threads": threads,
    }


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_table(lines: list[dict]) -> None:
    print("| dataset | trial | logging | XGBoost hist | HistTree | difference | s XGBoost | s HistTree |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    found = {(line["dataset"], line["trial"], line["learner"]): line for line in lines}
    differences: dict[str, list[float]] = {}
    for dataset, trial in sorted({(line["dataset"], line["trial"]) for line in lines}):
        ours, theirs = (found.get((dataset, trial, learner)) for learner in LEARNERS)
        if ours is None or theirs is None:
            continue
        difference = ours["test_reward"] - theirs["test_reward"]
        differences.setdefault(dataset, []).append(difference)
        print(
            f"| {dataset} | {trial} | {ours['logging_reward']:.4f} | {theirs['test_reward']:.4f} | "
            f"{ours['test_reward']:.4f} | {difference:+.4f} | {theirs['seconds']:.0f} | {ours['seconds']:.0f} |"
        )
    for dataset, values in differences.items():
        print(f"{dataset}: mean difference {np.mean(values):+.4f} over {len(values)} trials")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(PAPER_SETTINGS))
    parser.add_argument("--trials", default="0,1,2")
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="rewards.jsonl")
    parser.add_argument("--table", default="")
    args = parser.parse_args()
    if args.table:
        print_table(read_lines(Path(args.table)))
        return
    path = Path(args.out)
    done = {(line["dataset"], line["trial"], line["learner"]) for line in read_lines(path)}
    for dataset in args.datasets.split(","):
        for trial in map(int, args.trials.split(",")):
            wanted = [name for name in args.learners.split(",") if (dataset, trial, name) not in done]
            problem = simulate_paper(dataset, trial=trial) if wanted else None
            for learner in wanted:
                result = train(problem, learner, PAPER_SETTINGS[dataset], args.threads)
                line = {"dataset": dataset, "trial": trial, "learner": learner, **result}
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
    print_table(read_lines(path))


if __name__ == "__main__":
    main()
