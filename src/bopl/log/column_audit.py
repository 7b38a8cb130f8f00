"""What an audit says of the context columns: those that are no use, and those that lost something on the way."""

from __future__ import annotations

from bopl.log.column import Column
from bopl.log.context import quoted
from bopl.log.finding import NOTE, OK, Finding
from bopl.log.schema import LogSchema


def audit_columns(schema: LogSchema | None) -> list[Finding]:
    """Return what should be known of the context columns of a frame or file; nothing where there was none."""
    return [] if schema is None else [_identifiers(schema.columns), _merged(schema.columns)]


def _identifiers(columns: tuple[Column, ...]) -> Finding:
    named = [column.name for column in columns if column.is_identifier]
    if not named:
        return Finding("identifiers", OK, 0.0, "No context column looks like an identifier.")
    verb = "looks like an identifier" if len(named) == 1 else "look like identifiers"
    return Finding(
        "identifiers",
        NOTE,
        float(len(named)),
        f"{quoted(named)} {verb}, with a value of its own in most rows: nothing can be learned from that. Leave it out "
        "of the context (ignore), or name it as the group.",
    )


def _merged(columns: tuple[Column, ...]) -> Finding:
    merged = [column for column in columns if column.n_merged]
    if not merged:
        return Finding("merged_categories", OK, 0.0, "Every category has a place of its own.")
    listed = ", ".join(
        f"{column.name!r} ({column.n_merged:,} of {column.n_merged + len(column.categories):,})"
        for column in merged[:8]
    )
    return Finding(
        "merged_categories",
        NOTE,
        float(len(merged)),
        f"There are more categories than bins: the rarest became one, 'other', in {listed}.",
    )
