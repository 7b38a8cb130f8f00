"""One record, a plain mapping of column names to values, as a row of numbers: what serving has, without a frame."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NoReturn

import numpy as np

from bopl._errors import did_you_mean, quoted, shortened
from bopl._native import is_missing, plain
from bopl._typing import AnyArray
from bopl.log.column import MONDAY, NOUN, SECONDS_A_DAY, Column
from bopl.log.context import CONTEXT_DTYPE, check_values
from bopl.log.instant import EPOCH_UNITS, HOW_TO_WRITE, moment_of

_ABSENT = object()
_EXACT = 1 << 53  # whole numbers up to it are floats without rounding
_MISSING = math.nan
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_EPOCH_NAIVE, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)

Encode = Callable[[Any], Any]


@dataclass(frozen=True)
class _Slot:
    """Where a column's numbers go, and how a value that is there becomes them: one number, or several."""

    name: str
    place: slice
    is_single: bool
    is_optional: bool
    encode: Encode


class RecordEncoder:
    """Encodes records as a schema encodes the rows of a frame, to the last bit.

    A column that is absent is zero if they are sparse.
    """

    def __init__(self, columns: Sequence[Column], *, is_sparse: bool = False) -> None:
        self._is_sparse = is_sparse
        self._names = [feature for column in columns for feature in column.features]
        self._slots: list[_Slot] = []
        start = 0
        for column in columns:
            place = slice(start, start + column.n_features)
            is_single = column.kind in ("number", "flag", "category")
            self._slots.append(_Slot(column.name, place, is_single, column.is_optional, _ENCODE[column.kind](column)))
            start = place.stop
        self._slot_of = {slot.name: slot for slot in self._slots}
        # What most values of most records are, floats and known categories, needs no function of its own.
        self._plan = [
            (slot, slot.name, slot.place.start, column.kind in ("number", "flag"), column.code_of)
            for slot, column in zip(self._slots, columns, strict=True)
        ]

    def encode(self, records: Sequence[Mapping[str, Any]]) -> AnyArray:
        """Return records as a float32 matrix of shape (n_records, n_features)."""
        read = self._sparse_row if self._is_sparse else self._row
        matrix: AnyArray
        if len(records) == 1:  # sooner than numpy reads a list; it rounds to float32 in the same way, without warnings
            matrix = np.frombuffer(array("f", read(records[0])), dtype=CONTEXT_DTYPE).reshape(1, len(self._names))
        else:
            rows = np.array([read(record) for record in records], dtype=np.float64)
            with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused with its name
                matrix = rows.reshape(len(records), len(self._names)).astype(CONTEXT_DTYPE)
        if np.isinf(matrix).any():
            check_values(matrix, self._names)
        return matrix

    def _row(self, record: Mapping[str, Any]) -> list[float]:
        if type(record) is not dict:
            _check_mapping(record)
        row, get = [_MISSING] * len(self._names), record.get
        for slot, name, place, is_number, known in self._plan:
            value = get(name, _ABSENT)
            kind = type(value)
            if is_number and (kind is float or kind is bool):
                row[place] = value
            elif kind is str and value in known:
                row[place] = known[value]
            elif value is _ABSENT:
                if not slot.is_optional:
                    self._refuse_absent(record)
            elif value is not None:
                found = slot.encode(value)
                row[slot.place] = [found] if slot.is_single else found
        return row

    def _sparse_row(self, record: Mapping[str, Any]) -> list[float]:
        """Return the row of a record that lists only what is there."""
        _check_mapping(record)
        row = [0.0] * len(self._names)
        for name, value in record.items():
            slot = self._slot_of.get(name)
            if slot is None:
                continue
            if value is None:
                row[slot.place] = [_MISSING] * (slot.place.stop - slot.place.start)
            else:
                found = slot.encode(value)
                row[slot.place] = [found] if slot.is_single else found
        return row

    def _refuse_absent(self, record: Mapping[str, Any]) -> NoReturn:
        absent = [slot.name for slot in self._slots if not slot.is_optional and slot.name not in record]
        raise ValueError(
            f"the record lacks {len(absent)} of the {len(self._slots)} columns that the policy was fitted on, none of "
            f"which was ever missing then: {quoted(absent)}.{did_you_mean(absent[0], list(record))} If a value is "
            "unknown, pass None (null)."
        )


def _check_mapping(record: Any) -> None:
    if not isinstance(record, Mapping):
        raise TypeError(f"a record must be a mapping of column names to values; got {type(record).__name__}.")


# -- Values: each kind of column has a function of one value that is there ------------------------------------------


def _number(column: Column) -> Encode:
    def encode(value: Any) -> float:
        if type(value) is int and -_EXACT <= value <= _EXACT:
            return value
        return _other_number(column, value)

    return encode


def _other_number(column: Column, value: Any) -> float:
    """Return numbers that are not plain ones: booleans, numpy's, very large ones, missing ones."""
    value = plain(value)
    if isinstance(value, bool | float):
        return float(value)
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 64:  # rounded once, as in a column of whole numbers
            return float(np.float32(np.int64(value) if value < 1 << 63 else np.uint64(value)))
        shown = f"{value:.6g}" if value.bit_length() < 1024 else "an integer of hundreds of digits"  # no float has them
        raise ValueError(f"column {column.name!r} holds {shown}, beyond the range of 64-bit integers. Rescale it.")
    if is_missing(value):
        return _MISSING
    raise _refused(column, value)


def _category(column: Column) -> Encode:
    known, unknown = column.code_of, column.unknown_code

    def encode(value: Any) -> float:
        value = plain(value)
        if isinstance(value, str | int | float | date) and not is_missing(value):
            return column.code(value, known, unknown)
        if is_missing(value):
            return _MISSING
        raise _refused(column, value)

    return encode


def _time(column: Column) -> Encode:
    n_parts, parts = len(column.parts), column.parts

    def encode(value: Any) -> list[float]:
        if not isinstance(value, str) and is_missing(value):
            return [_MISSING] * n_parts
        seconds = _milliseconds(column, value) / 1000.0
        day = math.floor(seconds / SECONDS_A_DAY)
        found = {"day": day, "weekday": (day + MONDAY) % 7.0, "hour": (seconds - day * SECONDS_A_DAY) / 3600.0}
        return [found[part] for part in parts]

    return encode


def _milliseconds(column: Column, value: Any) -> int:
    """Return the milliseconds from 1970 to a time, rounded down."""
    value = value if isinstance(value, np.datetime64) else plain(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and column.unit is not None:
        found = _from_epoch(value, column.unit)
        if found is None or abs(found) > _EXACT:
            raise ValueError(f"column {column.name!r} must hold times; it holds {value!r}, which is out of range.")
        return found
    if not isinstance(value, str | date | datetime | np.datetime64):
        raise _refused(column, value)
    if isinstance(value, str) and (found := _from_iso(value)) is not None:
        return found
    try:
        return moment_of(value).nanoseconds // 10**6
    except ValueError as error:
        raise ValueError(
            f"column {column.name!r} must hold times; it holds {value!r}, {error}. {HOW_TO_WRITE}"
        ) from None


def _from_iso(text: str) -> int | None:
    """Return a time in the usual form of ISO 8601 in milliseconds; None if it has another form, or does not exist."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    gap = moment - (_EPOCH_NAIVE if moment.tzinfo is None else _EPOCH_UTC)
    return 86_400_000 * gap.days + 1000 * gap.seconds + gap.microseconds // 1000


def _from_epoch(value: float, unit: str) -> int | None:
    """Return a number that counts from 1970 in milliseconds; fractions are rounded as in a column of numbers."""
    if isinstance(value, int):
        return value * 1000 // EPOCH_UNITS[unit]
    if not math.isfinite(value):
        return None
    finer = {"s": "us", "ms": "us"}.get(unit, unit)
    return round(value * (EPOCH_UNITS[finer] // EPOCH_UNITS[unit])) * 1000 // EPOCH_UNITS[finer]


def _vector(column: Column) -> Encode:
    def encode(value: Any) -> list[float]:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            if is_missing(value):
                return [_MISSING] * column.size
            raise _refused(column, value)
        if len(value) != column.size:
            raise ValueError(
                f"column {column.name!r} must hold lists of {column.size} numbers; the record holds {len(value)}."
            )
        return [_MISSING if one is None else _entry(column, one) for one in value]

    return encode


def _entry(column: Column, value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        raise _refused(column, [value])
    return _other_number(column, value)


_ENCODE: dict[str, Callable[[Column], Encode]] = {
    "number": _number,
    "flag": _number,
    "category": _category,
    "time": _time,
    "vector": _vector,
}


def _refused(column: Column, value: Any) -> ValueError:
    return ValueError(
        f"column {column.name!r} held {NOUN[column.kind]} when the policy was fitted; the record holds "
        f"{shortened(value)}. Convert it, or use the right column."
    )
