"""Columns that name rows and describe nothing."""

from __future__ import annotations

import re

import numpy as np

from bopl._typing import AnyArray
from bopl.log.column import Column
from bopl.log.leak.leak import DOUBTFUL, IDENTIFIER, SURE, Leak

SURE_SHARE = 0.95  # distinct texts among those that are there, from which a column names rows
MIN_DISTINCT = 100
MAX_EXACT = 2.0**24  # integers beyond it are not exact in float32
MAX_SPREAD = 2.0  # range of integers that count rows, in rows
_ID_NAME = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|hash|token|number|no|nr|key)$|[a-z]I[dD]$", re.IGNORECASE)


def judge_identifier(column: Column, values: AnyArray) -> Leak | None:
    """Return whether nearly every row has a value of its own in a column of text, or in one of integers that count.

    Integers that merely are many, as incomes and distances are, say how much of something there is.

    Parameters
    ----------
    column : Column
    values : array of shape (n_samples,)
        Encoded, of all samples.
    """
    if column.kind == "category":
        return _judge_text(column, values)
    if column.kind != "number" or not column.is_identifier:
        return None
    if _ID_NAME.search(column.name):
        return _leak(
            column, SURE, "most rows have a unique number, and its name suggests an identifier", _n_present(values)
        )
    return _leak(column, SURE, "it numbers the rows", _n_present(values)) if _counts(values) else None


def _judge_text(column: Column, values: AnyArray) -> Leak | None:
    n_distinct = len(column.categories) + column.n_merged
    if n_distinct < MIN_DISTINCT and not column.is_identifier:
        return None
    n_present = _n_present(values)
    if n_distinct >= max(MIN_DISTINCT, SURE_SHARE * n_present):
        return _leak(column, SURE, f"it has {n_distinct:,} values in {n_present:,} rows", n_distinct)
    if column.is_identifier:
        return _leak(column, DOUBTFUL, f"it has {n_distinct:,} values in {n_present:,} rows", n_distinct)
    return None


def _n_present(values: AnyArray) -> int:
    return int(np.count_nonzero(~np.isnan(values)))


def _counts(values: AnyArray) -> bool:
    """Return whether numbers are all different and fill half of their range or more."""
    present = values[~np.isnan(values)].astype(np.float64)
    if np.abs(present).max() >= MAX_EXACT or np.ptp(present) > MAX_SPREAD * len(present):
        return False
    return len(np.unique(present)) == len(present)


def _leak(column: Column, certainty: str, text: str, value: float) -> Leak:
    return Leak(column.name, IDENTIFIER, certainty, f"{text}, so nothing can be learned from it", float(value))
