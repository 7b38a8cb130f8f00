"""What a run held out, as a sentence and a table of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bopl._html import Markup, join, table

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
