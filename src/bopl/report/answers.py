"""Tables of the page: what a run held out; guards, comparisons of policies and segments of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bopl._html import Markup, element, join, table
from bopl.report.plain import number_text, signed_text

Row = Mapping[str, Any]

GUARDS = "What else must not get worse: the change of each guarded reward. A verdict of better needs all of them kept."
COMPARISONS = "Policies compared with each other on the same decisions: what the first earns more than the second."
SEGMENTS = "The difference from the logging policy in each part of the log."
HEADS = ("part", "samples", "groups", "first", "last")


def held_out(summary: Mapping[str, Any]) -> dict[str, Markup]:
    """Return how the log was divided: samples, groups, first and last time of both parts, and what was dropped."""
    split = summary["split"]
    how = "Decisions drawn at random are held out."
    if split["by"] == "time":
        how = "The latest decisions are held out: no training decision is as late as the first of them."
    if split["n_dropped"]:
        how += (
            f" {split['n_dropped']:,} earlier decisions are dropped from training: their "
            f"{split['n_dropped_groups']:,} groups are among those held out."
        )
    rows = [(name, *_cells(split[part])) for name, part in (("training", "train"), ("held out", "test"))]
    return {"divided": join(how), "parts": table(HEADS, rows, numeric=(1, 2))}


def _cells(part: Mapping[str, Any]) -> tuple[str, ...]:
    counts = tuple("–" if part[name] is None else f"{part[name]:,}" for name in ("n_samples", "n_groups"))
    return (*counts, *("–" if part[name] is None else str(part[name]) for name in ("first", "last")))


def answers(evaluation: Mapping[str, Any]) -> Markup:
    """Return a block with a table for each kind of answer that an evaluation has besides its estimates."""
    guards = [
        (row["policy"], row["guard"], number_text(row["now"]), signed_text(row["change"]), _interval(row), row["state"])
        for row in evaluation.get("guards", ())
    ]
    comparisons = [
        (row["policy"], row["other"], row["estimator"], signed_text(row["difference"]), _interval(row), row["verdict"])
        for row in evaluation.get("comparisons", ())
    ]
    segments = [
        (
            row["policy"],
            row["segment"],
            f"{row['n']:,}",
            signed_text(row["uplift"]),
            _interval(row, "uplift_"),
            row["verdict"],
        )
        for row in evaluation.get("segments", ())
    ]
    return join(
        _block("Guards", GUARDS, ("policy", "guard", "now", "change", "interval", "state"), guards, (2, 3, 4)),
        _block(
            "Head to head",
            COMPARISONS,
            ("policy", "compared with", "estimator", "difference", "interval", "verdict"),
            comparisons,
            (3, 4),
        ),
        _block(
            "Segments",
            SEGMENTS,
            ("policy", "segment", "decisions", "difference", "interval", "verdict"),
            segments,
            (2, 3, 4),
        ),
    )


def _block(
    title: str, lead: str, heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int]
) -> Markup | None:
    if not rows:
        return None
    return element(
        "div",
        element("h3", title),
        element("p", lead, class_="lead"),
        element("div", table(heads, rows, numeric=numeric), class_="scroll"),
        class_="block",
    )


def _interval(row: Row, prefix: str = "") -> str:
    return f"{signed_text(row[f'{prefix}ci_lower'])} to {signed_text(row[f'{prefix}ci_upper'])}"
