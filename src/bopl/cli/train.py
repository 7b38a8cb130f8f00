"""``bopl train``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import Json, with_settings
from bopl.cli.output import Output
from bopl.cli.table import evaluation_table
from bopl.workflow.config import TrainConfig, make_config, read_config


@with_settings(*(entry.name for entry in fields(TrainConfig) if entry.name != "log"))
def train(
    log: Annotated[str | None, typer.Argument(help="File, folder or pattern with the logged decisions.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; flags come first.")] = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Audit a log, learn a policy from it, judge the policy on samples held out, and write a report.

    Example: bopl train log.parquet --action item --reward click --propensity p --out policy.bopl
    """
    from bopl.workflow.judging import deciding_rows
    from bopl.workflow.run_folder import recorded_fingerprint
    from bopl.workflow.training import train as run

    output = Output(json)
    chosen = make_config({} if config is None else read_config(config), {"log": log}, settings)
    before = None if config is None else recorded_fingerprint(config)
    result = run(chosen, say=output.say, progress=not json)
    is_same = before is None or before == result.policy.trained_on_
    if not is_same:
        output.say("Note: the log is not what it was in the run whose configuration this is.")
    row = deciding_rows(result.evaluation)["policy"]
    code = exit_code.INTERRUPTED if result.is_interrupted else exit_code.of_verdicts([row["verdict"]])
    output.say(evaluation_table(result.evaluation))
    output.say_verdict(row)
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
            "reward_translation": result.policy.reward_translation,
            "rounds": result.policy.n_rounds_,
            "steps": result.steps,
            "log_has_changed": not is_same,
        },
        code,
    )
