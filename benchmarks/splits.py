"""How much of a reward on Scene is the split's: logging policies and methods over splits, ten trials each.

    python benchmarks/splits.py                                     # BOPL-S-regr on the splits of seeds 0 to 11
    python benchmarks/splits.py --seeds 0 --methods all             # every method on the very first split
    python benchmarks/splits.py --trials 1 --exact                  # beside XGBoost's exact trees, on the same logs

Settings are the paper's. The results are on the split of the first seed whose logging policies earn what the paper's
earn, 0.4317 ± 0.0042.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

import bopl
from bopl.simulation import simulate
from bopl_paper.catalogue import METHODS, read_config
from bopl_paper.dataset import load_dataset, paper_split
from bopl_paper.method import build_policy
from bopl_paper.result_line import mean_interval
from bopl_paper.result_table import cell_text

EXACT = "BOPL-S-regr, exact"


def exact_policy(seed: int) -> bopl.BoostedPolicy:
    """Return the policy of BOPL-S-regr with the paper's own learner."""
    known = dict(read_config("scene", "bopl-s-regr").policy)
    learner = bopl.XGBTree("exact", *(known.pop(name) for name in ("max_depth", "min_child_weight", "reg_lambda")))
    objective = bopl.objective.Surrogate(smoothness="paper")
    return bopl.BoostedPolicy(objective, learner.set_params(n_jobs=1), **known, progress=False, random_state=seed)


def measure(task: tuple[int, int], methods: list[str], exact: bool) -> dict[str, float]:
    """Return the rewards of one trial on one split."""
    seed, trial = task
    data = load_dataset("scene")
    problem = simulate(data, paper_split(data, random_state=seed), trial=trial)
    policies = {
        METHODS[name]: build_policy(name, read_config("scene", name).policy, n_jobs=1, device="cpu", seed=trial)
        for name in methods
    }
    if exact:
        policies[EXACT] = exact_policy(trial)
    rewards = {name: problem.true_value(policy.fit(problem.train)) for name, policy in policies.items()}
    return {"Logging": problem.logging_value, **rewards}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default=",".join(map(str, range(12))), help="of the splits, separated by commas")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--methods", default="bopl-s-regr", help="separated by commas, or all")
    parser.add_argument("--exact", action="store_true", help="BOPL-S-regr with XGBoost's exact trees as well")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    methods = [name for name in METHODS if name != "logging"] if given.methods == "all" else given.methods.split(",")
    seeds = [int(seed) for seed in given.seeds.split(",")]
    tasks = [(seed, trial) for seed in seeds for trial in range(given.trials)]
    rewards: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(partial(measure, methods=methods, exact=given.exact), tasks)
        for (seed, _), trial_rewards in zip(tasks, found, strict=True):
            for name, reward in trial_rewards.items():
                rewards[name][seed].append(reward)
    print(f"| split | {' | '.join(rewards)} |\n|---|{'---:|' * len(rewards)}")
    for seed in seeds:
        print(f"| {seed} | {' | '.join(cell_text(mean_interval(by_seed[seed])) for by_seed in rewards.values())} |")
    if len(seeds) > 1:
        for name, by_seed in rewards.items():
            spread = np.std([np.mean(by_seed[seed]) for seed in seeds], ddof=1)
            print(f"{name}: the means of {len(seeds)} splits have a standard deviation of {spread:.4f}.")
    if given.exact:
        pairs = [np.subtract(rewards[EXACT][seed], rewards["BOPL-S-regr"][seed]) for seed in seeds]
        print(f"Exact trees less ours, over {len(tasks)} logs: {cell_text(mean_interval(np.concatenate(pairs)))}.")


if __name__ == "__main__":
    main()
