"""Pairs of columns that are alike, and whose difference may know what neither of them shows.

A counter before the decision and the same counter after it, or the time at which a row was written and that of its last
change: each of them looks honest, and their difference is the reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.log.leak.column_trial import Trial, rank
from bopl.log.leak.leak import Leak
from bopl.log.leak.view import ColumnView

MIN_ALIKE = 0.8  # rank correlation of columns whose difference is tried
MAX_PAIRS = 64  # the most alike
MAX_ROWS = 5000  # by which columns are compared
MAX_COLUMNS = 1000  # beyond which none are


@dataclass(frozen=True, eq=False)
class Difference(ColumnView):
    """A column less another one, under the name of the one that rises with the reward: it was written later."""

    minus: ColumnView

    def values(self, context: ContextMatrix) -> Iterator[AnyArray]:
        """Yield the differences, of each part of times."""
        for values, less in zip(super().values(context), self.minus.values(context), strict=True):
            yield values - less

    def named(self, leak: Leak) -> Leak:
        """Return what the difference knows as what the column knows."""
        return replace(leak, evidence=f"less {self.minus.name!r}, {leak.evidence}")


def differences(context: AnyArray, views: Sequence[ColumnView], trial: Trial) -> list[Difference]:
    """Return the differences of numbers that are alike, and of times, the most alike first."""
    tried = [view for view in views if _kind(view) != "other"]
    if not 2 <= len(tried) <= MAX_COLUMNS:
        return []
    rows = np.random.default_rng(0).permutation(len(context))[:MAX_ROWS]
    line = [_line(view, context[rows]) for view in tried]
    score, target = np.stack([_score(values) for values in line]), _score(trial.target[rows])
    alike = np.abs(score @ score.T)
    pairs = [
        (one, two)
        for one, two in np.argwhere(np.triu(alike > MIN_ALIKE, 1)).tolist()
        if _kind(tried[one]) == _kind(tried[two]) and len(tried[one].place) == len(tried[two].place)
    ]
    made = []
    for one, two in sorted(pairs, key=lambda pair: -alike[pair])[:MAX_PAIRS]:
        earlier, later = (one, two) if _score(line[two] - line[one]) @ target >= 0.0 else (two, one)
        made.append(Difference(tried[later].name, None, tried[later].place, minus=tried[earlier]))
    return made


def _kind(view: ColumnView) -> str:
    kind = "number" if view.column is None else view.column.kind
    return kind if kind in ("number", "time") else "other"


def _line(view: ColumnView, context: AnyArray) -> FloatArray:
    """Return a column in one number: the hours of times that have a day."""
    parts = [values.astype(np.float64) for values in view.values(context)]
    if view.column is None or view.column.kind == "number":
        return parts[0]
    hours = np.array([{"day": 24.0, "hour": 1.0}.get(part, 0.0) for part in view.column.parts])
    return np.asarray(hours @ np.stack(parts), dtype=np.float64)


def _score(values: AnyArray) -> FloatArray:
    """Return ranks about their mean, of length 1; what is missing is in the middle."""
    is_missing = np.isnan(values)
    score = np.where(is_missing, 0.0, rank(values))
    score = np.where(is_missing, 0.0, score - score.sum() / max(np.count_nonzero(~is_missing), 1))
    return np.asarray(score / max(float(np.sqrt((score**2).sum())), 1e-300), dtype=np.float64)
