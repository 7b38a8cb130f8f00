"""``bopl tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import LOG_SETTINGS, ConfigFile, Json, OptionalLogFile, with_settings
from bopl.cli.output import Output

SHOWN = 5


@with_settings(*LOG_SETTINGS, "n_rounds", "holdout", "force", "random_state", "n_jobs")
def tune(
    log: OptionalLogFile = None,
    config: ConfigFile = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Number of configurations to try, including those of earlier calls (default 20)."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Start no new configuration after this many minutes.")] = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Number of configurations to score in parallel.")] = 1,
    engine: Annotated[str, typer.Option(help="tpe, which learns from earlier configurations, or random.")] = "tpe",
    out: Annotated[Path, typer.Option(help="Configuration file for bopl train --config.")] = Path("tuned.toml"),
    json: Json = False,
    **settings: Any,
) -> None:
    """Search for good settings by cross-validation, without using the samples that train will hold out.

    Example: bopl tune log.parquet --action item --reward click --propensity p --trials 20 --out tuned.toml
    """
    from bopl.workflow.config import make_config, read_config
    from bopl.workflow.tuning import tune as run

    output = Output(json)
    chosen = make_config(read_config(config), {"log": log}, settings)
    budget = 20 if trials is None and minutes is None else trials
    with output.heard():
        tuned = run(chosen, out, n_configurations=budget, minutes=minutes, n_folds=folds, n_jobs=jobs, engine=engine)
    output.say(f"Best of {len(tuned.result.configurations)}:")
    for entry in tuned.result.configurations[:SHOWN]:
        output.say(f"  {entry['value']:.4g}  {_settings_text(entry)}")
    output.say(f"Written to {out}. Next: bopl train --config {out}")
    output.finish(
        {
            "config": out,
            "settings": tuned.result.settings,
            "value": tuned.result.value,
            "configurations": tuned.result.configurations,
            "n_failed": tuned.result.n_failed,
        },
        exit_code.of_interruption() if tuned.is_interrupted else exit_code.FINE,
    )


def _settings_text(entry: dict[str, Any]) -> str:
    shown = {name: value for name, value in entry.items() if name not in ("number", "value", "seconds")}
    texts = {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in shown.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())
