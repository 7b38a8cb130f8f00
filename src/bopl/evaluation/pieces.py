"""Evaluation of a log in pieces: each is summed up apart, here or on a cluster, and the sums are joined in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl.cluster import map_over
from bopl.evaluation.answer import conclude
from bopl.evaluation.books import Books
from bopl.evaluation.evaluation_task import EvaluationTask
from bopl.evaluation.log_sums import LogSums, sum_part
from bopl.evaluation.propensity_origin import PropensityOrigin
from bopl.evaluation.result import Evaluation
from bopl.log import PartitionedLog, Piece
from bopl.log.pieces.spec import PieceSpec, read_piece


def evaluate_pieces(
    log: PartitionedLog,
    task: EvaluationTask,
    cluster: Any = None,
    *,
    columns: Mapping[str, PolicyColumn] | None = None,
) -> Evaluation:
    """Return the evaluation of a log in pieces; it is the same whoever sums up the pieces.

    Parameters
    ----------
    cluster : Cluster, distributed.Client or str, optional
        Where pieces are summed up; one after the other in this process by default.
    columns : mapping of name to PolicyColumn, optional
        Policies whose probabilities are in the files.
    """
    log.require_propensity()
    given, columns = _arrays(log, task), columns or {}
    task = replace(
        task, policies={**task.policies, **dict.fromkeys([*given, *columns])}
    )  # every piece brings its own rows
    first, *others = [
        _Share(piece, {name: values[piece.rows] for name, values in given.items()}, columns) for piece in log.pieces
    ]
    # The first piece chooses units and settings for all.
    sums = _summed(first, log.spec, task, None)
    books, rows = sums.books.empty(), [one.piece.n_rows for one in others]
    for part in map_over(cluster, others, _summed, log.spec, task, books, rows=rows):
        sums.merge(part)
    return conclude(task, sums)


def check_suits_pieces(
    origin: PropensityOrigin, segment: object, confounding: bool | None, reward_model: object
) -> None:
    """Raise one sentence if something is asked that needs the whole log in memory."""
    if origin.propensity not in (None, "uniform") or origin.logger is not None:
        raise UsageError(
            "a log in pieces takes the propensities of its files, or propensity='uniform': a model of the logging "
            "policy and the mixture of several need the log in memory. Draw a part of it with log.sample(…)."
        )
    if segment is not None:
        raise UsageError(
            "name the segments of a log in pieces where it is scanned: scan_parquet(…, segment='country')."
        )
    if confounding:
        raise UsageError(
            "confounding needs the log in memory: ask for it on a part of the log, drawn with log.sample(…)."
        )
    if reward_model is not None and not _is_fitted(reward_model):
        raise UsageError(
            "a log in pieces is not cross-fitted: give a reward model that was fitted on other samples, such as "
            "train.sample(200_000)."
        )


def _is_fitted(reward_model: object) -> bool:
    from bopl.reward.prediction import is_fitted

    return not isinstance(reward_model, np.ndarray | list) and is_fitted(reward_model)


def _arrays(log: PartitionedLog, task: EvaluationTask) -> dict[str, Any]:
    """Return the policies that are arrays with a row for each sample of the log, and check that they are."""
    found = {
        name: np.asarray(policy) for name, policy in task.policies.items() if isinstance(policy, np.ndarray | list)
    }
    for name, values in found.items():
        if len(values) != log.n_samples:
            raise ValueError(f"policy {name!r} has {len(values)} rows, the log {log.n_samples}; each sample needs one.")
    return found


@dataclass(frozen=True, eq=False)
class PolicyColumn:
    """A column with a policy's probabilities of the logged actions."""

    name: str
    kind: Any  # pyarrow.DataType

    def of(self, piece: Piece) -> Any:
        """Return the probabilities of a whole row group."""
        return read_piece(piece, (self.name,), {self.name: self.kind}).table[self.name].to_numpy()


@dataclass(frozen=True, eq=False)
class _Share:
    """A piece, and the policies that it brings along: rows of arrays, and columns."""

    piece: Piece
    arrays: Mapping[str, Any]
    columns: Mapping[str, PolicyColumn]

    @property
    def policies(self) -> dict[str, Any]:
        return {**self.arrays, **{name: column.of(self.piece) for name, column in self.columns.items()}}


def _summed(share: _Share, spec: PieceSpec, task: EvaluationTask, books: Books | None) -> LogSums:
    """Return the sums of one piece."""
    part = spec.load(share.piece)
    return sum_part(task, task.read(part, share.policies or None, part.group), share.piece.offset, books)
