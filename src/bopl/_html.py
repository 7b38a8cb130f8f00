"""HTML from values: everything is escaped unless it is already markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


VOID = ("br", "hr", "img", "meta")  # elements without an end tag


def element(name: str, *children: str | None, **attributes: str | None) -> Markup:
    """Return an element; children that are not `Markup` are escaped, None is left out.

    A trailing underscore of an attribute is dropped (``class_``), others become hyphens.

    Examples
    --------
    >>> element("p", "a < b", element("br"), class_="note")
    '<p class="note">a &lt; b<br></p>'
    """
    start = f"<{name}" + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"{start}>" if name in VOID else f"{start}>{join(*children)}</{name}>")


def join(*children: str | None) -> Markup:
    """Return children one after the other, escaped unless they are markup."""
    shown = (child for child in children if child is not None)
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in shown))


def short(text: str, max_length: int = 60) -> str:
    """Return text shortened in the middle, with an ellipsis, if it is longer than ``max_length``.

    >>> short("a name", 6), short("shop/shoes/1704", 11)
    ('a name', 'shop/…/1704')
    """
    if len(text) <= max_length:
        return text
    n_tail = (max_length - 1) // 2
    return f"{text[: max_length - 1 - n_tail].rstrip()}…{text[len(text) - n_tail :].lstrip()}"


# -- Cards: how logs, policies, evaluations and audits show themselves in a notebook ----------------------------------

# Colours follow the notebook's own text, so that cards suit light and dark themes; the two tones stand out on both.
# Notebooks may allow a break after any letter, which tables then use: words are kept whole here, and wide cards scroll.
CARD_STYLE = Markup(
    """
.bopl.bopl{border:1px solid color-mix(in srgb,currentColor 20%,transparent);border-radius:8px;padding:12px 16px;
max-width:860px;font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-variant-numeric:tabular-nums;
overflow-x:auto}
.bopl.bopl,.bopl.bopl *{box-sizing:border-box;word-break:normal;overflow-wrap:break-word;hyphens:manual}
.bopl.bopl .head strong{font-weight:650;margin-right:8px}
.bopl.bopl .soft,.bopl.bopl th,.bopl.bopl dt{opacity:.72;font-weight:400}
.bopl.bopl dl{display:flex;flex-wrap:wrap;gap:8px 28px;margin:10px 0 0}
.bopl.bopl dt{font-size:12px;margin:0}.bopl.bopl dd{margin:0;font-weight:550}
.bopl.bopl table{border-collapse:collapse;margin:12px 0 0;width:100%;font-size:13px;table-layout:auto}
.bopl.bopl th,.bopl.bopl td{text-align:left;vertical-align:top;padding:5px 14px 5px 0;background:none;border:0;
border-top:1px solid color-mix(in srgb,currentColor 14%,transparent);max-width:none;white-space:normal}
.bopl.bopl thead th{border-top:0}.bopl.bopl .number{text-align:right;white-space:nowrap}
.bopl.bopl thead .number{white-space:normal}
.bopl.bopl p{margin:8px 0 0;font-size:13px}
.bopl.bopl .dot{display:inline-block;width:9px;height:9px;border-radius:50%;border:2px solid currentColor;
margin-right:7px;flex:none}
.bopl.bopl .dot.good{border-color:#2f86d6;background:#2f86d6}
.bopl.bopl .dot.bad{border-color:#d9691c;background:#d9691c}
.bopl.bopl .dot.plain{background:currentColor;opacity:.6}
.bopl.bopl .dot.hollow{opacity:.6}
.bopl.bopl .mark{display:flex;align-items:baseline}.bopl.bopl details{margin-top:10px}
.bopl.bopl .track{display:block;min-width:90px;max-width:260px;height:8px;margin-top:6px;border-radius:4px;
background:color-mix(in srgb,currentColor 12%,transparent)}
.bopl.bopl .track span{display:block;height:100%;border-radius:4px;background:#2f86d6}
.bopl.bopl svg{display:block;overflow:visible}
"""
)


def card(title: str, subtitle: str, *parts: Markup | None) -> str:
    """Return a card for a notebook: a heading and parts below it."""
    heading = element("div", element("strong", title), element("span", subtitle, class_="soft"), class_="head")
    return str(element("div", element("style", CARD_STYLE), heading, *parts, class_="bopl"))


def facts(values: Mapping[str, str]) -> Markup:
    """Return names with their values, side by side."""
    return element("dl", *(element("div", element("dt", name), element("dd", text)) for name, text in values.items()))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Collection[int] = ()) -> Markup:
    """Return a table; the columns at the positions ``numeric`` are right-aligned."""
    head = element("thead", _row("th", heads, numeric))
    return element("table", head, element("tbody", *(_row("td", row, numeric) for row in rows)))


def _row(name: str, cells: Sequence[str], numeric: Collection[int]) -> Markup:
    looks = ["number" if position in numeric else None for position in range(len(cells))]
    return element("tr", *(element(name, cell, class_=look) for cell, look in zip(cells, looks, strict=True)))


def marked(text: str, look: str) -> Markup:
    """Return text behind a dot: ``"good"``, ``"bad"``, ``"plain"`` or ``"hollow"``."""
    return element("span", element("span", class_=f"dot {look}"), text, class_="mark")


def bar(share: float) -> Markup:
    """Return a bar that is filled to a share."""
    return element("span", element("span", style=f"width:{100.0 * min(max(share, 0.0), 1.0):.1f}%"), class_="track")
