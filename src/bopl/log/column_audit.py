"""What an audit says of the context columns: which know too much, are no use, or lost something on the way."""

from __future__ import annotations

from collections.abc import Sequence

from bopl.log.column import Column
from bopl.log.finding import NOTE, OK, PROBLEM, Finding
from bopl.log.leak.leak import IDENTIFIER, Leak
from bopl.log.schema import LogSchema


def audit_columns(schema: LogSchema | None, leaks: Sequence[Leak], keep: Sequence[str | int]) -> list[Finding]:
    """Return what should be known of the context columns.

    Parameters
    ----------
    schema : LogSchema or None
        Of the columns of a frame or file, where there was one.
    leaks : sequence of Leak
        Columns that know too much.
    keep : sequence of str or int
        Those of them that are kept all the same: they are told, and no problem.
    """
    findings = [_leaks([leak for leak in leaks if leak.knows != IDENTIFIER], keep)]
    if schema is not None:
        findings += [_identifiers([leak for leak in leaks if leak.knows == IDENTIFIER]), _merged(schema.columns)]
    return findings


def _leaks(leaks: Sequence[Leak], keep: Sequence[str | int]) -> Finding:
    if not leaks:
        return Finding("leaks", OK, 0.0, "No context column is seen to know what came after the decision.")
    is_problem = any(leak.is_problem and leak.column not in keep for leak in leaks)
    listed = " ".join(leak.sentence for leak in leaks)
    return Finding(
        "leaks",
        PROBLEM if is_problem else NOTE,
        float(len(leaks)),
        f"{listed} Leave out (ignore) what was not known when the action was chosen; keep names what was.",
    )


def _identifiers(leaks: Sequence[Leak]) -> Finding:
    if not leaks:
        return Finding("identifiers", OK, 0.0, "No context column looks like an identifier.")
    listed = " ".join(leak.sentence for leak in leaks)
    return Finding(
        "identifiers",
        NOTE,
        float(len(leaks)),
        f"{listed} Leave it out of the context (ignore), or name it as the group.",
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
