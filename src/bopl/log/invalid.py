"""Rows that a log cannot use, by reason: a missing reward, a propensity above 1, an action that is not there, …"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._native import unmasked
from bopl._typing import BoolArray, FloatArray
from bopl.log.action import python_labels
from bopl.log.check import MAX_ABOVE_ONE, MIN_PROPENSITY, float_column
from bopl.log.column import TEXT, distinct_values
from bopl.log.instant import unreadable_times
from bopl.log.missing import is_missing, missing_rows

Reasons = dict[str, BoolArray]


def invalid_rows(
    columns: Mapping[str, Any], actions: object | None = None, others: Mapping[str, Any] | None = None
) -> Reasons:
    """Return which rows cannot be used, by reason.

    Parameters
    ----------
    columns : mapping of role to column
        Any of action, reward, propensity, time and group; rewards and propensities as `lenient_numbers` gives them.
    actions : sequence of labels, optional
        All actions that can be chosen, where they are listed.
    others : mapping of name to column, optional
        Other rewards.
    """
    found: Reasons = {}
    for name, values in (others or {}).items():
        numbers = lenient_numbers(values, name)
        found |= {f"{name} is missing": np.isnan(numbers), f"{name} is infinite": np.isinf(numbers)}
    for role, values in columns.items():
        if role == "reward":
            found |= {"reward is missing": np.isnan(values), "reward is infinite": np.isinf(values)}
        elif role == "time":
            found |= {"time is missing": missing_rows(values), "time cannot be read": unreadable_times(values)}
        elif role == "propensity":
            found |= {
                "propensity is missing": np.isnan(values),
                "propensity is 0 or negative": values <= 0.0,
                f"propensity is below {MIN_PROPENSITY:g}": (values > 0.0) & (values < MIN_PROPENSITY),
                "propensity is above 1": values > 1.0 + MAX_ABOVE_ONE,
            }
        else:
            found[f"{role} is missing"] = missing_rows(values)
    if actions is not None and "action" in columns:
        known = set(python_labels(actions))
        logged = python_labels(columns["action"])
        unknown = [not is_missing(label) and label not in known for label in logged]
        found["action is not one of the actions"] = np.array(unknown, dtype=np.bool_)
    return {reason: rows for reason, rows in found.items() if rows.any()}


def lenient_numbers(values: Any, name: str) -> FloatArray:
    """Return a column as floats; text that is no number, and whatever else is none, becomes NaN."""
    series = nw.from_native(unmasked(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and series.dtype in TEXT:
        labels, position = distinct_values(series)
        return np.array([*map(_number, labels), np.nan])[position]
    try:
        return float_column(values, name)
    except TypeError:
        listed = series.to_list() if isinstance(series, nw.Series) else list(series)
        return np.array([_number(value) for value in listed], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return np.nan if is_missing(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
