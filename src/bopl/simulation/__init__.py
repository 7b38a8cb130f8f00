"""Simulated logs with a known truth."""

from bopl.simulation.conversion import reward_matrix, supervised_to_bandit, true_value
from bopl.simulation.digits import SimulatedProblem, simulate_digits
from bopl.simulation.logging_policy import LinearLoggingPolicy, fit_logging_policy

__all__ = [
    "LinearLoggingPolicy",
    "SimulatedProblem",
    "fit_logging_policy",
    "reward_matrix",
    "simulate_digits",
    "supervised_to_bandit",
    "true_value",
]
