"""``bopl evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import EVALUATION_SETTINGS, ROLE_SETTINGS, Json, with_settings
from bopl.cli.output import Output
from bopl.cli.table import evaluation_table


@with_settings(*ROLE_SETTINGS, *EVALUATION_SETTINGS, "inverse_temperature", "random_state", "n_jobs")
def evaluate(
    log: Annotated[str, typer.Argument(help="File, folder or pattern with decisions the policies did not learn from.")],
    policies: Annotated[list[Path], typer.Argument(help="One or more policy files.")],
    json: Json = False,
    **settings: Any,
) -> None:
    """Estimate from a log what policies would earn, with intervals and a verdict.

    The policy file remembers the names of the log's columns; flags override them. Several policies are judged on the
    same samples; the exit code is 0 only if all are better than the logging policy.

    Example: bopl evaluate log.parquet policy.bopl other.bopl
    """
    from bopl.workflow.config import make_config
    from bopl.workflow.judging import deciding_rows, evaluate_files

    output = Output(json)
    evaluation, warnings = evaluate_files(make_config({"log": log}, settings), policies)
    output.say(evaluation_table(evaluation))
    deciding = deciding_rows(evaluation)
    for name, row in deciding.items():
        output.say_verdict(row, name)
    for note in evaluation.notes:
        output.say(note)
    output.say_warnings(warnings)
    verdicts = {name: row["verdict"] for name, row in deciding.items()}
    output.finish(
        {**evaluation.to_dict(), "verdicts": verdicts, "warnings": warnings}, exit_code.of_verdicts(verdicts.values())
    )
