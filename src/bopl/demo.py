"""The demo: from a simulated log to a better policy and its report, with the truth beside the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bopl import report
from bopl.evaluation import evaluate
from bopl.learner import HistTree
from bopl.log import BanditLog
from bopl.log.format import write_table
from bopl.policy import BoostedPolicy, Policy
from bopl.race import AutoPolicy
from bopl.reward import BoostedRewardModel
from bopl.simulation import SimulatedProblem, simulate_digits
from bopl.workflow.run_folder import make_folder, write_summary

OBJECTIVE_NAMES = {"ips": "BOPL-regr", "surrogate": "BOPL-S-regr"}
RACE_NAME = "AutoPolicy"
SIDE = 8  # pixels of a digit


@dataclass(frozen=True)
class DemoResult:
    """What the demo has made: the true reward of each policy, and where its files are."""

    rewards: dict[str, float]
    report: Path
    log: Path


def run_demo(
    *, n_rounds: int = 150, random_state: int = 0, out: str | Path = "bopl-demo", console: Console | None = None
) -> DemoResult:
    """Train policies on the digits, print the table, and write the report and the log to the folder ``out``.

    Two of them boost the paper's objectives for ``n_rounds``; the third is the winner of a race.
    """
    console = console or Console()
    folder = Path(out)
    make_folder(folder)
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
    train = _named(problem.train)
    policies: dict[str, BoostedPolicy | AutoPolicy] = {
        name: demo_policy(objective, n_rounds=n_rounds, random_state=random_state).fit(train)
        for objective, name in OBJECTIVE_NAMES.items()
    }
    race = AutoPolicy(random_state=random_state).fit(train)
    for name, policy in (policies | {RACE_NAME: race}).items():
        rewards[name] = problem.true_value(policy)
        estimate, n_effective = _estimate(policy, problem)
        table.add_row(name, f"{rewards[name]:.3f}", f"{estimate:.3f}", f"{n_effective:.0f}")
    console.print(table)
    n_candidates = sum(entry.candidate != "blend" for entry in race.leaderboard_)
    console.print(f"{RACE_NAME} let {n_candidates} candidates race. {race.leaderboard_.verdict}")
    console.print(
        "The estimate uses only what was logged: context, action, propensity and reward of the test decisions. Here "
        "policies take their likeliest action; the report judges the last one as it would be deployed."
    )
    result = DemoResult(rewards, folder / "report.html", folder / "log.parquet")
    _write_report(race, RACE_NAME, problem, result.report)
    _write_log(problem.train, result.log)
    console.print(f"Report: {result.report}", soft_wrap=True)
    console.print(f"The log, to try the other commands on: bopl train {result.log}", soft_wrap=True)
    return result


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


def _write_report(policy: Policy, name: str, problem: SimulatedProblem, path: Path) -> None:
    log = _named(problem.test)
    model = BoostedRewardModel(random_state=0).fit(_named(problem.train))
    evaluation = evaluate(log, {name: policy}, estimators="all", reward_model=model)
    told = {"data": "handwritten digits"}
    summary = report.summarise(policy, log, evaluation, audit=problem.train.audit(), config=told, encoder=log.schema)
    report.write_page(summary, path)
    write_summary(summary, path.with_name("summary.json"))


def _named(log: BanditLog) -> BanditLog:
    """Return the log with pixels called by their row and column."""
    names = [f"pixel {row},{column}" for row in range(SIDE) for column in range(SIDE)]
    return BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, feature_names=names)


def _write_log(log: BanditLog, path: Path) -> None:
    columns = dict(zip(_named(log).feature_names or (), np.asarray(log.context).T, strict=True))
    write_table({**columns, "action": log.action, "reward": log.reward, "propensity": log.propensity}, path)
