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
    try:
        from bopl.report import summarise as summarise_run
    except ImportError:
        return {"evaluation": evaluation.to_dict(), "config": config}
    return summarise_run(policy, held_out, evaluation, audit=audit, config=config, steps=[], encoder=policy.schema_)


def write_page(summary: dict[str, Any], path: Path) -> None:
    """Write the page of a summary."""
    try:
        from bopl.report import write_page as write
    except ImportError:
        path.write_text("<!doctype html><title>report</title>", encoding="utf8")
        return
    write(summary, path)
