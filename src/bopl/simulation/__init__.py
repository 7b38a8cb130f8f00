"""Simulated logs with a known truth."""

from bopl.simulation.conversion import reward_matrix, supervised_to_bandit, true_value
from bopl.simulation.dataset import Dataset, Split, load_dataset, paper_split
from bopl.simulation.logging_policy import LinearLoggingPolicy, fit_logging_policy
from bopl.simulation.mixture import Mixture, make_mixture, simulate_mixture
from bopl.simulation.noise import with_noisy_rewards
from bopl.simulation.problem import SimulatedProblem, simulate, simulate_digits, simulate_paper
from bopl.simulation.shop import Shop, simulate_shop
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
    "load_dataset",
    "make_mixture",
    "make_world",
    "paper_split",
    "reward_matrix",
    "simulate",
    "simulate_digits",
    "simulate_mixture",
    "simulate_paper",
    "simulate_shop",
    "supervised_to_bandit",
    "true_value",
    "with_noisy_rewards",
]
