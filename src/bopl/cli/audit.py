"""``bopl audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import LOG_SETTINGS, Json, with_settings
from bopl.cli.output import Output


@with_settings(*LOG_SETTINGS, "keep", "random_state")
def audit(
    log: Annotated[str, typer.Argument(help="File, folder or pattern with the logged decisions.")],
    policy: Annotated[Path | None, typer.Argument(help="A policy file: can this log answer for it?")] = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Check whether a log can be trusted, and whether it can answer for a policy.

    A problem makes the exit code 1.

    Example: bopl audit log.parquet --action item --reward click --propensity p
    """
    from bopl.workflow.audit import audit_file
    from bopl.workflow.config import make_config
    from bopl.workflow.reading import describe_log, origin_facts

    output = Output(json)
    read, found = audit_file(make_config({"log": log}, settings), policy)
    output.say(describe_log(read, log))
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
            "mean_reward": float(read.reward.mean()),
            **origin_facts(read),
            "n_problems": len(found.problems),
            "findings": findings,
            "leaks": [leak.to_dict() for leak in found.leaks],
        },
        exit_code.BAD_DATA if found.problems else exit_code.FINE,
    )
