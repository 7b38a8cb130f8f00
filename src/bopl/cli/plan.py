"""``bopl plan``."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bopl._errors import UsageError, checking_usage, visible
from bopl.cli import exit_code
from bopl.cli.options import LOG_SETTINGS, Json, LogFile, with_settings
from bopl.cli.output import Output

if TYPE_CHECKING:
    from bopl.workflow.file_plan import FilePlan

RACE_SETTINGS = ("include", "exclude", "minutes")
TRAINING_SETTINGS = ("objective", *RACE_SETTINGS, "n_rounds", "max_depth", "holdout", "validation_fraction", "force")


@with_settings(*LOG_SETTINGS, "confidence", "inverse_temperature", *TRAINING_SETTINGS, "random_state", "n_jobs")
def plan(
    log: LogFile,
    policies: Annotated[
        list[Path] | None, typer.Argument(help="Policy files; without any, the plan covers always taking one action.")
    ] = None,
    min_uplift: Annotated[
        str | None,
        typer.Option(help="Minimum uplift of interest, per decision (0.001) or as a share of what is earned now (1%)."),
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of detecting a true difference.")] = 0.8,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve", help="Train on an eighth, a quarter, a half and all samples, to see if more data helps."
        ),
    ] = False,
    json: Json = False,
    **settings: Any,
) -> None:
    """Say how many decisions it takes to detect a difference, and whether more data would help.

    The numbers come from the weights and rewards of the log. --curve trains policies on growing parts of it and judges
    them on the same held-out samples: the single objective dr, or the race if --minutes is given. The exit code is 4
    if the log is too small for the given --min-uplift.

    Example: bopl plan log.parquet policy.bopl --min-uplift 1%
    """
    from bopl._settings import check_number
    from bopl.workflow.config import AUTO, make_config
    from bopl.workflow.file_plan import PlanQuestion, plan_curve, plan_file

    output = Output(json)
    _check_use(policies or [], curve, settings)
    if curve:
        settings.setdefault("objective", AUTO if any(name in settings for name in RACE_SETTINGS) else "dr")
    config, question = make_config({"log": log}, settings), PlanQuestion(min_uplift, power)
    with checking_usage():
        check_number("power", power, low=0.0, high=1.0, low_open=True, high_open=True)
    if curve:
        with output.heard():
            found = plan_curve(config, question, progress=not json)
    else:
        found = plan_file(config, policies or [], question)
    _say(found, config.confidence, power, policies or [], output)
    output.finish(
        {
            "n_samples": found.log.n_samples,
            "logging_value": float(found.log.reward.mean()),
            "confidence": config.confidence,
            "power": power,
            "min_uplift": found.min_uplift,
            "plan": list(found.plan.rows),
            "is_enough": found.is_enough,
            "curve": None if found.curve is None else found.curve.to_dict(),
            "notes": found.notes,
            "warnings": found.warnings,
        },
        exit_code.FINE if found.is_enough else exit_code.NOT_ENOUGH_EVIDENCE,
    )


def _say(found: FilePlan, confidence: float, power: float, policies: list[Path], output: Output) -> None:
    """Print what was found: a table, and what its lines mean."""
    together = f" for all {len(policies)} policies together" if len(policies) > 1 else ""
    output.say(
        f"{found.log.n_samples:,} decisions; the logging policy earns {found.log.reward.mean():.4g}; "
        f"{100.0 * confidence:.4g}% confidence{together}, {100.0 * power:.4g}% power."
    )
    output.say(_table(found))
    for row in found.plan.rows[: len(policies)] if found.curve is None else found.plan.rows[-1:]:
        output.say(_sentence(row, found.min_uplift))
    if found.curve is None and not policies:
        output.say("Each line is the policy that always takes this action; plan again once you have a policy file.")
    if found.curve is not None:
        output.say(found.curve.sentence)
    output.say_each(found.notes)
    output.say_warnings(found.warnings)


def _check_use(policies: list[Path], curve: bool, settings: Mapping[str, Any]) -> None:
    """Raise if something that was given would have no effect."""
    if curve and policies:
        raise UsageError("--curve trains its own policies: leave out the policy files.")
    if "inverse_temperature" in settings and not policies and not curve:
        raise UsageError("--inverse-temperature has no effect here: there is no policy. Leave it out, or name one.")
    idle = [name for name in TRAINING_SETTINGS if name in settings]
    if idle and not curve:
        flag = f"--{idle[0].replace('_', '-')}"
        raise UsageError(f"{flag} has no effect here: only a learning curve trains. Leave it out, or add --curve.")


def _table(found: FilePlan) -> Any:
    """Return one line per policy: its uplift, what the samples can detect, and how many are needed."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("policy", overflow="fold")
    wanted = [] if found.min_uplift is None else [f"needed for\n{found.min_uplift:+.3g}"]
    for heading in ("uplift", "detectable", *wanted, "needed for\nthe uplift", "A/B test"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found.plan.rows:
        half = (row["uplift_ci_upper"] - row["uplift_ci_lower"]) / 2.0
        asked = [] if found.min_uplift is None else [_count(row["n_for_min_uplift"])]
        table.add_row(
            Text(visible(row["policy"])),
            f"{row['uplift']:+.3g} ± {half:.2g}" if isfinite(half) else "unknown",
            f"{row['detectable']:.3g}" if isfinite(row["detectable"]) else "unknown",
            *asked,
            _count(row["n_for_uplift"]),
            _count(row["n_for_ab_test"]),
        )
    return table


def _sentence(row: Mapping[str, Any], min_uplift: float | None) -> str:
    """Return the meaning of a policy's line."""
    name, effect = row["policy"], row["uplift"] if min_uplift is None else min_uplift
    if not isfinite(row["std_dev"]):
        return f"{name}: the log never took the actions of this policy, so no number of such decisions would help."
    if not effect > 0.0:
        return f"{name}: the estimated uplift is not positive; the log can detect {row['detectable']:.3g} or more."
    needed = row["n_for_uplift"] if min_uplift is None else row["n_for_min_uplift"]
    what = (
        f"if the estimate is right, an uplift of {effect:+.3g}" if min_uplift is None else f"an uplift of {effect:+.3g}"
    )
    missing = needed - row["n"]
    told = f"{_count(missing)} more than there are" if missing > 0.0 else "and there are enough"
    text = f"{name}: {what} takes about {_count(needed)} decisions, {told}"
    if min_uplift is None:
        text += f"; within its interval between {_count(row['n_for_upper'])} and {_count(row['n_for_lower'])}"
    return f"{text}."


def _count(n_samples: float) -> str:
    """Return a number of decisions with three significant digits."""
    if isinf(n_samples):
        return "never"
    return f"{int(float(f'{max(n_samples, 1.0):.3g}')):,}" if isfinite(n_samples) else "unknown"
