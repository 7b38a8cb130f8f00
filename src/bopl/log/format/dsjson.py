"""Vowpal Wabbit's dsjson: one JSON object per decision, with the context, the actions offered and what came of it.

The shared features become columns as in any other file: ``{"User": {"age": 30, "city": "Rom"}}`` gives ``User.age`` and
``User.city``. Keys that begin with ``_`` are not features, as in Vowpal Wabbit. Rewards are costs with the other sign.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bopl.log.format.action_table import ActionTable, action_parts
from bopl.log.format.log_parts import LogParts
from bopl.log.format.vowpal import ROLES, text_lines

TIME = "Timestamp"


def looks_like_dsjson(first_line: str) -> bool:
    """Whether a line of JSON is one of dsjson."""
    return '"_multi"' in first_line and '"c"' in first_line


def read_dsjson(files: Sequence[Path]) -> LogParts:
    """Return the decisions of dsjson files; lines that are not decisions, or say to skip them, are left out."""
    table = ActionTable()
    contexts: list[dict[str, Any]] = []
    taken: list[int | None] = []
    rest: list[tuple[float | None, float | None, str | None]] = []
    for where, entry in _decisions(files):
        offered = entry["c"]["_multi"]
        if not isinstance(offered, list) or not all(isinstance(action, dict) for action in offered):
            raise ValueError(f"{where} must list the actions it offers under '_multi', each as an object {{…}}.")
        names = [None if (tag := action.get("_tag")) is None else str(tag) for action in offered]
        numbers = table.add([_action_features(action) for action in offered], names, where)
        place = _taken(entry, len(offered), where)
        taken.append(None if place is None else numbers[place])
        cost, propensity = (_number(entry, key, where) for key in ("_label_cost", "_label_probability"))
        rest.append((None if cost is None else 0.0 - cost, propensity, _time(entry, where)))
        contexts.append(dict(_flatten({key: value for key, value in entry["c"].items() if key != "_multi"})))
    if not contexts:
        raise ValueError(f"{str(files[0])!r} holds no decision in dsjson.")
    facts = action_parts(table)
    labels = [None if number is None else facts["actions"][number] for number in taken]
    reward, propensity_of, time = (list(column) for column in zip(*rest, strict=True))
    columns = {ROLES["action"]: labels, ROLES["reward"]: reward, ROLES["propensity"]: propensity_of}
    roles = dict(ROLES)
    if all(one is not None for one in time):
        columns[TIME], roles["time"] = time, TIME
    return LogParts(_to_table(contexts, columns), roles, **facts, names_only_what_is_there=True)


def _decisions(files: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the decisions of the files, and where they stand."""
    for file in files:
        for where, text in text_lines(file):
            if not text.strip():
                continue
            try:
                entry = json.loads(text)
            except RecursionError:
                raise ValueError(f"{where} is not valid JSON: its brackets are nested too deeply.") from None
            except ValueError as error:
                raise ValueError(f"{where} is not valid JSON: {str(error).rstrip('.')}.") from None
            if not isinstance(entry, dict):
                raise ValueError(f"{where} is not a JSON object.")
            if isinstance(entry.get("c"), dict) and entry["c"].get("_multi") and not entry.get("_skipLearn"):
                yield where, entry


def _taken(entry: Mapping[str, Any], n_offered: int, where: str) -> int | None:
    """Return which of the offered actions was taken, counted from 0; None if the line does not say."""
    index, action = (_number(entry, key, where) for key in ("_labelIndex", "_label_Action"))
    place = index if index is not None or action is None else action - 1
    if place is not None and place not in range(n_offered):
        raise ValueError(f"{where} says that action {place + 1:g} was taken, but offers only {n_offered}.")
    return None if place is None else int(place)


def _action_features(action: Mapping[str, Any]) -> dict[str, str | float]:
    return {name: _float(value) if isinstance(value, bool | int) else value for name, value in _flatten(action)}


def _number(entry: Mapping[str, Any], key: str, where: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{where} has a {key} that is not a number: {str(value)[:50]!r}.") from None


def _float(value: float) -> float:
    """Return a number as a float; one that is too large is infinite, and refused where contexts are."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _time(entry: Mapping[str, Any], where: str) -> str | None:
    value = entry.get(TIME)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where} has a {TIME} that is not a time such as 2024-12-31T23:59:59Z: {str(value)[:50]!r}.")
    return value


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values of all features of a JSON value; keys that begin with ``_`` are none."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if not key.startswith("_"):
                yield from _flatten(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, one in enumerate(value):
            is_only_object = len(value) == 1 and isinstance(one, Mapping)
            yield from _flatten(one, path if is_only_object else f"{path}[{place}]")
    elif value is not None:
        yield path, value


def _to_table(contexts: list[dict[str, Any]], columns: Mapping[str, list[Any]]) -> Any:
    """Return one column per feature; a feature that is sometimes text is text throughout."""
    import pyarrow

    names = list(dict.fromkeys(name for context in contexts for name in context))
    arrays = {name: _column([context.get(name) for context in contexts]) for name in names}
    return pyarrow.table({**arrays, **columns})


def _column(values: list[Any]) -> Any:
    import pyarrow

    if any(isinstance(value, str) for value in values):
        return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())
    if all(value is None or isinstance(value, bool) for value in values):
        return pyarrow.array(values, pyarrow.bool_())
    return pyarrow.array([None if value is None else _float(value) for value in values], pyarrow.float64())
