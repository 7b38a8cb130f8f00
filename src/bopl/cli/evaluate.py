"""``bopl evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bopl._errors import UsageError
from bopl.cli import exit_code
from bopl.cli.options import EVALUATION_SETTINGS, ROLE_SETTINGS, SCALE_SETTINGS, Json, log_files, with_settings
from bopl.cli.output import Output, evaluation_tables


@with_settings(*ROLE_SETTINGS, *SCALE_SETTINGS, *EVALUATION_SETTINGS, "inverse_temperature", "random_state", "n_jobs")
def evaluate(
    log: Annotated[
        str, typer.Argument(help="File, folder or pattern with decisions that trained none of the policies.")
    ],
    policies: Annotated[
        list[Path],
        typer.Argument(
            metavar="[LOGS]... POLICIES...", help="Further Parquet files of the log; one or more policy files."
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(help="File of the policy in production, if it is not the logging policy.")
    ] = None,
    head_to_head: Annotated[
        bool, typer.Option("--head-to-head", help="Also compare the policies with each other, in pairs.")
    ] = False,
    json: Json = False,
    **settings: Any,
) -> None:
    """Estimate what policies would earn, with intervals and a verdict.

    The policy file remembers the names of the log's columns; flags override them. Several policies are judged on the
    same samples, and their verdicts hold simultaneously. The exit code is 0 only if all of them are better than the
    logging policy, or than the policy they are compared with.

    Example: bopl evaluate log.parquet policy.bopl other.bopl --head-to-head
    """
    from bopl.workflow.config import make_config
    from bopl.workflow.judging import evaluate_files

    output = Output(json)
    more_logs, files = log_files(policies)
    if not files:
        raise UsageError("there is no policy to evaluate: name a policy file after the log.")
    chosen = make_config({"log": log, "more_logs": more_logs}, settings)
    with output.heard():
        evaluation, warnings = evaluate_files(chosen, files, against, head_to_head=head_to_head)
    output.say_each(evaluation_tables(evaluation))
    for decision in evaluation.decisions:
        output.say_verdict(decision, decision.policy)
    output.say_each(evaluation.notes)
    output.say_warnings(warnings)
    verdicts = {decision.policy: decision.verdict for decision in evaluation.decisions}
    output.finish(
        {**evaluation.to_dict(), "verdicts": verdicts, "warnings": warnings}, exit_code.of_verdicts(verdicts.values())
    )
