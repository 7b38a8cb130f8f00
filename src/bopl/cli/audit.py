"""``bopl audit``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bopl._errors import UsageError
from bopl.cli import exit_code
from bopl.cli.options import LOG_SETTINGS, SCALE_SETTINGS, Json, LogFile, log_files, with_settings
from bopl.cli.output import Output


@with_settings(*LOG_SETTINGS, *SCALE_SETTINGS, "keep", "random_state")
def audit(
    log: LogFile,
    others: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOGS]... [POLICY]",
            help="Further Parquet files of the log; a policy file, to check whether the log can answer for it.",
        ),
    ] = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Check whether a log can be trusted, and whether it can answer for a policy.

    A problem makes the exit code 1.

    Example: bopl audit log.parquet --action item --reward click --propensity p

    Several Parquet files form one log; a log that does not fit into memory is read in pieces: bopl audit days/*.parquet
    """
    from bopl.workflow.auditing import audit_file
    from bopl.workflow.config import make_config
    from bopl.workflow.reading import describe_log, mean_reward, origin_facts

    output = Output(json)
    more_logs, policies = log_files(others or [])
    if len(policies) > 1:
        raise UsageError(f"an audit takes only one policy; got {policies[0]!r} and {policies[1]!r}.")
    policy = policies[0] if policies else None
    config = make_config({"log": log, "more_logs": more_logs}, settings)
    with output.heard():
        read, found = audit_file(config, policy)
    output.say(describe_log(read, config.paths))
    output.say(found)
    findings = [
        {"check": one.check, "status": one.status, "value": one.value, "sentence": one.sentence}
        for one in found.findings
    ]
    output.finish(
        {
            "n_samples": read.n_samples,
            "n_actions": read.n_actions,
            "n_features": read.n_features,
            "mean_reward": mean_reward(read),
            **origin_facts(read),
            "n_problems": len(found.problems),
            "findings": findings,
            "leaks": [leak.to_dict() for leak in found.leaks],
        },
        exit_code.BAD_DATA if found.problems else exit_code.FINE,
    )
