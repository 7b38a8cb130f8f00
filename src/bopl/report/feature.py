"""Context columns as a person reads them: names, values as text, and bins that the log is divided into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log import BanditLog
from bopl.log.context import is_sparse
from bopl.report.plain import label, number_text

MAX_CATEGORIES = 7  # that have a bin of their own
N_QUANTILES = 5
COMMON = 0.15  # a least value as frequent as this has a bin of its own
MISSING, OTHER = "missing", "other"


@dataclass(frozen=True)
class Column:
    """One context column."""

    idx: int
    name: str
    texts: tuple[str, ...] | None = None  # what the numbers 0, 1, … of a categorical column stand for

    def text(self, value: float) -> str:
        """Return a value as a person would write it."""
        if np.isnan(value):
            return MISSING
        if self.texts is not None and value == int(value) and 0 <= int(value) < len(self.texts):
            return self.texts[int(value)]
        return number_text(float(value))


def read_columns(log: BanditLog, encoder: Any) -> list[Column]:
    """Return the columns of a log; ``encoder`` as for `summarise`."""
    names = log.feature_names or [f"feature {idx}" for idx in range(log.n_features)]
    texts = encoder if isinstance(encoder, Mapping) else getattr(encoder, "categories", None) or {}
    return [
        Column(idx, str(name), tuple(map(label, texts[name])) if name in texts else None)
        for idx, name in enumerate(names)
    ]


def column_values(log: BanditLog, idx: int, rows: IntArray | slice = slice(None)) -> AnyArray:
    """Return the values of one column as a dense array."""
    if is_sparse(log.context):
        return log.context[rows][:, [idx]].toarray().ravel()
    return log.context[rows, idx]


@dataclass(frozen=True, eq=False)
class Bins:
    """A division of one column's values."""

    column: Column
    labels: tuple[str, ...]
    edges: FloatArray  # categories in the order of their labels, or where the bins of numbers begin
    is_category: bool
    # Whether there is a bin for rare categories, and one for missing values; in this order, at the end.
    has_other: bool
    has_missing: bool

    def place(self, values: AnyArray) -> IntArray:
        """Return the bin of every value; -1 for one that no bin is meant for, such as a category not seen before."""
        is_missing = np.isnan(values)
        if not self.is_category:
            places = np.searchsorted(self.edges, values, side="right")
        else:
            places = np.full(len(values), len(self.edges) if self.has_other else -1)
            for bin_idx, category in enumerate(self.edges):
                places[values == category] = bin_idx
        return np.where(is_missing, len(self.labels) - 1 if self.has_missing else -1, places)


def make_bins(column: Column, values: AnyArray) -> Bins:
    """Divide a column by the values of some rows: categories where there are few, quantiles otherwise."""
    missing: BoolArray = np.isnan(values)
    distinct, count = np.unique(values[~missing], return_counts=True)
    has_missing = bool(missing.any()) or len(distinct) == 0
    if column.texts is not None or len(distinct) <= MAX_CATEGORIES + 1:
        return _category_bins(column, distinct, count, has_missing)
    edges = _quantile_edges(values[~missing], distinct, count)
    labels = _number_labels(distinct, edges)
    return Bins(column, (*labels, *([MISSING] if has_missing else [])), edges, False, False, has_missing)


def _category_bins(column: Column, distinct: AnyArray, count: IntArray, has_missing: bool) -> Bins:
    has_other = len(distinct) > MAX_CATEGORIES + 1
    if column.texts is not None:
        order = np.argsort(-count, kind="stable")
        distinct = distinct[order[: MAX_CATEGORIES if has_other else None]]
    labels = [column.text(float(value)) for value in distinct]
    ends = ([OTHER] if has_other else []) + ([MISSING] if has_missing else [])
    return Bins(column, (*labels, *ends), distinct.astype(np.float64), True, has_other, has_missing)


def _quantile_edges(values: AnyArray, distinct: AnyArray, count: IntArray) -> FloatArray:
    is_common = count[0] >= COMMON * len(values)
    above = values[values > distinct[0]] if is_common else values
    share = np.arange(1, N_QUANTILES) / N_QUANTILES
    edges = np.quantile(above, share, method="higher").astype(np.float64)
    start = [float(above.min())] if is_common else []
    edges = np.unique([*start, *edges])
    return edges[edges > distinct[0]]


def _number_labels(distinct: AnyArray, edges: FloatArray) -> list[str]:
    """Return what the bins of numbers hold: whole numbers as "3–7", others as "3.2 to 7.5"."""
    inner = edges.tolist()
    if np.all(distinct == np.round(distinct)) and abs(float(distinct[-1])) < 1e6:
        starts, ends = [float(distinct[0]), *inner], [*(edge - 1 for edge in inner), float(distinct[-1])]
        spans = zip(starts, ends, strict=True)
        return [label(start) if start >= end else f"{label(start)}–{label(end)}" for start, end in spans]
    low, high = number_text(inner[0]), number_text(inner[-1])
    first = label(float(distinct[0])) if distinct[1] == inner[0] else f"below {low}"
    middle = [f"{number_text(start)} to {number_text(end)}" for start, end in pairwise(inner)]
    return [first, *middle, f"{high} or more"]


def find_bins(log: BanditLog, columns: Sequence[Column], rows: IntArray) -> list[Bins]:
    """Divide some columns of a log by the values of some of its rows."""
    return [make_bins(column, column_values(log, column.idx, rows)) for column in columns]
