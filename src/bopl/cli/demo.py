"""``bopl demo``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer

from bopl.cli.options import Json
from bopl.cli.output import Output


def demo(
    n_rounds: Annotated[int, typer.Option(min=1, help="Number of boosting rounds of the paper's policies.")] = 150,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the simulated log.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report and the log.")] = Path("bopl-demo"),
    json: Json = False,
) -> None:
    """Learn from a simulated log of handwritten digits, compare with the truth, and write a report.

    Example: bopl demo --n-rounds 100
    """
    from rich.console import Console

    from bopl.demo import run_demo

    console = Console(file=io.StringIO()) if json else Console()
    result = run_demo(n_rounds=n_rounds, random_state=random_state, out=out, console=console)
    Output(json).finish({"rewards": result.rewards, "report": result.report, "log": result.log})
