"""HTML from values: everything is escaped unless it is markup already."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


VOID = ("br", "hr", "img", "meta")  # elements without an end tag


def element(name: str, *children: str | None, **attributes: str | None) -> Markup:
    """Return an element; children that are no `Markup` are escaped, None is left out.

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
