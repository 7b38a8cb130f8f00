"""Findings on the context columns: leaks, identifiers, and merged categories."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bopl._errors import quoted, shortened
from bopl.log.column import Column
from bopl.log.finding import NOTE, OK, PROBLEM, Finding
from bopl.log.leak.leak import IDENTIFIER, Leak
from bopl.log.schema import LogSchema

MIN_NUMBERS = 20  # categories that may be numbers: fewer are grades, sizes or versions
MAX_OTHERS = 0.1  # share of them that may be something else
_NUMBER = re.compile(r"\s*[+-]?(\d+|\d*[.,]\d+|\d{1,3}([., ']\d{3})+([.,]\d+)?)([eE][+-]?\d+)?\s*%?\s*")
_MISSING = ("", "-", "--", ".", "?", "nan", "none", "null", "na", "n/a", "#n/a", "<na>", "nil", "missing", "unknown")


def audit_columns(schema: LogSchema | None, leaks: Sequence[Leak], keep: Sequence[str | int]) -> list[Finding]:
    """Return the findings on the context columns.

    Parameters
    ----------
    schema : LogSchema or None
        Of the columns of a frame or file, where there was one.
    leaks : sequence of Leak
        Leaking columns.
    keep : sequence of str or int
        Those to keep anyway: they are reported, but are not a problem.
    """
    findings = [_leaks([leak for leak in leaks if leak.knows != IDENTIFIER], keep)]
    if schema is not None:
        findings += [_identifiers([leak for leak in leaks if leak.knows == IDENTIFIER]), _merged(schema.columns)]
        findings += _numbers_as_text(schema.columns)
    return findings


def _leaks(leaks: Sequence[Leak], keep: Sequence[str | int]) -> Finding:
    if not leaks:
        return Finding("leaks", OK, 0.0, "No context column seems to leak what happened after the decision.")
    is_problem = any(leak.is_problem and leak.column not in keep for leak in leaks)
    listed = " ".join(leak.sentence for leak in leaks)
    return Finding(
        "leaks",
        PROBLEM if is_problem else NOTE,
        float(len(leaks)),
        f"{listed} Exclude (ignore) what was not known when the action was chosen; keep what was.",
    )


def _identifiers(leaks: Sequence[Leak]) -> Finding:
    if not leaks:
        return Finding("identifiers", OK, 0.0, "No context column looks like an identifier.")
    listed = " ".join(leak.sentence for leak in leaks)
    return Finding(
        "identifiers",
        NOTE,
        float(len(leaks)),
        f"{listed} Exclude it from the context (ignore), or name it as the group.",
    )


def _numbers_as_text(columns: Sequence[Column]) -> list[Finding]:
    """Return a note if columns are categories although nearly all their values are numbers; nothing otherwise."""
    said = {column.name: text for column in columns if (text := _number_text(column)) is not None}
    if not said:
        return []
    listed = "; ".join(f"{name!r} {text}" for name, text in list(said.items())[:8])
    return [
        Finding(
            "numbers_as_text",
            NOTE,
            float(len(said)),
            f"Numbers are read as categories, which lose their order: {listed}. Write them with a decimal point, and "
            "leave missing ones empty.",
        )
    ]


def _number_text(column: Column) -> str | None:
    """Return what shows that a column of categories was meant to be one of numbers; None if nothing does.

    Whole numbers may be codes; what stands for a missing value among them tells that they are not, and so do decimals.
    """
    if column.kind != "category" or len(column.categories) < MIN_NUMBERS:
        return None
    texts = [category for category in column.categories if isinstance(category, str)]
    others = [text for text in texts if not _NUMBER.fullmatch(text)]
    if len(texts) < len(column.categories) or len(others) > MAX_OTHERS * len(texts):
        return None
    decimals = [text for text in texts if not text.strip("+- ").isdigit() and text not in others]
    has_missing = any(text.strip().casefold() in _MISSING for text in others)
    if not has_missing and 2 * len(decimals) < len(texts):
        return None
    example = (decimals or [text for text in texts if text not in others])[0]
    return f"holds text such as {shortened(example)}" + (f", and {quoted(others, limit=3)}" if others else "")


def _merged(columns: tuple[Column, ...]) -> Finding:
    merged = [column for column in columns if column.n_merged]
    if not merged:
        return Finding("merged_categories", OK, 0.0, "Every category has its own bin.")
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
