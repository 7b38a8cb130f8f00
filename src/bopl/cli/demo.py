"""``bopl demo``."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    rounds: Annotated[int, typer.Option(min=1, help="Boosting rounds.")] = 150,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated log.")] = 0,
) -> None:
    """Learn from a simulated log of handwritten digits and compare with the truth.

    Example: bopl demo --rounds 100
    """
    from bopl.demo import run_demo

    run_demo(n_rounds=rounds, random_state=seed)
