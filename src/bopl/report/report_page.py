"""`write_page`: the summary as one HTML page with everything inside it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from bopl._files import write_text
from bopl._html import Markup, element, join
from bopl.report import text
from bopl.report.summary import SCHEMA

CHARTS = ("core", "forest", "shares", "segments", "importance", "effects", "weights", "race", "history")
CONTENTS = {
    "evaluation": ("evidence", "How sure?"),
    "actions": ("actions", "What changes"),
    "importance": ("reasons", "What drives it"),
    "examples": ("examples", "Disagreements"),
    "weights": ("trust", "Can the log answer?"),
    "race": ("race", "The race"),
    "training": ("training", "Training"),
    "run": ("run", "The run"),
}


def write_page(summary: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of a summary: one file, nothing is loaded from anywhere else.

    Parameters
    ----------
    summary : mapping
        What `summarise` returned, or what JSON made of it.
    path : str or Path
        File to write.
    """
    write_text(path, render_page(summary))


def render_page(summary: Mapping[str, Any]) -> str:
    """Return the page of a summary as text."""
    if summary.get("schema") != SCHEMA:
        raise ValueError(
            f"this version cannot show the summary: its schema is {summary.get('schema')!r}, not {SCHEMA!r}. Make it "
            "again with bopl.report.summarise."
        )
    parts = {*summary, *(["run"] if {"config", "steps"} & set(summary) else [])}
    template = _without_missing(_read("page.html"), parts)
    links = [element("a", title, href=f"#{anchor}") for name, (anchor, title) in CONTENTS.items() if name in parts]
    scripts = ['"use strict";', *(_read(f"charts/{name}.js") for name in CHARTS), _read("page.js")]
    values = {
        "title": join(f"{summary['verdict']['headline']} · bopl"),
        "style": Markup(_read("style.css")),
        "created": join(summary["created"]),
        "contents": join(*links),
        "data": _embedded(summary),
        "script": Markup("(() => {\n" + "\n".join(scripts) + "\n})();"),
        **text.fragments(summary),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _read(name: str) -> str:
    return (files("bopl.report") / name).read_text(encoding="utf8")


def _without_missing(template: str, parts: Collection[str]) -> str:
    """Drop the parts of the page that the summary has nothing for; parts may lie within parts."""
    for name in re.findall(r"<!-- part: (\w+) -->", template):
        kept = r"\1" if name in parts else ""
        template = re.sub(rf" *<!-- part: {name} -->\n(.*?) *<!-- end: {name} -->\n", kept, template, flags=re.DOTALL)
    return template


def _embedded(summary: Mapping[str, Any]) -> Markup:
    """Return the summary as JSON that cannot end its script element."""
    data = json.dumps(summary, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return Markup(data)
