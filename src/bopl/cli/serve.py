"""``bopl serve``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from bopl.cli.output import Output


def serve(
    folder: Annotated[Path, typer.Argument(help="Folder of the loop: loop.toml, policies, events.db, log, verdicts.")],
    init: Annotated[
        bool, typer.Option("--init", help="Create the folder, with a commented loop.toml, and exit.")
    ] = False,
    policy: Annotated[
        Path | None, typer.Option(help="With --init: the initial policy; without one, decisions are random.")
    ] = None,
    actions: Annotated[
        str, typer.Option(help="With --init: the actions, separated by commas, if there is no policy.")
    ] = "",
    host: Annotated[str | None, typer.Option(help="Address to listen on; overrides loop.toml.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; overrides loop.toml. 0 for any.")
    ] = None,
) -> None:
    """Decide over HTTP; every decision and reward is on disk before it is answered.

    Example: bopl serve shop --init --policy policy.bopl; bopl serve shop
    """
    from dataclasses import replace

    from bopl._errors import UsageError
    from bopl.serving.folder import LoopFolder
    from bopl.serving.settings import LoopSettings

    output = Output(is_json=False)
    if init:
        names = tuple(name.strip() for name in actions.split(",") if name.strip())
        given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        LoopFolder.create(folder, replace(LoopSettings(), actions=names, **given), policy=policy)  # type: ignore[arg-type]
        output.say(f"Created the loop folder {folder}; edit its loop.toml, then run `bopl serve {folder}`.")
        raise typer.Exit
    if policy is not None or actions:
        raise UsageError("policy and actions are for a new folder: add --init, or promote with `bopl loop`.")
    from bopl.serving.server import serve as run

    settings = LoopFolder(folder).settings()
    settings = replace(settings, host=host or settings.host, port=settings.port if port is None else port).check()

    def ready(address: str) -> None:
        output.say(f"Serving {folder} at {address}; stop it with Ctrl-C.")

    errors = logging.StreamHandler()  # on standard error
    errors.setLevel(logging.WARNING)
    logging.getLogger("bopl").addHandler(errors)
    try:
        run(folder, settings, ready=ready)
    except KeyboardInterrupt:
        output.say("Stopped.")
    finally:
        logging.getLogger("bopl").removeHandler(errors)
