"""Records to columns: contexts as they came, in columns whose kind does not change from one file to the next."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bopl.log.format.columnar import as_times
from bopl.log.written import KEY, Written
from bopl.serving.record import Action, DecisionRow

NUMBER, FLAG, TEXT, TIME, VECTOR = "number", "flag", "text", "time", "vector"
ROLES = {"action": "_action", "reward": "_reward", "propensity": "_propensity", "time": "_time"}
BESIDE = ("_event", "_policy", "_promotion", "_decider", "_policy_prob", "_baseline_prob")  # neither context nor a role
ELIGIBLE = "_eligible"
MAX_NUMBER = 3.4e38  # of single precision, in which contexts are kept
JOINED = frozenset((*ROLES.values(), *BESIDE, ELIGIBLE))  # names that a context column cannot have


def context_columns(records: Sequence[Mapping[str, Any]], known: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of records as arrow arrays; a column that no record has a value for is empty.

    Records have JSON's types, and what is nested becomes ``outer.inner``. ``known`` says what columns were before: a
    value of another kind becomes one of the known kind where it can be written so, and is missing where it cannot.
    """
    flat = [flatten(record) for record in records]
    names = dict.fromkeys([*known, *(name for record in flat for name in record)])
    return {
        name: _column([record.get(name) for record in flat], known.get(name)) for name in names if name not in JOINED
    }


def joined_table(
    decisions: Sequence[DecisionRow],
    rewards: Sequence[float],
    contexts: Mapping[str, Any],
    actions: Sequence[Action] = (),
) -> Any:
    """Return samples as an arrow table that `BanditLog.read` takes without being told of its columns.

    ``actions`` are the labels that are known; others that occur are added.
    """
    import pyarrow

    taken = [row.action for row in decisions]
    allowed = [None if row.eligible is None else list(row.eligible) for row in decisions]
    seen = {*taken, *(label for one in allowed if one is not None for label in one)}
    labels = [*actions, *sorted(seen - set(actions), key=repr)]
    columns = dict(contexts) | {
        ROLES["action"]: pyarrow.array(taken),
        ROLES["reward"]: pyarrow.array(rewards, pyarrow.float64()),
        ROLES["propensity"]: pyarrow.array([row.propensity for row in decisions], pyarrow.float64()),
        ROLES["time"]: pyarrow.array([row.time for row in decisions], pyarrow.timestamp("us")),
        "_event": pyarrow.array([row.event for row in decisions], pyarrow.string()),
        "_policy": pyarrow.array([row.policy for row in decisions], pyarrow.string()),
        "_promotion": pyarrow.array([row.promotion for row in decisions], pyarrow.int64()),
        "_decider": pyarrow.array([row.decider for row in decisions], pyarrow.string()),
        "_policy_prob": pyarrow.array([row.policy_prob for row in decisions], pyarrow.float64()),
        "_baseline_prob": pyarrow.array([row.baseline_prob for row in decisions], pyarrow.float64()),
        ELIGIBLE: pyarrow.array(allowed, pyarrow.large_list(pyarrow.array(labels).type)),
    }
    written = Written(ROLES, labels, (), None, "logged", eligible=ELIGIBLE, beside=BESIDE)
    return pyarrow.table(columns).replace_schema_metadata({KEY: written.to_bytes()})


def kinds_of(schema: Any) -> dict[str, str]:
    """Return the kinds of the context columns of a file; those without a value so far have none."""
    from pyarrow import types

    kinds = {
        NUMBER: lambda kind: types.is_integer(kind) or types.is_floating(kind),
        FLAG: types.is_boolean,
        TEXT: types.is_string,
        TIME: types.is_timestamp,
        VECTOR: types.is_list,
    }
    return {
        entry.name: kind
        for entry in schema
        for kind, is_kind in kinds.items()
        if entry.name not in JOINED and is_kind(entry.type)
    }


def flatten(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return a record without nesting: ``{"user": {"age": 3}}`` is ``{"user.age": 3}``."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat


def _column(values: Sequence[Any], kind: str | None) -> Any:
    import pyarrow

    if kind is None:
        return _new_column(values)
    found = [_as_kind(value, kind) for value in values]
    if kind == TIME:
        return _times(found)
    types = {TEXT: pyarrow.string(), FLAG: pyarrow.bool_(), VECTOR: pyarrow.list_(pyarrow.float64())}
    return _numbers(found) if kind == NUMBER else pyarrow.array(found, types[kind])


def _new_column(values: Sequence[Any]) -> Any:
    """Return a column that was not there before: text if any value is, and times if all of its texts are."""
    import pyarrow

    kinds = Counter(kind for value in values if (kind := _kind(value)) is not None)
    if not kinds:
        return pyarrow.nulls(len(values))
    if len(kinds) > 1:
        return _column(values, NUMBER if set(kinds) == {NUMBER, FLAG} else TEXT)
    kind = next(iter(kinds))
    column = _column(values, kind)
    if kind != TEXT:
        return column
    times = _as_times(column)
    return times if pyarrow.types.is_timestamp(times.type) else column


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int | float):
        return NUMBER if abs(value) <= MAX_NUMBER else None
    if isinstance(value, list):
        is_vector = value and all(not isinstance(one, list) and _kind(one) == NUMBER for one in value)
        return VECTOR if is_vector else TEXT
    return None if value is None else TEXT


def _as_kind(value: Any, kind: str) -> Any:
    """Return a value as one of another kind; None where it is none."""
    own = _kind(value)
    if own is None:
        return None
    if kind == TEXT:
        return value if isinstance(value, str) else json.dumps(value)
    if own == kind:
        return [float(one) for one in value] if kind == VECTOR else value
    if kind == NUMBER and own == FLAG:
        return int(value)
    if kind == FLAG and value in (0, 1):
        return bool(value)
    return value if kind == TIME and isinstance(value, str) else None


def _numbers(values: Sequence[Any]) -> Any:
    import pyarrow

    is_whole = all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values if value is not None)
    if is_whole:
        return pyarrow.array(values, pyarrow.int64())
    return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())


def _as_times(column: Any) -> Any:
    """Return a column of text as times in microseconds if that is what it holds, else as it is."""
    import pyarrow

    found = as_times(pyarrow.chunked_array([column])).combine_chunks()
    return found.cast(pyarrow.timestamp("us"), safe=False) if pyarrow.types.is_timestamp(found.type) else column


def _times(values: Sequence[Any]) -> Any:
    """Return texts as times; what is none is missing."""
    import pyarrow

    kind = pyarrow.timestamp("us")
    column = _as_times(pyarrow.array(values, pyarrow.string()))
    if column.type == kind:
        return column
    singles = [_as_times(pyarrow.array([value], pyarrow.string())) for value in values]
    return pyarrow.array([one[0].as_py() if one.type == kind else None for one in singles], kind)
