"""Why propensities lie outside (0, 1]: what the bad values usually mean, which rows they are, and what those share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow

from bopl._typing import BoolArray, FloatArray
from bopl.log.column import distinct_values
from bopl.log.frame import TEXT

MAX_FIRST = 5  # rows that are listed
MAX_DISTINCT = 200  # values of a column that rows may be told by
ALIKE = 0.95  # share of the bad rows that have a value, and of the rows with that value that are bad
DROP = "drop them with drop_invalid=True"


def propensity_hint(
    values: FloatArray, bad: BoolArray, columns: Mapping[str, nw.Series[Any]], action: str | None
) -> str:
    """Return what bad propensities usually mean and what to do.

    ``columns`` are whatever else is known of the samples, and ``action`` is the name of the one with the actions.
    """
    first = values[bad][0]
    shared = shared_value(bad, columns)
    if np.isnan(first):
        text = "A missing propensity cannot be guessed: recover it from the logging policy, or"
        return f"{_rows_text(bad, shared)}{text} {DROP}."
    if first < 0.0:
        return "Negative values usually mean the log stores log-probabilities: pass np.exp of them."
    if first == 0.0:
        return (
            f"{_rows_text(bad, shared)}An action that was taken had a positive probability: zeros usually come from "
            f"rounding; log more digits, or {DROP}."
        )
    if first < 1.0:
        return (
            f"{_rows_text(bad, shared)}An action that is so unlikely is never taken: the number is a density, a "
            f"product of probabilities or the result of an underflow; log the probability of the action, or {DROP}."
        )
    above = values > 1.0
    is_percent = bool((values[above] <= 100.0).all())
    n_actions = _n_distinct(columns[action]) if action is not None else None
    if _is_whole_column(values, above, n_actions, 100.0 if is_percent else None):
        if is_percent and not (above.all() and _is_nearer_inverse(values, n_actions)):
            return "Values up to 100 usually mean percentages: divide by 100."
        return "Values far above 1 usually mean inverse propensities: pass 1 / propensity."
    if np.isinf(values[above]).any():
        return (
            f"{_rows_text(bad, shared)}Infinite values usually come from a division by zero: correct them, or {DROP}."
        )
    kind = "percentages" if is_percent else "another unit, such as inverse propensities"
    return (
        f"Only some rows seem to hold {kind}, so converting the whole column would be wrong. "
        f"{_rows_text(above, shared_value(above, columns))}Convert only those rows, or {DROP}."
    )


def _is_nearer_inverse(values: FloatArray, n_actions: int | None) -> bool:
    """Whether the mean of values up to 100 is nearer to the number of actions than that of 1/p if they are percentages.

    The mean of 1/p is the number of actions, whatever the logging policy.
    """
    if n_actions is None:
        return False
    return bool(abs(np.log(values.mean() / n_actions)) < abs(np.log(np.mean(100.0 / values) / n_actions)))


def _n_distinct(values: nw.Series[Any]) -> int | None:
    """Return how many values differ; None for columns, such as nested lists, whose values cannot be compared."""
    try:
        return int(values.n_unique())
    except (pyarrow.ArrowException, TypeError, NotImplementedError):
        return None


def _is_whole_column(values: FloatArray, above: BoolArray, n_actions: int | None, unit: float | None) -> bool:
    """Whether all values are in another unit, also those that could be probabilities.

    The mean of 1/p is the number of actions; where some values lie below 1, it tells which unit they have.
    """
    rest = values[(values > 0.0) & ~above]
    if above.sum() >= 0.5 * len(values) or len(rest) == 0:
        return True
    if n_actions is None or unit is None:
        return False
    as_they_are = abs(np.log(np.mean(1.0 / rest) / n_actions))
    converted = abs(np.log(np.mean(unit / np.append(rest, values[above])) / n_actions))
    return bool(converted < as_they_are)


def _rows_text(bad: BoolArray, shared: str | None) -> str:
    rows = np.flatnonzero(bad)
    listed = ", ".join(str(row) for row in rows[:MAX_FIRST].tolist())
    more = ", …" if len(rows) > MAX_FIRST else ""
    if len(rows) == 1 and shared is None:
        return ""
    return f"They are rows {listed}{more}{'' if shared is None else f': {shared}'}. "


def shared_value(bad: BoolArray, columns: Mapping[str, nw.Series[Any]]) -> str | None:
    """Return the column and the value that the bad rows have and the others do not, in words; None if none."""
    if bad.sum() < MAX_FIRST or bad.all():
        return None
    best: tuple[float, str] | None = None
    for name, column in columns.items():
        if not (column.dtype in TEXT or column.dtype.is_integer() or column.dtype == nw.Boolean):
            continue
        labels, position = distinct_values(column)
        if not 1 < len(labels) <= MAX_DISTINCT:
            continue
        total = np.bincount(position[position >= 0], minlength=len(labels))
        found = np.bincount(position[bad & (position >= 0)], minlength=len(labels))
        top = int(np.argmax(found))
        covered, pure = found[top] / bad.sum(), found[top] / total[top]
        if covered >= ALIKE and pure >= ALIKE and (best is None or covered * pure > best[0]):
            best = covered * pure, f"those where {name!r} is {labels[top]!r}"
    return None if best is None else best[1]
