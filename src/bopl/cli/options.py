"""Options shared by several commands; those that are settings of a run come from `TrainConfig`."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

from bopl._registry import offered
from bopl.workflow.config import TrainConfig

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
_LOG = typer.Argument(help="File, folder or pattern with the logged decisions.")
LogFile: TypeAlias = Annotated[str, _LOG]
OptionalLogFile: TypeAlias = Annotated[str | None, _LOG]  # where a configuration may name it
ConfigFile: TypeAlias = Annotated[Path | None, typer.Option(help="TOML file with settings; flags take precedence.")]
InverseTemperature: TypeAlias = Annotated[
    float | None,
    typer.Option(help="How sharply the policy acts; inf always takes the best action. As trained by default."),
]

PARQUET = (".parquet", ".pq")
ROW_SETTINGS = ("where", "drop_invalid", "drop_duplicates")
SCALE_SETTINGS = ("memory", "cluster")
PROPENSITY_SETTINGS = ("propensity", "assume_propensity", "exact_propensity")
ROLE_SETTINGS = ("action", "reward", *PROPENSITY_SETTINGS, "time", "group", "format", *ROW_SETTINGS)
LOG_SETTINGS = (*ROLE_SETTINGS, "context", "ignore", "categorical")
EVALUATION_SETTINGS = ("estimators", "interval", "confidence", "min_uplift", "guard", "segment", "confounding")
_LISTS = [entry.name for entry in fields(TrainConfig) if "tuple" in str(entry.type)]


def log_files(words: Iterable[str | Path]) -> tuple[list[str], list[str]]:
    """Return the words after a log that are further Parquet files of it (an expanded pattern), and the rest."""
    logs: list[str] = []
    rest: list[str] = []
    for word in map(str, words):
        (logs if Path(word).suffix.lower() in PARQUET else rest).append(word)
    return logs, rest


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each of these settings of `TrainConfig`.

    The command receives those that were given as ``**settings``, so that flags and configuration files have the same
    settings under the same names.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            given = {name: _read(name, arguments.pop(name)) for name in names}
            command(**arguments, **{name: value for name, value in given.items() if value is not None})

        own = [
            one
            for one in signature(command, eval_str=True).parameters.values()
            if one.kind is not Parameter.VAR_KEYWORD
        ]
        added = list(_parameters(names))
        run.__signature__ = signature(command).replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in [*own, *added]}
        return run

    return decorate


def _parameters(names: Iterable[str]) -> Iterable[Parameter]:
    hints = get_type_hints(TrainConfig)
    section = ""
    for entry in fields(TrainConfig):
        section = entry.metadata["section"] or section
        if entry.name in names:
            kind = _flag_type(entry.name, hints[entry.name])
            option = typer.Option(
                *_declarations(entry.name, kind),
                help=entry.metadata["help"] + _installed_text(entry.metadata["group"]) + _default_text(entry.default),
                rich_help_panel=section,
                autocompletion=_completion(entry.metadata["choices"], entry.metadata["group"]),
                show_default=False,
            )
            yield Parameter(entry.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def _installed_text(group: str | None) -> str:
    """Return the values that installed packages add to those of a flag."""
    names = [] if group is None else list(offered(group))
    return f" From installed packages: {', '.join(names)}." if names else ""


def _completion(choices: tuple[str, ...], group: str | None) -> Callable[[str], list[str]] | None:
    """Return the shell completion of a value; None if any value is allowed."""

    def complete(incomplete: str) -> list[str]:
        known = [*choices, *(offered(group) if group else ())]
        return [one for one in known if one.startswith(incomplete)]

    return complete if choices else None


def _flag_type(name: str, hint: Any) -> Any:
    """Return the type of a flag: values that may be words or numbers are text, and lists are text with commas."""
    if name in _LISTS:
        return list[str]
    kinds = [one for one in (get_args(hint) if isinstance(hint, types.UnionType) else (hint,)) if one is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (int, float, bool, str) else str


def _declarations(name: str, kind: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    return [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]


def _default_text(default: Any) -> str:
    return "" if default in (None, (), False, "") else f" (default {default})"


def _read(name: str, value: Any) -> Any:
    """Return the setting that a flag's value stands for."""
    if name in _LISTS:  # the flag may be repeated, and each may hold several
        parts = [part.strip() for one in value or () for part in one.split(",")]
        return tuple(part for part in parts if part) if value else None
    if name == "reward_translation" and isinstance(value, str):
        with suppress(ValueError):  # the check of the setting handles other words
            return float(value)
    return value
