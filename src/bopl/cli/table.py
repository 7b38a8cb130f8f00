"""Tables that fit a terminal of eighty columns; an evaluation as such tables."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import isnan
from typing import TYPE_CHECKING, Any

from bopl._errors import visible

if TYPE_CHECKING:
    from bopl.evaluation import Evaluation


def narrow_table(headings: Iterable[str], numeric: Container[str] = (), **looks: Any) -> Any:
    """Return an empty table; columns of numbers are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title_style="", **looks)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numeric else "left", overflow="fold")
    return table


def evaluation_tables(evaluation: Evaluation) -> list[Any]:
    """Return one line per policy and estimator, then guards, comparisons and segments, if there are any."""
    from rich.text import Text

    from bopl.evaluation.result import STYLES, between_text, part_rows

    headings = ("policy", "estimator", "value", "uplift and its interval", "verdict")
    first = narrow_table(headings, headings[2:4], title=evaluation.title)
    for row in evaluation.rows:
        first.add_row(
            Text(visible(row.policy)),
            row.estimator,
            "unknown" if isnan(row.value) else f"{row.value:.4g}",
            "" if isnan(row.uplift) else Text(between_text(row.uplift, row.uplift_ci_lower, row.uplift_ci_upper)),
            Text(row.verdict, style=STYLES[row.verdict]),
        )
    tables = [first]
    for title, heads, rows in part_rows(evaluation):
        tables.append(narrow_table(heads, title=title))
        for cells in rows:
            tables[-1].add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return tables
