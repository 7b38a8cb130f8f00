"""The summary of a run and its page; both are made in `bopl.report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bopl.evaluation import Evaluation
from bopl.log import BanditLog
from bopl.log.finding import Audit


def summarise(
    policy: Any, held_out: BanditLog, evaluation: Evaluation, audit: Audit | None, config: dict[str, Any]
) -> dict[str, Any]:
    """Return what a log says of a policy as plain values: all that the page shows, but for the steps of the run."""
    from bopl import report

    return report.summarise(policy, held_out, evaluation, audit=audit, config=config, encoder=held_out.schema)


def write_page(summary: dict[str, Any], path: Path) -> None:
    """Write the page of a summary."""
    from bopl import report

    report.write_page(summary, path)
