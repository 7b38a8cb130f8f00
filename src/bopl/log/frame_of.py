"""From a log back to a table: columns as people know them, with a note of what does not fit into columns."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._errors import UsageError
from bopl._files import replacing
from bopl._typing import AnyArray, BoolArray, FloatArray
from bopl.log.column import OTHER, Column
from bopl.log.context import is_sparse
from bopl.log.written import KEY, Written

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

_MONDAY = 4  # days from 1970-01-01 to a Monday
_ARROW_UNITS = ("D", "s", "ms", "us", "ns")


def log_table(log: BanditLog) -> Any:
    """Return a log as an arrow table, whose metadata says the rest: reading it gives the same log."""
    import pyarrow

    contexts = _sparse_columns(log) if is_sparse(log.context) else _dense_columns(log)
    columns, taken = dict(contexts), set(contexts)
    roles: dict[str, str] = {}
    shares_time = _time_is_context(log)
    for role, values in _role_columns(log).items():
        usual = None if log.schema is None else getattr(log.schema, role)
        is_own = role == "time" and shares_time
        roles[role] = usual if is_own and usual is not None else _free(usual or role, taken)
        taken.add(roles[role])
        columns[roles[role]] = values
    carried, segment = _carried_columns(log, taken)
    columns |= carried
    eligible = None if log.action_mask is None else _free("eligible_actions", taken)
    if eligible is not None and log.action_mask is not None:
        columns[eligible] = _eligible_lists(log.action_mask, log.actions)
    written = Written(
        roles,
        log.actions.tolist(),
        () if log.schema is not None else _names(log),
        log.feature_names,
        log.propensity_source,
        log.schema,
        log.action_features,
        eligible,
        next(iter(contexts)) if is_sparse(log.context) else None,
        dict(zip(log.other_rewards, carried, strict=False)),
        segment,
        log.exact_propensity,
    )
    return pyarrow.table(columns).replace_schema_metadata({KEY: written.to_bytes()})


def write_log(log: BanditLog, path: str | Path) -> None:
    """Write a log as Parquet in one step: a crash leaves the old file or the new one, never half of one."""
    from pyarrow import parquet

    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} into; create it first."
        )
    table = log_table(log)
    with replacing(target) as file:
        parquet.write_table(table, file)


# -- Columns of a log -------------------------------------------------------------------------------------------------


def _role_columns(log: BanditLog) -> dict[str, Any]:
    """Return the columns that are not context, in the order of the table."""
    import pyarrow

    columns: dict[str, Any] = {}
    if log.time is not None:
        columns["time"] = _times(log.time)
    if log.group is not None:
        labels = np.arange(int(log.group.max()) + 1) if log.group_labels is None else log.group_labels
        columns["group"] = _labels(labels, "group").take(pyarrow.array(log.group))
    if not all(isinstance(label, str | int | float) for label in log.actions.tolist()):
        raise _label_error("action", log.actions)
    columns["action"] = _labels(log.actions, "action").take(pyarrow.array(log.action_idx))
    columns["reward"] = pyarrow.array(log.reward)
    if log.has_propensity:
        columns["propensity"] = pyarrow.array(log.propensity)
    return columns


def _carried_columns(log: BanditLog, taken: set[str]) -> tuple[dict[str, Any], str | None]:
    """Return the other rewards, in their order, and the segments, whose column is named."""
    import pyarrow

    columns: dict[str, Any] = {}
    for name, values in log.other_rewards.items():
        column = _free(name, taken)
        taken.add(column)
        columns[column] = pyarrow.array(values)
    if log.segment is None:
        return columns, None
    segment = _free("segment", taken)
    taken.add(segment)
    return {**columns, segment: pyarrow.array(log.segment)}, segment


def _labels(labels: AnyArray, role: str) -> Any:
    import pyarrow

    try:
        found = pyarrow.array(labels.tolist() if labels.dtype == object else labels)
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):
        raise _label_error(role, labels) from None
    if pyarrow.types.is_nested(found.type) or pyarrow.types.is_null(found.type):
        raise _label_error(role, labels)
    return found


def _label_error(role: str, labels: AnyArray) -> UsageError:
    plain = (bool, int, float, str)
    values = labels.tolist()
    first = next((label for label in values if type(label) not in plain), values[0])
    return UsageError(
        f"the labels of {role} cannot be stored in a table, such as {first!r}: a column holds text, booleans or "
        "numbers of 64 bits, all of one kind. Use such labels, or turn them into text."
    )


def _times(time: AnyArray) -> Any:
    import pyarrow

    if time.dtype.kind != "M":
        return pyarrow.array(time)
    unit = np.datetime_data(time.dtype)[0]
    if unit not in _ARROW_UNITS:
        time = time.astype("datetime64[D]" if unit in ("Y", "M", "W") else "datetime64[s]")
    return pyarrow.array(time)


def _eligible_lists(mask: BoolArray, actions: AnyArray) -> Any:
    """Return the actions that could be chosen, a list for each sample; null where all could."""
    import pyarrow

    is_all: BoolArray = np.asarray(mask.all(axis=1))
    row, position = np.nonzero(mask & ~is_all[:, None])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(mask)))])
    labels = _labels(actions, "action").take(pyarrow.array(position))
    return pyarrow.LargeListArray.from_arrays(
        pyarrow.array(offsets, pyarrow.int64()), labels, mask=pyarrow.array(is_all)
    )


# -- Contexts ---------------------------------------------------------------------------------------------------------


def _names(log: BanditLog) -> tuple[str, ...]:
    return log.feature_names or usual_names(log.n_features)


def _sparse_columns(log: BanditLog) -> dict[str, Any]:
    """Return sparse contexts as one column of maps from the name of a feature to its value."""
    import pyarrow

    matrix: Any = log.context
    keys = pyarrow.array(_names(log), pyarrow.string()).take(pyarrow.array(matrix.indices))
    offsets = pyarrow.array(matrix.indptr.astype(np.int32))
    roles = set() if log.schema is None else set(log.schema.roles.values())
    return {_free("context", roles): pyarrow.MapArray.from_arrays(offsets, keys, pyarrow.array(matrix.data))}


def _dense_columns(log: BanditLog) -> dict[str, Any]:
    context: AnyArray = np.asarray(log.context)
    if log.schema is None:
        return {name: _numbers(context[:, idx]) for idx, name in enumerate(_names(log))}
    own_time = log.schema.time if _time_is_context(log) else None
    return {
        column.name: decode_column(column, context[:, place])
        for column, place in log.schema.places()
        if column.name != own_time
    }


def _time_is_context(log: BanditLog) -> bool:
    """Return whether the time of the decision is the column that weekday and hour of the context come from."""
    has_moments = log.time is not None and log.time.dtype.kind == "M"
    return has_moments and log.schema is not None and log.schema.time in [one.name for one in log.schema.columns]


def decode_column(column: Column, code: FloatArray) -> Any:
    """Return the values that numbers stand for, as an arrow column that `Column.encode` turns into them again.

    ``code`` has the shape (n_samples, n_parts).
    """
    if column.kind == "category":
        return _categories(column, code[:, 0])
    if column.kind == "time":
        return _moments(column, code)
    if column.kind == "vector":
        return _vectors(code)
    return _flags(code[:, 0]) if column.kind == "flag" else _numbers(code[:, 0])


def _numbers(values: FloatArray) -> Any:
    import pyarrow

    return pyarrow.array(np.ascontiguousarray(values), from_pandas=True)  # NaN is missing


def _flags(values: FloatArray) -> Any:
    import pyarrow

    missing = np.isnan(values)
    if not np.isin(values[~missing], (0.0, 1.0)).all():  # a policy's schema takes numbers for flags
        return _numbers(values)
    return pyarrow.array(values == 1.0, mask=missing)


def _vectors(code: FloatArray) -> Any:
    import pyarrow

    n_samples, size = code.shape
    offsets = pyarrow.array(np.arange(n_samples + 1) * size, pyarrow.int64())
    return pyarrow.LargeListArray.from_arrays(offsets, pyarrow.array(np.ascontiguousarray(code).ravel()))


def _categories(column: Column, code: FloatArray) -> Any:
    import pyarrow

    kinds = {type(category) for category in column.categories}
    if len(kinds) == 1 and not column.n_merged:
        values = pyarrow.array(list(column.categories))
    else:
        texts = column.texts[: len(column.categories)]
        values = pyarrow.array([*texts, _free(OTHER, texts)], pyarrow.string())
    missing = np.isnan(code)
    return values.take(pyarrow.array(np.where(missing, 0, code).astype(np.int64), mask=missing))


def _moments(column: Column, code: FloatArray) -> Any:
    """Return times with these parts; where the day is not known, a day of the first weeks of 1970."""
    import pyarrow

    part = dict(zip(column.parts, code.astype(np.float64).T, strict=True))
    none = np.zeros(len(code))
    day = part["day"] if "day" in part else _MONDAY + part.get("weekday", none)
    milliseconds = np.round(day * 86_400_000.0 + part.get("hour", none) * 3_600_000.0)
    missing = np.isnan(milliseconds)
    moments = np.where(missing, 0, milliseconds).astype(np.int64).astype("datetime64[ms]")
    return pyarrow.array(moments, mask=missing)


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: this one, or this one with lines below it."""
    while name in taken:
        name += "_"
    return name


def usual_names(n_features: int) -> tuple[str, ...]:
    """Return what columns without names are called in a frame or a file: ``x0``, ``x1`` and so on."""
    return tuple(f"x{idx}" for idx in range(n_features))
