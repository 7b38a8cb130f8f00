"""The demo: from a simulated log to a better policy, with the truth beside the estimate."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bopl.evaluation import evaluate
from bopl.learner import HistTree
from bopl.policy import BoostedPolicy, Policy
from bopl.simulation import SimulatedProblem, simulate_digits

OBJECTIVE_NAMES = {"ips": "BOPL-regr", "surrogate": "BOPL-S-regr"}


def run_demo(*, n_rounds: int = 150, random_state: int = 0, console: Console | None = None) -> dict[str, float]:
    """Train both objectives on the digits, print the table, return the true reward of each policy."""
    console = console or Console()
    problem = simulate_digits(random_state=random_state)
    console.print(
        f"A log of {problem.train.n_samples:,} decisions: 64 context features, 10 actions, the logging policy earns "
        f"{problem.logging_value:.3f}."
    )
    table = Table(title="Reward on held-out digits")
    for heading in ("policy", "true reward", "estimate from the log", "effective samples"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    table.add_row(
        "logging", f"{problem.logging_value:.3f}", f"{problem.test.reward.mean():.3f}", f"{len(problem.test)}"
    )
    rewards = {"logging": problem.logging_value}
    for objective, name in OBJECTIVE_NAMES.items():
        policy = demo_policy(objective, n_rounds=n_rounds, random_state=random_state).fit(problem.train)
        rewards[name] = problem.true_value(policy)
        estimate, n_effective = _estimate(policy, problem)
        table.add_row(name, f"{rewards[name]:.3f}", f"{estimate:.3f}", f"{n_effective:.0f}")
    console.print(table)
    console.print(
        "The estimate uses only what was logged: context, action, propensity and reward of the test decisions."
    )
    return rewards


def demo_policy(objective: str, *, n_rounds: int = 150, random_state: int = 0) -> BoostedPolicy:
    """Return the policy the demo trains."""
    return BoostedPolicy(
        objective,
        HistTree(max_depth=14, min_child_weight=20.0),
        n_rounds=n_rounds,
        reward_translation=-0.2,
        random_state=random_state,
    )


def _estimate(policy: Policy, problem: SimulatedProblem) -> tuple[float, float]:
    """Return the self-normalised estimate of the greedy policy on the test log, and its effective sample size."""
    log = problem.test
    agrees = (policy.predict(log.context) == log.action).astype(float)  # probability of the logged action
    row = evaluate(log, agrees, estimators="snips").row()
    return row["value"], row["ess"]
