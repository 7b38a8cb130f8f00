"""``bopl loop``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bopl.cli import exit_code
from bopl.cli.options import Json
from bopl.cli.output import Output, narrow_table

if TYPE_CHECKING:
    from bopl.serving.promotion import LoopStatus
    from bopl.serving.record import PromotionRow

app = typer.Typer(
    rich_markup_mode="markdown",
    no_args_is_help=True,
)


@app.callback()
def _folder(
    ctx: typer.Context, folder: Annotated[Path, typer.Argument(help="Folder of the loop, with its loop.toml.")]
) -> None:
    """Learn from what a loop has logged, and decide what it serves; `bopl serve` may run on FOLDER at the same time.

    Example: bopl loop shop step
    """
    ctx.obj = folder


@app.command()
def join(ctx: typer.Context, json: Json = False) -> None:
    """Write decisions whose reward window has closed to log/, as Parquet files.

    Rewards that arrive later do not change them, and running it again changes nothing.

    Example: bopl loop shop join
    """
    from bopl.serving.events import EventStore
    from bopl.serving.folder import LoopFolder
    from bopl.serving.joining import join as join_events

    output = Output(json)
    folder = LoopFolder(ctx.obj)
    settings = folder.settings()
    with EventStore(folder.events) as store:
        joined = join_events(folder.path, store, settings)
    output.say(joined.sentence)
    output.finish(joined.to_dict())


@app.command()
def step(ctx: typer.Context, json: Json = False) -> None:
    """Join, audit, judge the canary or train and judge a new policy, and promote it if it is better.

    A new policy is trained on the older part of the log, judged on the newest part against the running policy, and
    served at increasing shares, each after a verdict on the decisions of the previous share. A policy that proves worse
    is taken back. Run it as often as you like: verdicts account for repeated looks. The exit code is that of the
    verdict; 4 also means that there are too few new decisions.

    Example: bopl loop shop step
    """
    from bopl.serving.step import step as step_loop

    output = Output(json)
    with output.heard():
        result = step_loop(ctx.obj, progress=not json)
    verdict = "inconclusive" if result.verdict is None else result.verdict["verdict"]
    output.finish(result.to_dict(), exit_code.of_verdicts([verdict]))


@app.command()
def promote(
    ctx: typer.Context,
    policy: Annotated[str, typer.Argument(help="Id of a policy in policies/, a prefix of it, or a policy file.")],
    share: Annotated[
        float | None, typer.Option(help="Share of the traffic; the next one of the ramp by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Serve a policy at a share of the traffic by hand; the next steps take it back if it is worse.

    Example: bopl loop shop promote 3f2a --share 0.1
    """
    from dataclasses import asdict

    from bopl.serving.promotion import promote as promote_policy

    output = Output(json)
    row = promote_policy(ctx.obj, policy, share=share)
    output.say(served_text(row))
    output.finish({"promotion": asdict(row)})


@app.command()
def rollback(ctx: typer.Context, json: Json = False) -> None:
    """Return all traffic to the previous policy.

    Example: bopl loop shop rollback
    """
    from dataclasses import asdict

    from bopl.serving.promotion import rollback as roll_back

    output = Output(json)
    row = roll_back(ctx.obj)
    output.say(served_text(row))
    output.finish({"promotion": asdict(row)})


@app.command()
def status(ctx: typer.Context, json: Json = False) -> None:
    """Show what is served, all promotions with their reasons, and the latest verdicts.

    Example: bopl loop shop status
    """
    from bopl.serving.promotion import status as loop_status

    output = Output(json)
    found = loop_status(ctx.obj)
    output.say(served_text(found.promotion))
    listed = ", ".join(f"{count:,} {name}" for name, count in found.rewards.items()) or "none"
    output.say(
        f"{found.n_decisions:,} decisions, {found.n_joined:,} of them joined, {found.n_open:,} with open windows; "
        f"rewards: {listed}."
    )
    output.say(
        f"{found.n_looks:,} looks at replacing {found.running}; the next one has "
        f"{100.0 * found.next_confidence:.4g}% confidence."
    )
    output.say(_promotion_table(found))
    for one in found.verdicts:
        output.say(f"Verdict {one['number']}: {one['sentence']}")
    output.finish(found.to_dict())


@app.command()
def watch(
    ctx: typer.Context,
    last: Annotated[
        int | None, typer.Option(min=1, help="Replay this many of the newest decisions; all by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay decisions through the saved policies, and look for drift.

    Every logged propensity must be reproduced to the last bit, and every mean weight must be 1 up to chance; otherwise
    the exit code is 1.

    Example: bopl loop shop watch --last 10000
    """
    from bopl.serving.watching import watch as watch_loop

    output = Output(json)
    found = watch_loop(ctx.obj, last=last)
    output.say(f"{found.n_replayed:,} decisions replayed, {found.n_mismatches:,} of them not reproduced.")
    for mismatch in found.mismatches:
        output.say(f"Mismatch: {mismatch.sentence}")
    for one in found.weights:
        output.say(f"Mean weight of {one['policy']}: {one['mean']:.4g} ({one['n']:,} decisions, z {one['z']:+.2f}).")
    for one in found.drift:
        output.say(f"Drift: {one['clause']}.")
    output.finish(found.to_dict(), exit_code.FINE if found.is_sound else exit_code.BAD_DATA)


def served_text(row: PromotionRow) -> str:
    """Return what a promotion serves, in a sentence."""
    rest = "" if row.share == 1.0 else f", {row.baseline} {100.0 * (1.0 - row.share):.4g}%"
    return (
        f"Served since promotion {row.id} ({row.reason}): {row.policy} {100.0 * row.share:.4g}%{rest}; "
        f"{100.0 * row.exploration:.4g}% of the decisions explore."
    )


def _promotion_table(found: LoopStatus) -> Any:
    import numpy as np

    from bopl.log.instant import instant_text

    headings = ("", "since (UTC)", "policy", "share", "over", "reason")
    table = narrow_table(headings, ("", "share"), padding=(0, 1, 0, 0))
    for row in found.promotions:
        since = instant_text(np.datetime64(row.time, "us").astype("datetime64[s]"))
        table.add_row(str(row.id), since, row.policy, f"{100.0 * row.share:.3g}%", row.baseline, row.reason)
    return table
