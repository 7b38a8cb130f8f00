"""Settings in TOML: read with their names checked, and written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, did_you_mean


def read_toml(file: Path, kind: type, renamed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings in a file, after checking that they are fields of a record; ``renamed`` has former names."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(file)!r} is not valid TOML: {error}.") from None
    known = [entry.name for entry in fields(kind)]
    for name in found:
        if name in (renamed or {}):
            raise UsageError(f"{str(file)!r} sets {name!r}, which is now called {(renamed or {})[name]!r}.")
        if name not in known:
            raise UsageError(f"{str(file)!r} sets {name!r}, which is not a setting.{did_you_mean(name, known)}")
    return found


def to_toml(values: Mapping[str, Any], headings: Mapping[str, str]) -> str:
    """Return ``key = value`` lines; None is left out, and a key in ``headings`` gets a comment before it."""
    lines: list[str] = []
    for name, value in values.items():
        if name in headings:
            lines += ([""] if lines else []) + [f"# {headings[name]}"]
        if value is not None:
            lines.append(f"{name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # inf, nan and all finite numbers are TOML as they are
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the delete character, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written to a TOML file.")
