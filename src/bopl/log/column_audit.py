"""Findings on the context columns: leaks, identifiers, and merged categories."""

from __future__ import annotations

from collections.abc import Sequence

from bopl.log.column import Column
from bopl.log.finding import NOTE, OK, PROBLEM, Finding
from bopl.log.leak.leak import IDENTIFIER, Leak
from bopl.log.schema import LogSchema


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
