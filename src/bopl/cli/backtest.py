"""``bopl backtest``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import EVALUATION_SETTINGS, LOG_SETTINGS, ConfigFile, Json, OptionalLogFile, with_settings
from bopl.cli.output import Output, evaluation_tables, narrow_table
from bopl.workflow.config import RACE_SETTINGS, SINGLE_SETTINGS

if TYPE_CHECKING:
    from bopl.workflow.backtest import Period

TRAINING = ("objective", "minutes", *RACE_SETTINGS, *SINGLE_SETTINGS, "validation_fraction", "force")


@with_settings(*LOG_SETTINGS, *EVALUATION_SETTINGS, *TRAINING, "random_state", "n_jobs")
def backtest(
    log: OptionalLogFile = None,
    periods: Annotated[
        int | None, typer.Option(min=1, help="Number of periods to judge, with equally many samples (default 4).")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(help="Length of a period, such as 7d or 12h; all periods are judged, or the last --periods."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="How far back training goes, such as 28d; to the beginning by default.")
    ] = None,
    config: ConfigFile = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Train on the past, judge on the next period, and repeat: one verdict over all periods.

    Every period is judged by a policy that was trained, as in train, on the samples before it. --minutes is divided
    among the periods. Nothing is written; if the verdict is good, run train.

    Example: bopl backtest log.parquet --action item --reward click --propensity p --time when --every 7d
    """
    from bopl.workflow.backtest import backtest_file
    from bopl.workflow.config import make_config, read_config
    from bopl.workflow.periods import PeriodPlan

    output = Output(json)
    chosen = make_config(read_config(config), {"log": log}, settings)
    with output.heard():
        result = backtest_file(chosen, PeriodPlan(periods, every, window), progress=not json)
    output.say(_period_table(result.periods))
    output.say_each(evaluation_tables(result.evaluation))
    output.say_verdict(result.row)
    output.say_each(result.evaluation.notes)
    code = exit_code.of_interruption() if result.is_interrupted else exit_code.of_verdicts([result.row["verdict"]])
    output.finish(result.to_dict(), code)


def _period_table(periods: tuple[Period, ...]) -> Any:
    """Return one line per period in a table that fits a terminal of eighty columns."""
    from rich.text import Text

    from bopl.evaluation.result import STYLES
    from bopl.log.instant import instant_text

    headings = ("from", "to", "trained on", "judged on", "uplift and its interval", "verdict")
    table = narrow_table(headings, headings[2:5], padding=(0, 1, 0, 0))
    for period in periods:
        row, test = period.row, period.split.test
        table.add_row(
            instant_text(test.first),
            instant_text(test.last),
            f"{period.split.train.n_samples:,}",
            f"{test.n_samples:,}",
            f"{row['uplift']:+.3g} [{row['uplift_ci_lower']:+.3g}, {row['uplift_ci_upper']:+.3g}]",
            Text(row["verdict"], style=STYLES[row["verdict"]]),
        )
    return table
