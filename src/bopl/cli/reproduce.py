"""``bopl reproduce``: the paper's experiments, which are in the repository and not in the package."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from bopl._errors import UsageError


class _Paper(TyperGroup):
    """Stands for `bopl_paper.command` in the list of commands; that is imported when it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Hand over to the command of the experiments."""
        if find_spec("bopl_paper") is not None:
            from bopl_paper.command import app as command

            return get_group(command).make_context(info_name, args, parent, **extra)
        if extra.get("resilient_parsing"):  # a shell completes the line
            return super().make_context(info_name, args, parent, **extra)
        raise UsageError(
            "the paper's experiments are in the repository, not in the package: clone it and run `make setup`."
        )


app = typer.Typer(cls=_Paper)


@app.callback()
def reproduce() -> None:
    """Reproduce the paper's tables and figure: run what is missing, then print and write them."""
