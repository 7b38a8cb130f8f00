"""``bopl train``."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import ConfigFile, Json, OptionalLogFile, with_settings
from bopl.cli.output import Output, evaluation_tables
from bopl.workflow.config import TrainConfig, make_config, read_config


@with_settings(*(entry.name for entry in fields(TrainConfig) if entry.name != "log"))
def train(
    log: OptionalLogFile = None,
    others: Annotated[
        list[str] | None, typer.Argument(metavar="[LOGS]...", help="Further Parquet files of the log.")
    ] = None,
    config: ConfigFile = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Audit a log, learn a policy from it, judge the policy on held-out samples, and write a report.

    Candidates race on validation samples, and the best is trained on all samples that are not held out. If none beats
    the logging policy, the result is the logging policy. --objective trains a single objective without a race.

    Example: bopl train log.parquet --action item --reward click --propensity p --out policy.bopl
    """
    from bopl.evaluation.confounding import describe_confounding
    from bopl.workflow.deciding import describe_acting
    from bopl.workflow.run_folder import recorded_fingerprint
    from bopl.workflow.training import train as run

    output = Output(json)
    chosen = make_config(read_config(config), {"log": log, "more_logs": others or None}, settings)
    before = None if config is None else recorded_fingerprint(config)
    with output.heard():
        result = run(chosen, progress=not json)
    is_same = before is None or before == result.policy.trained_on_
    if not is_same:
        output.say("Note: the log has changed since the run that wrote this configuration.")
    row = result.evaluation.decision("policy")
    code = exit_code.of_interruption() if result.is_interrupted else exit_code.of_verdicts([row["verdict"]])
    output.say_each(evaluation_tables(result.evaluation))
    output.say_verdict(row)
    output.say_each(describe_confounding(result.evaluation.confounding))
    output.say(describe_acting(result.policy))
    output.say(f"Policy: {result.folder.out}")
    output.say(f"Report: {result.folder.report}")
    output.finish(
        {
            "verdict": row["verdict"],
            "estimator": row["estimator"],
            "reason": row["reason"],
            "policy": str(result.folder.out),
            "run": str(result.folder.path),
            "report": str(result.folder.report),
            "evaluation": result.evaluation.to_dict(),
            "split": result.split.to_dict(),
            **result.folder.log_facts,
            **_training_facts(result.policy),
            "left_out": result.summary["left_out"],
            "drift": result.summary["drift"],
            "steps": result.steps,
            "log_has_changed": not is_same,
        },
        code,
    )


def _training_facts(policy: Any) -> dict[str, Any]:
    """Return facts about the training: the leaderboard of a race, the translation of a single objective."""
    from bopl.workflow.deciding import is_greedy

    board = getattr(policy, "leaderboard_", None)
    return {
        "n_rounds": policy.n_rounds_,
        "inverse_temperature": policy.trained_inverse_temperature,  # null if it is greedy
        "is_greedy": is_greedy(policy),
        "reward_translation": getattr(policy, "reward_translation", None),
        "leaderboard": None if board is None else board.to_dict(),
        "is_logging": getattr(policy, "is_logging_", False),
    }
