"""Simulated logs with a known truth."""

import warnings
from importlib.util import find_spec
from typing import Any

from bopl.simulation.conversion import reward_matrix, supervised_to_bandit, true_value
from bopl.simulation.logging_policy import LinearLoggingPolicy, fit_logging_policy
from bopl.simulation.mixture_world import Mixture, make_mixture, simulate_mixture
from bopl.simulation.shop import Shop, simulate_shop
from bopl.simulation.simulated_problem import (
    Dataset,
    SimulatedProblem,
    Split,
    simulate,
    simulate_digits,
    with_noisy_rewards,
)
from bopl.simulation.world import World, WorldSample, coverage_worlds, hopeless_world, make_world

__all__ = [
    "Dataset",
    "LinearLoggingPolicy",
    "Mixture",
    "Shop",
    "SimulatedProblem",
    "Split",
    "World",
    "WorldSample",
    "coverage_worlds",
    "fit_logging_policy",
    "hopeless_world",
    "make_mixture",
    "make_world",
    "reward_matrix",
    "simulate",
    "simulate_digits",
    "simulate_mixture",
    "simulate_shop",
    "supervised_to_bandit",
    "true_value",
    "with_noisy_rewards",
]


def __getattr__(name: str) -> Any:
    if name not in ("load_dataset", "paper_split", "simulate_paper"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    moved = f"bopl.simulation.{name} is now bopl_paper.dataset.{name}"
    if find_spec("bopl_paper") is not None:
        from bopl_paper import dataset

        warnings.warn(f"{moved}; the old name will be removed in 0.3.", FutureWarning, stacklevel=2)
        return getattr(dataset, name)
    raise ImportError(f"{moved}, in the repository and not in the package: clone it and run `make setup`.")
