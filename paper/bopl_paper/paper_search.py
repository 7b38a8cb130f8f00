"""How the paper chose its settings: random search over its ranges, by validation reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl.search import Float, Int, SearchResult, SimulatedScorer, search
from bopl.search.space import Space
from bopl.simulation import SimulatedProblem
from bopl_paper.catalogue import read_config
from bopl_paper.method import build_policy
from bopl_paper.task_run import make_problem

LOG_SCALED = ("learning_rate",)  # spans orders of magnitude; the paper does not say how it drew


def paper_space(dataset: str, method: str) -> Space:
    """Return the ranges the paper searched for a method on a dataset.

    >>> paper_space("scene", "bopl-regr")["n_rounds"]
    Int(low=100, high=1000, log=False)
    """
    ranges = read_config(dataset, method).search
    if not ranges:
        raise UsageError(f"the paper has no search for {method} on {dataset}.")
    return {
        name: Int(int(low), int(high))
        if isinstance(low, int) and isinstance(high, int)
        else Float(float(low), float(high), log=name in LOG_SCALED)
        for name, (low, high) in ranges.items()
    }


def tune(
    dataset: str,
    method: str,
    *,
    trials: Sequence[int],
    study: Path | None = None,
    n_configurations: int | None = None,
    minutes: float | None = None,
    n_jobs: int = 1,
    threads: int = 1,
    device: str = "auto",
    n_samples: int | None = None,
) -> SearchResult:
    """Search the paper's ranges; every configuration is trained on each of the simulated logs, as by `run_task`.

    Parameters
    ----------
    dataset, method : str
    trials : sequence of int
        The simulated logs; the paper uses ten.
    study, n_configurations, minutes, n_jobs
        As for `bopl.search.search`.
    threads : int
        Number of threads of each configuration.
    device : str
        Device of the networks.
    n_samples : int, optional
        Number of training samples, if not all.
    """
    space, fixed = paper_space(dataset, method), read_config(dataset, method).policy
    return search(
        partial(_build, method, fixed, threads, device),
        space,
        SimulatedScorer(partial(_problem, dataset, n_samples), tuple(trials), is_seeded=True),
        study=study,
        n_configurations=n_configurations,
        minutes=minutes,
        n_jobs=n_jobs,
        threads=threads,
        identity={
            "dataset": dataset,
            "method": method,
            "trials": sorted(trials),
            "n_samples": n_samples,
            "fixed settings": {name: fixed[name] for name in sorted(fixed) if name not in space},
        },
    )


def _build(method: str, fixed: Mapping[str, Any], threads: int, device: str, settings: dict[str, Any]) -> Any:
    return build_policy(method, {**fixed, **settings}, n_jobs=threads, device=device)


def _problem(dataset: str, n_samples: int | None, trial: int) -> SimulatedProblem:
    return make_problem(dataset, trial, n_samples)
