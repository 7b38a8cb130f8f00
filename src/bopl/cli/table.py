"""An evaluation as a table that fits a terminal of eighty columns."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bopl.evaluation import Evaluation


def evaluation_table(evaluation: Evaluation) -> Any:
    """Return one line per policy and estimator: value, uplift with its interval, verdict."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from bopl.evaluation.result import STYLES, between_text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=evaluation.title, title_justify="left", title_style="")
    for heading in ("policy", "estimator", "value", "uplift and its interval", "verdict"):
        is_number = heading in ("value", "uplift and its interval")
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in evaluation.rows:
        table.add_row(
            Text(row.policy),
            row.estimator,
            "unknown" if isnan(row.value) else f"{row.value:.4g}",
            "" if isnan(row.uplift) else Text(between_text(row.uplift, row.uplift_ci_lower, row.uplift_ci_upper)),
            Text(row.verdict, style=STYLES[row.verdict]),
        )
    return table


def part_tables(evaluation: Evaluation) -> list[Any]:
    """Return guards, comparisons and segments, if there are any, as tables."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from bopl.evaluation.result import STYLES, part_rows

    tables = []
    for title, heads, rows in part_rows(evaluation):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="")
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        tables.append(table)
    return tables
