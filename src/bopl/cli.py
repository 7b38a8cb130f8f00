"""The ``bopl`` command."""

from __future__ import annotations

import typer

from bopl.experiment.command import app as reproduce_app

app = typer.Typer(
    help="Learn better decisions from logs, and say honestly how good they are.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


app.add_typer(reproduce_app, name="reproduce")


@app.callback()
def _group() -> None:
    """Make commands of the functions below, even while there is only one."""


@app.command()
def demo(
    rounds: int = typer.Option(150, min=1, help="Boosting rounds."),
    seed: int = typer.Option(0, min=0, help="Seed of the simulated log."),
) -> None:
    """Learn from a simulated log of handwritten digits and compare with the truth.

    Example: bopl demo --rounds 100
    """
    from bopl.demo import run_demo

    run_demo(n_rounds=rounds, random_state=seed)


def main() -> None:
    """Run the command; errors are one sentence, without a traceback."""
    try:
        app()
    except (ValueError, TypeError, ImportError, OSError, RuntimeError) as error:
        typer.echo(f"bopl: {error}", err=True)
        raise SystemExit(1) from None
