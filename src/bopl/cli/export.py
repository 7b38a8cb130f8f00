"""``bopl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bopl.cli.options import InverseTemperature, Json
from bopl.cli.output import Output


def export(
    policy: Annotated[Path, typer.Argument(help="The policy file.")],
    to: Annotated[
        str, typer.Option(help="Format: xgboost (JSON, with the context and the one-hot action as inputs) or onnx.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default named after the policy, with .json or .onnx.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="ONNX: take the columns of the log by name, including text and times.")
    ] = False,
    rows: Annotated[
        Path | None, typer.Option(help="Log or contexts to check the model on; rows around the splits by default.")
    ] = None,
    inverse_temperature: InverseTemperature = None,
    json: Json = False,
) -> None:
    """Write a policy for another runtime, after checking that its scores agree.

    The model takes contexts as numbers, encoded as the policy encodes them, or with --raw the columns of the log. The
    ONNX model carries the columns, their categories and the actions in its metadata.

    Example: bopl export policy.bopl --to onnx --raw
    """
    from bopl.workflow.exporting import export as run

    output = Output(json)
    done = run(policy, to, out, raw=raw, rows=rows, inverse_temperature=inverse_temperature)
    kind = "raw rows" if raw else "contexts"
    where = "around the policy's splits" if rows is None else f"of {rows.name}"
    output.say(
        f"Written to {done.path}. Its scores agree with the policy's on {done.n_contexts:,} {kind} {where}; the "
        f"largest difference is {done.largest_difference:.2g}."
    )
    output.finish(
        {"path": done.path, "to": to, "n_contexts": done.n_contexts, "largest_difference": done.largest_difference}
    )
