"""What logging policies of another strength change: rewards of a few trials beside those of `results/`.

    python benchmarks/logging_strength.py          # Fashion-MNIST: stronger ones, which earn 0.470 on the test data

The strength of the logging policies is solved for on training contexts; ``--reward`` is what they are to earn there.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from bopl.simulation import simulate
from bopl_paper.dataset import load_dataset, paper_split
from bopl_paper.method import build_policy
from bopl_paper.result_line import read_results

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fashion_mnist")
    parser.add_argument("--reward", type=float, default=0.4749)
    parser.add_argument("--methods", default="bopl-regr,bopl-class", help="separated by commas")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    lines = {
        (line["method"], line["trial"]): line for line in read_results(RESULTS) if line["dataset"] == given.dataset
    }
    data = replace(load_dataset(given.dataset), logging_reward=given.reward)
    print("| trial | method | logging, before | logging, now | reward, before | reward, now |")
    print("|---|---|---:|---:|---:|---:|")
    for trial in range(given.trials):
        problem = simulate(data, paper_split(data), trial=trial)
        for method in given.methods.split(","):
            before = lines[method, trial]
            policy = build_policy(method, before["hyper_parameters"], n_jobs=given.threads, device="cpu", seed=trial)
            reward = problem.true_value(policy.fit(problem.train))
            logging = f"{before['logging_reward']:.4f} | {problem.logging_value:.4f}"
            print(f"| {trial} | {method} | {logging} | {before['test_reward']:.4f} | {reward:.4f} |", flush=True)


if __name__ == "__main__":
    main()
