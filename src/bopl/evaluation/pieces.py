"""Evaluation of a log in pieces: each is summed up apart, here or on a cluster, and the sums are joined in order.

The pieces of Parquet files may have columns with the probabilities of policies.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._typing import FloatArray
from bopl.cluster import map_over
from bopl.evaluation.answer import conclude
from bopl.evaluation.books import Books
from bopl.evaluation.evaluation_task import EvaluationSettings, EvaluationTask
from bopl.evaluation.log_sums import LogSums, sum_part
from bopl.evaluation.question import parse_guards
from bopl.evaluation.result import Evaluation
from bopl.evaluation.rounding import Rounding
from bopl.evaluation.sources import PropensityOrigin, named_policies
from bopl.log import BanditLog, PartitionedLog, Piece
from bopl.log.check import context_columns
from bopl.log.column import Column
from bopl.log.pieces.footer import common_types, find_footers
from bopl.log.pieces.scan import scan
from bopl.log.pieces.spec import PieceSpec, read_piece
from bopl.log.request import LogRequest
from bopl.log.schema import LogSchema


def evaluate_pieces(
    log: PartitionedLog,
    task: EvaluationTask,
    cluster: Any = None,  # where pieces are summed up; one after the other in this process by default
    *,
    columns: Mapping[str, PolicyColumn] | None = None,  # policies whose probabilities are in the files
) -> Evaluation:
    """Return the evaluation of a log in pieces; it is the same whoever sums up the pieces."""
    log.require_propensity()
    given, columns = _arrays(log, task), columns or {}
    task = replace(
        task, policies={**task.policies, **dict.fromkeys([*given, *columns])}
    )  # every piece brings its own rows
    first, *others = [
        _Share(piece, {name: values[piece.rows] for name, values in given.items()}, columns) for piece in log.pieces
    ]
    task, sums = _begun(first, log, task, cluster)
    books, rows = sums.books.empty(), [one.piece.n_rows for one in others]
    for part in map_over(cluster, others, _summed, log.spec, task, books, rows=rows):
        sums.merge(part)
    return conclude(task, sums)


def _begun(first: _Share, log: PartitionedLog, task: EvaluationTask, cluster: Any) -> tuple[EvaluationTask, LogSums]:
    """Return the sums of the first piece, which chooses units and settings for all, and what all have to know."""
    part, others = log.load(first.piece), log.pieces[1:]
    rows = [piece.n_rows for piece in others]
    propensities = map_over(cluster, others, _distinct_propensities, log.spec, rows=rows)
    task = replace(task, rounding=Rounding.of(part, chain([part.propensity], propensities)))
    return task, _sums_of(first, part, task, None)


def _distinct_propensities(piece: Piece, spec: PieceSpec) -> FloatArray:
    return np.unique(spec.propensities_of(piece))


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
    return _sums_of(share, spec.load(share.piece), task, books)


def _sums_of(share: _Share, part: BanditLog, task: EvaluationTask, books: Books | None) -> LogSums:
    sources = task.read(part, share.policies or None, part.group)
    return sum_part(task, sources, share.piece.offset, books, settles=books is None)


def evaluate_parquet(
    path: str | Path | Sequence[str | Path],
    policies: object,
    *,
    action: str,
    reward: str,
    propensity: str,
    context: Sequence[str] | None = None,
    actions: object | None = None,
    group: str | None = None,
    estimators: object = None,
    interval: str = "normal",
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: str | None = None,
    against: str | None = None,
    head_to_head: bool = False,
    simultaneous: bool = True,
    reward_model: object = None,
    logging_policy: object = None,
    n_replicates: int = 1000,
    reward_range: tuple[float, float] | None = None,
    min_propensity: float | None = None,
    exact_propensity: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    batch_rows: int | None = None,
) -> Evaluation:
    """Evaluate policies on a log in Parquet files, one row group at a time; policies may be columns of the files.

    The result is that of `evaluate` on the whole log, but for rounding; with ``interval="bootstrap"`` too, because a
    sample is drawn by its number. A log whose policies are not columns can also be given to `evaluate`, as
    `BanditLog.scan_parquet` returns it.

    Parameters
    ----------
    path : str or Path, or a sequence of them
        Files of one log, in order.
    policies : policy, column name, or mapping of name to one of them
        An object with ``predict_proba``, or the name of a column with the policy's probability of the logged action.
    action, reward, propensity : str
        Names of the columns.
    context : sequence of str, optional
        Names of the context columns that policies and reward model look at; by default those that the policies
        remember, with their categories, else all without another role.
    actions : sequence of labels, optional
        All actions; by default those of the first policy that knows them, else those that occur (the action column is
        then read once more beforehand).
    group : str, optional
        Name of the column with the group of each sample, such as a user: intervals then allow for dependent samples. A
        group may be spread over row groups and files. Memory grows with the number of groups, and the column is read
        once more beforehand.
    guards : sequence of str or Guard, optional
        As for `evaluate`; the rewards they name are columns, which are not part of the context.
    segment : str, optional
        Name of the column with the segment of each sample.
    reward_model : fitted model, optional
        For estimators that need one: fitted on other samples than these.
    batch_rows : int, optional
        Deprecated: has no effect, a row group is read at a time.
    estimators, interval, confidence, min_uplift, against, head_to_head, simultaneous, logging_policy, n_replicates, \
    reward_range, min_propensity, exact_propensity, random_state, n_jobs
        As for `evaluate`; ``against`` is the name of one of the policies.
    """
    if batch_rows is not None:
        warnings.warn("batch_rows has no effect; it will be removed in 0.3.", FutureWarning, stacklevel=2)
    files = [path] if isinstance(path, str | Path) else list(path)
    if not files:
        raise ValueError("there is no file to evaluate on: path is empty.")
    named, guards = named_policies(policies), parse_guards(guards)
    guarded = [guard.reward for guard in guards]
    request = LogRequest(
        files, action, reward, propensity, group=group, context=context, other_rewards=guarded, segment=segment
    )
    settings = EvaluationSettings(
        estimators=estimators,
        interval=interval,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        against=against,
        head_to_head=head_to_head,
        simultaneous=simultaneous,
        n_replicates=n_replicates,
        reward_range=reward_range,
        min_propensity=min_propensity,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    log, columns = _scan(request, named, actions, [reward_model, logging_policy])
    task = EvaluationTask(settings, named, reward_model, logging_policy, n_samples=log.n_samples)
    return evaluate_pieces(log.with_exact_propensity(exact_propensity), task, columns=columns)


def _scan(
    request: LogRequest, policies: Mapping[str, object], actions: object, models: Sequence[object]
) -> tuple[PartitionedLog, dict[str, PolicyColumn]]:
    """Return the log in its files, as those who look at its contexts know it, and the policies that are columns."""
    footers = find_footers(request.path)
    names = {name: policy for name, policy in policies.items() if isinstance(policy, str)}
    for footer in footers:
        context_columns(footer.schema.names, {f"policy {name!r}": column for name, column in names.items()}, None)
    types = common_types(footers, list(names.values()))
    taken = {*request.roles.values(), *request.carried, *(request.context or ())}
    request = replace(request, ignore=sorted({*names.values()} - taken))
    objects = [policy for name, policy in policies.items() if name not in names]
    schema = None
    if request.context is None:
        # Where nobody looks at the context, a column that is read anyway stands for it.
        is_idle = all(one is None for one in [*objects, *models])
        schema = LogSchema((Column(request.roles["propensity"], "number"),)) if is_idle else _shared_schema(objects)
    known = (getattr(one, "actions_", None) for one in [*objects, models[-1]])
    actions = next((labels for labels in known if labels is not None), None) if actions is None else actions
    columns = {name: PolicyColumn(column, types[column]) for name, column in names.items()}
    return scan(request, footers, actions=actions, schema=schema), columns


def _shared_schema(policies: Sequence[object]) -> LogSchema | None:
    """Return how all of the policies read their columns; None if they do not say, or not the same."""
    schemas = [getattr(policy, "schema_", None) for policy in policies]
    return schemas[0] if schemas and all(schema == schemas[0] for schema in schemas) else None
