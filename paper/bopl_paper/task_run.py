"""One trial: simulate the log, train the policy, measure it against the truth."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._machine import peak_memory_mib, versions
from bopl._typing import FloatArray
from bopl.policy.policy import Policy
from bopl.simulation import (
    SimulatedProblem,
    Split,
    make_mixture,
    simulate,
    simulate_mixture,
    with_noisy_rewards,
)
from bopl.simulation.simulated_problem import LOGGING_SHARE
from bopl_paper.catalogue import COLUMNS, DEFAULT, LOGGING, read_config
from bopl_paper.dataset import load_dataset, paper_split
from bopl_paper.method import build_policy, resolve_device
from bopl_paper.task import Task, shrink

if TYPE_CHECKING:
    from bopl.race import Leaderboard

# Table 2 compares the direct method's estimate, by BRR-xgb's regressor, with the truth on these datasets.
DIRECT_METHOD_DATASETS = ("scene", "tmc2007_500", "tmc2007_500_v1")


def run_task(task: Task) -> list[dict[str, Any]]:
    """Return one result line per trial of the task."""
    problems = [make_problem(task.dataset, trial, task.n_samples) for trial in task.trials]
    start = time.perf_counter()
    policies = [problem.logging_policy for problem in problems] if task.method in LOGGING else _fit(task, problems)
    duration = (time.perf_counter() - start) / len(problems)
    lines = []
    for trial, problem, policy in zip(task.trials, problems, policies, strict=True):
        line = _describe(task, trial, duration) | {"n_train": problem.train.n_samples}
        line |= _measure(task, problem, policy)
        lines.append(line | {"memory": peak_memory_mib()})
    return lines


_load_once = lru_cache(maxsize=1)(load_dataset)


def make_problem(dataset: str, trial: int, n_samples: int | None) -> SimulatedProblem:
    """Return the simulated logs of a trial.

    Parameters
    ----------
    dataset : str
        One of `COLUMNS`.
    trial : int
    n_samples : int, optional
        Approximate size of the training log, if not all; the other parts keep their share of the dataset.
    """
    column = COLUMNS[dataset]
    if column.n_actions is not None:
        sized = {} if n_samples is None else {"n_samples": n_samples}
        problem = simulate_mixture(make_mixture(column.n_actions), trial=trial, **sized)
    else:
        data = _load_once(column.data)
        split = paper_split(data, random_state=trial if column.has_split_per_trial else None)
        split = _drawn(split, column.n_drawn, trial) if n_samples is None else _shrunk(split, n_samples)
        problem = simulate(data, split, trial=trial)
    return with_noisy_rewards(problem, random_state=trial) if column.is_noisy else problem


def _shrunk(split: Split, n_samples: int) -> Split:
    """Return the first rows of every part, in proportion."""
    share = min(n_samples / ((1.0 - LOGGING_SHARE) * len(split.train)), 1.0)
    parts = [part[: max(round(share * len(part)), 500)] for part in (split.train, split.validation, split.test)]
    return Split(*parts)


def _drawn(split: Split, n_drawn: int | None, trial: int) -> Split:
    """Return the split with a training part of which this many samples are logged; the test part stays whole."""
    if n_drawn is None:
        return split
    order = np.random.default_rng([trial, 5]).permutation(split.train)
    return replace(split, train=order[: round(n_drawn / (1.0 - LOGGING_SHARE))])


def _fit(task: Task, problems: list[SimulatedProblem]) -> list[Any]:
    policies = [
        build_policy(task.method, task.settings, n_jobs=task.threads, device=task.device, seed=trial)
        for trial in task.trials
    ]
    if len(policies) == 1:
        return [policies[0].fit(problems[0].train)]
    from bopl.baseline import fit_together

    return fit_together(policies, [problem.train for problem in problems])


def _describe(task: Task, trial: int, duration: float) -> dict[str, Any]:
    return {
        "dataset": task.dataset,
        "method": task.method,
        "trial": trial,
        "seed": trial,
        "hyper_parameters": task.settings,
        "n_samples": task.n_samples,
        "versions": versions(),
        "threads": task.threads,
        "device": resolve_device(task.method, task.device),
        "together": len(task.trials),
        "duration": round(duration, 3),
    }


def _measure(task: Task, problem: SimulatedProblem, policy: Any) -> dict[str, Any]:
    if task.method == "logging":  # the only policy the paper does not make greedy
        return {
            "test_reward": problem.logging_value,
            "validation_reward": _expected_reward(policy, problem.validation.context, problem.validation_reward),
            "logging_reward": problem.logging_value,
        }
    if task.is_figure:
        return _measure_rounds(problem, policy)
    measured: dict[str, Any] = {
        "test_reward": problem.true_value(policy),
        "validation_reward": problem.validation_value(policy),
        "logging_reward": problem.logging_value,
    }
    if hasattr(policy, "best_epoch_"):
        measured["best_epoch"] = policy.best_epoch_
    if hasattr(policy, "n_rounds_"):
        measured["rounds"] = policy.n_rounds_
    if task.method == DEFAULT:
        measured |= _describe_race(policy.leaderboard_)
        measured["value_sampled"] = _expected_reward(policy, problem.test.context, problem.test_reward)
    if task.dataset in DIRECT_METHOD_DATASETS and task.method == "brr-xgb":
        measured["direct_method"] = _direct_method(task, problem, policy)
    return measured


def _describe_race(leaderboard: Leaderboard) -> dict[str, Any]:
    """Return the outcome of a race: its verdict, and the winner or the parts of the winning blend."""
    blended = [entry.candidate for entry in leaderboard if entry.status == "in the blend"]
    winners = blended or [entry.candidate for entry in leaderboard if entry.status == "won"]
    return {"verdict": leaderboard.verdict, "winners": winners}


def _expected_reward(policy: Policy, context: Any, reward: FloatArray) -> float:
    return float((policy.predict_proba(context) * reward).sum(axis=1).mean())


def _measure_rounds(problem: SimulatedProblem, policy: Any) -> dict[str, Any]:
    rows = np.arange(problem.test.n_samples)
    test_reward = [
        float(problem.test_reward[rows, score.argmax(axis=1)].mean())
        for score in policy.staged_decision_function(problem.test.context)
    ]
    history = policy.history_
    return {
        "gradient_norm": [float(f"{value:.6g}") for value in history["gradient_norm"]],
        "training_reward": [round(float(value), 6) for value in history["snips_value"]],
        "round_reward": [round(value, 6) for value in test_reward],
        "test_reward": test_reward[-1],
        "validation_reward": problem.validation_value(policy),
        "logging_reward": problem.logging_value,
    }


def _direct_method(task: Task, problem: SimulatedProblem, regressor: Any) -> dict[str, float]:
    """Return the mean reward that the regressor predicts for what its own policy and BOPL-regr do on the test contexts.

    BOPL-regr is trained once more: the same policy as in its own line of this trial, at a fraction of the
    regressor's cost.
    """
    settings = read_config(task.dataset, "bopl-regr").policy
    settings = shrink(settings) if task.n_samples else settings
    other = build_policy("bopl-regr", settings, n_jobs=task.threads, seed=task.trials[0]).fit(problem.train)
    context = problem.test.context
    predicted, rows = regressor.decision_function(context), np.arange(problem.test.n_samples)
    return {
        name: float(predicted[rows, policy.decision_function(context).argmax(axis=1)].mean())
        for name, policy in (("brr-xgb", regressor), ("bopl-regr", other))
    }
