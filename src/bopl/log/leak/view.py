"""The context columns of a log as they are tried: one or more arrays of values each, under the name of the column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import UsageError, quoted
from bopl._typing import AnyArray, ContextMatrix, IntArray
from bopl.log.context import MANY, is_sparse
from bopl.log.leak.column_trial import Trial

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog
    from bopl.log.column import Column
    from bopl.log.schema import LogSchema

MAX_SPARSE = 64  # columns of a sparse context that are tried in full, by each of three scores
MAX_TABLE = 50_000_000  # entries of a table of columns by actions


@dataclass(frozen=True, eq=False)
class ColumnView:
    """A context column."""

    name: str | int
    column: Column | None  # how it was read, where the log comes from a frame or a file
    place: IntArray  # its places among the columns of the context

    def values(self, context: ContextMatrix) -> Iterator[AnyArray]:
        """Yield its values in some rows of the context, as one or more float32 arrays."""
        for place in self.place:
            column = context[:, [place]].toarray()[:, 0] if is_sparse(context) else context[:, place]
            yield np.ascontiguousarray(column, dtype=np.float32)

    @property
    def is_category(self) -> bool:
        """Whether its values are positions of categories."""
        return self.column is not None and self.column.kind == "category"


def column_views(log: BanditLog) -> list[ColumnView]:
    """Return the context columns of a log: those of its schema, or one for each column of numbers."""
    if log.schema is None:
        names: Sequence[str | int] = log.feature_names or range(log.n_features)
        return [ColumnView(name, None, np.array([place])) for place, name in enumerate(names)]
    every: IntArray = np.arange(log.n_features)
    return [ColumnView(column.name, column, every[place]) for column, place in log.schema.places()]


def kept_columns(log: BanditLog, dropped: Sequence[str | int]) -> tuple[IntArray, LogSchema | None]:
    """Return which columns of the context are left without some of them, and the schema of these."""
    dropped = [dropped] if isinstance(dropped, str) else dropped  # one name, and not its letters
    views = column_views(log)
    known: list[str | int] = [view.name for view in views]
    unknown = [name for name in dropped if name not in known]
    if unknown:
        raise UsageError(f"there is no context column {unknown[0]!r}; they are {quoted(known, limit=MANY)}.")
    kept = [view for view in views if view.name not in dropped]
    if not kept:
        raise ValueError(
            f"without {quoted(list(dropped))} no context column is left, and a policy needs one. Add what was known "
            "when the action was chosen."
        )
    schema = (
        None if log.schema is None else replace(log.schema, columns=tuple(view.column for view in kept if view.column))
    )
    return np.concatenate([view.place for view in kept]), schema


def striking_columns(context: ContextMatrix, trial: Trial) -> IntArray:
    """Return the columns of a sparse context whose presence goes most with events, the contrast, or an action."""
    present = context.copy()
    present.data = np.ones_like(present.data, dtype=np.float64)
    present = present.T.tocsr()
    count = np.maximum(present @ np.ones(trial.n_samples), 1.0)
    scores = [(present @ trial.target - count * trial.target.mean()) / np.sqrt(count)]
    if trial.inverse is not None and trial.contrast is not None:
        scores.append(np.abs(present @ trial.contrast) / np.sqrt(np.maximum(present @ trial.contrast**2, 1e-300)))
        if present.shape[0] * trial.n_actions <= MAX_TABLE:
            scores.append(_action_scores(present, trial, count))
    best = [np.argsort(-score, kind="stable")[:MAX_SPARSE] for score in scores]
    return np.unique(np.concatenate(best))


def _action_scores(present: AnyArray, trial: Trial, count: AnyArray) -> AnyArray:
    from scipy.sparse import csr_array

    place = (np.arange(trial.n_samples), trial.action_idx)
    taken = csr_array((trial.inverse, place), shape=(trial.n_samples, trial.n_actions))
    total, square = (present @ taken).toarray(), (present @ taken.power(2)).toarray()
    return ((total - count[:, None]) / np.sqrt(square + 1.0)).max(axis=1)
