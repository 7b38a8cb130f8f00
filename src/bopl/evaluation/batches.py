"""`Batches`: a log in Parquet files, read a batch of rows at a time, as policies want to see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl.evaluation.evaluation_task import EvaluationTask
from bopl.log import BanditLog
from bopl.log.check import check_group, context_columns
from bopl.log.format.columnar import reading, validated
from bopl.log.schema import LogSchema


@dataclass(frozen=True)
class Columns:
    """Which columns of the files are what."""

    roles: Mapping[str, str]  # of ``action``, ``reward``, ``propensity`` and perhaps ``group``
    policies: Mapping[str, str]  # with the probabilities of the logged actions under policies that are given by them
    guards: tuple[str, ...]  # rewards that are guarded
    segment: str | None

    @property
    def taken(self) -> list[str]:
        """Columns that are not context by default."""
        return sorted({*self.roles.values(), *self.policies.values(), *self.guards})

    def check(self, files: Sequence[Any], context: Sequence[str] | None) -> None:
        """Raise if a column is not there, has two roles, or is context and known only after the decision."""
        roles = {**self.roles, **{f"guard {name!r}": name for name in self.guards}}
        for file in files:
            present = file.schema_arrow.names
            context_columns(present, roles, context)
            for name, column in self.policies.items():
                context_columns(present, {f"policy {name!r}": column}, None)
            if self.segment is not None:
                context_columns(present, {"segment": self.segment}, None)


@dataclass(frozen=True, eq=False)
class Batches:
    """A log in Parquet files, a batch of rows at a time."""

    files: Sequence[Any]
    columns: Columns
    context: list[str]  # columns that policies and models look at
    schema: LogSchema | None  # how they are read, where the policies say so
    actions: Any  # labels of all actions
    groups: Any  # labels of all groups, in the order of their numbers
    batch_rows: int

    def read(self) -> Iterator[tuple[BanditLog, dict[str, Any] | None, Any]]:
        """Yield each batch as a log, with the probabilities of policies that are columns and the groups' numbers."""
        segment = [] if self.columns.segment is None else [self.columns.segment]
        names = list(dict.fromkeys([*self.context, *self.columns.taken, *segment]))
        for batch in _batches(self.files, names, self.batch_rows):
            prob = {
                name: batch[column].to_numpy(zero_copy_only=False) for name, column in self.columns.policies.items()
            }
            numbers = None
            if self.groups is not None:
                numbers = _group_numbers(batch[self.columns.roles["group"]], self.groups)
            yield self._log_of(batch), prob or None, numbers

    def _log_of(self, batch: Any) -> BanditLog:
        import pyarrow

        table, columns = pyarrow.Table.from_batches([batch]), self.columns
        if self.schema is not None:
            matrix = self.schema.encode(table)
        elif self.context:
            matrix = table.select(self.context)
        else:  # without a policy that looks at it the context may be anything
            matrix = np.zeros((batch.num_rows, 1), dtype=np.float32)
        return BanditLog(
            matrix,
            *(table[columns.roles[role]] for role in ("action", "reward", "propensity")),
            actions=self.actions,
            other_rewards={name: table[name] for name in columns.guards},
            segment=None if columns.segment is None else table[columns.segment],
        )


def find_batches(
    files: Sequence[Any],
    columns: Columns,
    task: EvaluationTask,
    context: Sequence[str] | None,
    actions: Any,
    batch_rows: int,
) -> Batches:
    """Return how to read the files; actions and groups that are not given are looked for in their columns."""
    objects = [policy for name, policy in task.policies.items() if name not in columns.policies]
    schema = _shared_schema(objects) if context is None else None
    if schema is not None:
        wanted = [column.name for column in schema.columns]
    elif context is not None:
        wanted = list(context)
    else:
        wanted = [name for name in files[0].schema_arrow.names if name not in columns.taken]
    if schema is None and not objects and task.reward_model is None and task.logging_policy is None:
        wanted = []  # nobody looks at the context
    if actions is None:
        actions = _find_actions(files, columns.roles["action"], [*objects, task.logging_policy], batch_rows)
    group = columns.roles.get("group")
    groups = None if group is None else _find_groups(files, group, batch_rows)
    return Batches(files, columns, wanted, schema, actions, groups, batch_rows)


def _find_actions(files: Sequence[Any], action: str, policies: Sequence[Any], batch_rows: int) -> list[Any]:
    """Return the actions that a policy knows, or those that occur in the files."""
    for policy in policies:
        labels = getattr(policy, "actions_", None)
        if labels is not None:
            return list(np.asarray(labels).tolist())
    found: set[Any] = set()
    for batch in _batches(files, [action], batch_rows):
        found.update(batch[action].unique().to_pylist())
    return sorted(found, key=lambda label: (str(type(label)), label))


def _find_groups(files: Sequence[Any], group: str, batch_rows: int) -> Any:
    """Return the labels of all groups, in the order in which `BanditLog` numbers those of a whole log."""
    import pyarrow

    found: Any = None
    for batch in _batches(files, [group], batch_rows):
        labels = _plain(batch[group]).unique()
        found = labels if found is None else pyarrow.concat_arrays([found, labels]).unique()
    if found is None:
        return pyarrow.nulls(0)  # there is no row
    if found.null_count or (pyarrow.types.is_floating(found.type) and np.isnan(found.to_numpy()).any()):
        raise ValueError(f"group is missing in some samples: column {group!r} has nulls; give each sample a group.")
    return found.take(pyarrow.array(np.argsort(check_group(pyarrow.chunked_array([found])))))


def _group_numbers(labels: Any, groups: Any) -> Any:
    import pyarrow.compute

    return pyarrow.compute.index_in(_plain(labels), value_set=groups).to_numpy()


def _plain(column: Any) -> Any:
    """Return a column of categories as the labels they stand for."""
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _batches(files: Sequence[Any], columns: list[str], batch_rows: int) -> Iterator[Any]:
    for file in files:
        batches = file.iter_batches(batch_size=batch_rows, columns=columns)
        while True:
            with reading("the log", "Parquet"):
                batch = next(batches, None)
                if batch is None:
                    break
                batch = validated(batch)
            if batch.num_rows:
                yield batch


def _shared_schema(policies: Sequence[Any]) -> LogSchema | None:
    """Return how all of the policies read their columns; None if they do not say, or not the same."""
    schemas = [getattr(policy, "schema_", None) for policy in policies]
    return schemas[0] if schemas and all(schema == schemas[0] for schema in schemas) else None
