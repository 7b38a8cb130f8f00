"""Evaluation of a log that does not fit into memory: one pass over Parquet row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bopl._settings import check_number
from bopl.evaluation.accumulate import ValueAccumulator
from bopl.evaluation.margin import parse_guards
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import named_policies
from bopl.log import BanditLog
from bopl.log.check import check_group, context_columns
from bopl.log.format.columnar import open_parquet, reading, validated
from bopl.log.schema import LogSchema


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
    batch_rows: int = 1 << 18,
) -> Evaluation:
    """Evaluate policies on a log in Parquet files in one pass, a batch of rows at a time.

    The result is that of `evaluate` on the whole log, but for rounding; with ``interval="bootstrap"`` too, because a
    sample is drawn by its number.

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
        All actions; by default those of the first policy that knows them, else those that occur (which takes a look at
        the action column before).
    group : str, optional
        Name of the column with what a sample belongs to, such as a user: intervals are then those of dependent samples.
        A group may be spread over batches and files; memory grows with the number of groups, and the column is looked
        at once before.
    guards : sequence of str or Guard, optional
        As for `evaluate`; the rewards they name are columns, and no context.
    segment : str, optional
        Name of the column with what a sample counts to.
    reward_model : fitted model, optional
        For estimators that need one: fitted on other samples than these.
    batch_rows : int, default=262144
        Rows in memory at a time.
    estimators, interval, confidence, min_uplift, against, head_to_head, simultaneous, logging_policy, n_replicates, \
    reward_range, min_propensity, exact_propensity, random_state, n_jobs
        As for `evaluate`; ``against`` is the name of one of the policies.
    """
    check_number("batch_rows", batch_rows, low=1, integer=True)
    files = [open_parquet(one) for one in ([path] if isinstance(path, str | Path) else path)]
    if not files:
        raise ValueError("there is no file to evaluate on: path is empty.")
    named = named_policies(policies)
    columns = {name: policy for name, policy in named.items() if isinstance(policy, str)}
    objects = {name: policy for name, policy in named.items() if name not in columns}
    roles = {"action": action, "reward": reward, "propensity": propensity} | ({"group": group} if group else {})
    guards = parse_guards(guards)
    guarded = [guard.reward for guard in guards]
    _check_columns(files, roles | {f"guard {name!r}": name for name in guarded}, columns, context)
    if segment is not None:
        _check_columns(files, {"segment": segment}, {}, None)
    needs_context = bool(objects) or reward_model is not None or logging_policy is not None
    accumulator = ValueAccumulator(
        named,
        estimators=estimators,
        interval=interval,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        against=against,
        head_to_head=head_to_head,
        simultaneous=simultaneous,
        reward_model=reward_model,
        logging_policy=logging_policy,
        n_replicates=n_replicates,
        reward_range=reward_range,
        min_propensity=min_propensity,
        random_state=random_state,
        n_jobs=n_jobs,
        n_samples=sum(file.metadata.num_rows for file in files),
    )
    taken = {*roles.values(), *columns.values(), *guarded}
    schema = _shared_schema(list(objects.values())) if context is None else None
    if schema is not None:
        wanted = [column.name for column in schema.columns]
    else:
        wanted = _context_names(files[0], context, taken) if needs_context else []
    if actions is None:
        actions = _find_actions(files, action, [*objects.values(), logging_policy], batch_rows)
    groups = None if group is None else _find_groups(files, group, batch_rows)
    read = dict.fromkeys([*wanted, *sorted(taken), *([] if segment is None else [segment])])
    for batch in _batches(files, list(read), batch_rows):
        accumulator.add(
            _batch_log(batch, roles, wanted, actions, schema, guarded, segment).with_exact_propensity(exact_propensity),
            policies={name: _column(batch, column) for name, column in columns.items()} or None,
            group=None if group is None else _group_numbers(batch[group], groups),
        )
    return accumulator.result()


def _check_columns(
    files: Sequence[Any], roles: Mapping[str, str], policies: Mapping[str, str], context: Sequence[str] | None
) -> None:
    """Raise if a column is not there, has two roles, or is context and known only after the decision."""
    for file in files:
        present = file.schema_arrow.names
        context_columns(present, roles, context)
        for name, column in policies.items():
            context_columns(present, {f"policy {name!r}": column}, None)


def _context_names(file: Any, context: Sequence[str] | None, taken: set[str]) -> list[str]:
    if context is not None:
        return list(context)
    return [name for name in file.schema_arrow.names if name not in taken]


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


def _batch_log(
    batch: Any,
    roles: Mapping[str, str],
    context: list[str],
    actions: Any,
    schema: LogSchema | None,
    other_rewards: Sequence[str],
    segment: str | None,
) -> BanditLog:
    import pyarrow

    table = pyarrow.Table.from_batches([batch])
    if schema is not None:
        matrix = schema.encode(table)
    else:  # without a policy that looks at it the context may be anything
        matrix = table.select(context) if context else np.zeros((batch.num_rows, 1), dtype=np.float32)
    return BanditLog(
        matrix,
        *(table[roles[role]] for role in ("action", "reward", "propensity")),
        actions=actions,
        other_rewards={name: table[name] for name in other_rewards},
        segment=None if segment is None else table[segment],
    )


def _column(batch: Any, name: str) -> Any:
    return batch[name].to_numpy(zero_copy_only=False)
