"""``bopl predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bopl.cli.options import InverseTemperature, Json
from bopl.cli.output import Output

_NO_EXPLORATION = (
    "The policy always takes its best action and explores nothing. To learn from these decisions later, make some of "
    "them at random."
)
_NOT_SAMPLED = (
    "Always taking the most probable action explores nothing. To learn from these decisions later, use --sample and "
    "log the propensities."
)


def predict(
    contexts: Annotated[str, typer.Argument(help="File, folder or pattern with the contexts to decide on.")],
    policy: Annotated[
        list[Path],
        typer.Argument(metavar="[CONTEXTS]... POLICY", help="Further Parquet files of contexts; then the policy file."),
    ],
    out: Annotated[Path, typer.Option(help="File for the decisions: .parquet, .csv, .arrow or .jsonl.")] = Path(
        "decisions.parquet"
    ),
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Draw actions at random, with propensities to log, instead of taking the most probable ones.",
        ),
    ] = False,
    keep: Annotated[str, typer.Option(help="Columns to copy to the decisions, separated by commas.")] = "",
    format: Annotated[
        str | None, typer.Option(help="Format of the contexts, if the extension does not show it.")
    ] = None,
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Seed of the draws; different each time by default.")
    ] = None,
    inverse_temperature: InverseTemperature = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory that contexts in Parquet files may take, such as 4GB; more are read in pieces."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers decide in pieces: tcp://….")
    ] = None,
    json: Json = False,
) -> None:
    """Choose an action for every context, with the propensity to log.

    Example: bopl predict contexts.parquet policy.bopl --sample --out decisions.parquet
    """
    from bopl.workflow.deciding import decide

    output = Output(json)
    kept = [name.strip() for name in keep.split(",") if name.strip()]
    *more, policy_file = policy
    paths = [contexts, *map(str, more)] if more else contexts
    with output.heard():
        result = decide(
            paths,
            policy_file,
            out,
            is_sampled=sample,
            keep=kept,
            format=format,
            random_state=random_state,
            inverse_temperature=inverse_temperature,
            memory=memory,
            cluster=cluster,
        )
    output.say(f"{result.n_samples:,} decisions written to {out}: {', '.join(result.columns)}.")
    output.say_warnings(result.warnings)
    if result.is_certain or not sample:
        output.say(_NO_EXPLORATION if result.is_certain else _NOT_SAMPLED)
    output.finish({"decisions": str(out), **result.to_dict()})
