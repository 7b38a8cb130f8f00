"""A flat TOML document: what the standard library reads, written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


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
