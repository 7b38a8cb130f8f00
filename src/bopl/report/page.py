"""`write_page`: the summary as one HTML page with everything inside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from bopl._html import Markup, element, join
from bopl.report import text

CHARTS = ("core", "forest", "history")
PARTS = {
    "evaluation": ("evidence", "How sure is that?"),
    "training": ("training", "Training"),
    "config": ("configuration", "Configuration"),
}


def write_page(summary: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of a summary: one file, nothing is loaded from anywhere else.

    Parameters
    ----------
    summary : mapping
        What `summarise` returned, or what JSON made of it.
    path : str or Path
    """
    Path(path).write_text(render_page(summary), encoding="utf8")


def render_page(summary: Mapping[str, Any]) -> str:
    """Return the page of a summary as text."""
    template = _without_missing(_read("page.html"), summary)
    values = {
        "title": join(f"{summary['verdict']['headline']} · bopl"),
        "style": Markup(_read("style.css")),
        "created": join(summary["created"]),
        "contents": _contents(summary),
        "data": _embedded(summary),
        "script": Markup("(() => {\n" + "\n".join(_scripts()) + "\n})();"),
        **text.fragments(summary),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _read(name: str) -> str:
    return (files("bopl.report") / name).read_text(encoding="utf8")


def _scripts() -> list[str]:
    return ['"use strict";', *(_read(f"charts/{name}.js") for name in CHARTS), _read("page.js")]


def _without_missing(template: str, summary: Mapping[str, Any]) -> str:
    """Drop the parts of the page that the summary has nothing for."""
    for name in re.findall(r"<!-- part: (\w+) -->", template):
        kept = r"\1" if name in summary else ""
        template = re.sub(rf"<!-- part: {name} -->\n(.*?)<!-- end: {name} -->\n", kept, template, flags=re.DOTALL)
    return template


def _contents(summary: Mapping[str, Any]) -> Markup:
    links = [element("a", title, href=f"#{anchor}") for name, (anchor, title) in PARTS.items() if name in summary]
    return join(*links)


def _embedded(summary: Mapping[str, Any]) -> Markup:
    """Return the summary as JSON that cannot end its script element."""
    data = json.dumps(summary, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return Markup(data)
