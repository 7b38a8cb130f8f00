"""``bopl report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bopl._errors import UsageError
from bopl.cli import exit_code
from bopl.cli.options import EVALUATION_SETTINGS, ROLE_SETTINGS, Json, with_settings
from bopl.cli.output import Output


@with_settings(*ROLE_SETTINGS, *EVALUATION_SETTINGS, "inverse_temperature", "random_state", "n_jobs")
def report(
    source: Annotated[
        str, typer.Argument(help="A run folder or its summary.json; or a log, with a policy file after it.")
    ],
    policy: Annotated[Path | None, typer.Argument(help="The policy to judge on the log.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="File of the report; report.html in the run folder or here by default.")
    ] = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Write the report of a run again, or judge a policy on a log and write a report of that.

    If a policy is judged, the exit code is that of the verdict, as in bopl evaluate.

    Example: bopl report policy.run

    Example: bopl report log.parquet policy.bopl --out report.html
    """
    from bopl.workflow.exporting import report_log, report_run

    output = Output(json)
    warnings: list[str] = []
    code = exit_code.FINE
    if policy is None:
        if settings:
            raise UsageError(
                f"--{next(iter(settings)).replace('_', '-')} needs a log and a policy; a run folder is used as is."
            )
        page, summary = report_run(source, out)
    else:
        from bopl.workflow.config import make_config

        config = make_config({"log": source}, settings)
        page, summary, warnings = report_log(config, policy, out or Path("report.html"))
        code = exit_code.of_verdicts([summary["verdict"]["verdict"]])
    output.say(f"{summary['verdict']['headline']} {summary['verdict']['sentence']}")
    output.say_warnings(warnings)
    output.say(f"Report: {page}")
    output.finish({"report": str(page), "verdict": summary["verdict"], "warnings": warnings}, code)
