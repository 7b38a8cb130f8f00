"""Instants: the times of a log as numpy datetimes in UTC or as numbers, from whatever holds them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._native import is_missing, missing_clause, missing_rows, plain, unmasked
from bopl._typing import AnyArray, BoolArray, IntArray
from bopl.log.column import distinct_values, is_timestamp
from bopl.log.context import column_to_float
from bopl.log.frame import TEXT, cast_to_times, dtype_name
from bopl.log.time_text import Moment, parse_moment

EPOCH_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
# Numbers that lie in these years, counted in seconds or in a smaller unit from 1970, are times. No two units overlap.
FIRST, LAST = 946_684_800, 4_102_444_800  # 2000 and 2100
HOW_TO_WRITE = "Write times as 2024-12-31 or 2024-12-31T23:59:59+01:00, or as timestamps or numbers."


def check_time(time: object) -> AnyArray:
    """Return times that can be compared: datetimes in UTC, or numbers; none of them missing.

    Text is read as dates (`parse_moment`). Numbers that are seconds since 1970, or thousandths, millionths or
    billionths of them, become datetimes; others stay what they are.
    """
    values = read_times(time)
    missing = missing_rows(values)
    if missing.any():
        raise ValueError(
            f"{missing_clause('time', missing)}. Fill it in, or drop those samples with drop_invalid=True."
        )
    if values.dtype.kind == "M":
        return values
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"time must be finite; row {row} holds {values[row]:g}. Drop that sample or correct its time.")
    unit = epoch_unit(values)
    if unit is None:
        _check_one_unit(values)
        return values
    return from_epoch(values, unit)


def epoch_unit(values: AnyArray) -> str | None:
    """Return the unit in which numbers count from 1970: one of `EPOCH_UNITS`, None if they do not seem to."""
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not len(there):
        return None
    low, high = float(there.min()), float(there.max())
    return next((unit for unit, count in EPOCH_UNITS.items() if low >= FIRST * count and high < LAST * count), None)


def _check_one_unit(values: AnyArray) -> None:
    """Raise if all numbers count from 1970, but in several units: in seconds and milliseconds, say."""
    unit = np.full(len(values), -1)
    for place, count in enumerate(EPOCH_UNITS.values()):
        unit[(values >= FIRST * count) & (values < LAST * count)] = place
    if unit.min() < 0 or (unit == unit[0]).all():
        return
    names, row = list(EPOCH_UNITS), int(np.flatnonzero(unit != unit[0])[0])
    raise ValueError(
        f"time counts from 1970 in several units, so that it cannot be ordered: row 0 holds {values[0]:.0f} "
        f"({names[unit[0]]}), row {row} {values[row]:.0f} ({names[unit[row]]}). Give all of them in one unit."
    )


def from_epoch(values: AnyArray, unit: str) -> AnyArray:
    """Return numbers that count from 1970 as datetimes, NaN as NaT."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64).astype(f"datetime64[{unit}]")
    finer = {"s": "us", "ms": "us"}.get(unit, unit)
    whole = np.round(values.astype(np.float64) * (EPOCH_UNITS[finer] // EPOCH_UNITS[unit]))
    missing = np.isnan(whole)
    moments = np.where(missing, 0.0, whole).astype(np.int64).astype(f"datetime64[{finer}]")
    moments[missing] = np.datetime64("NaT")
    return moments


def read_instants(values: nw.Series[Any], name: str, unit: str | None = None) -> AnyArray:
    """Return a column as datetimes in UTC, NaT where it is missing; numbers count in ``unit`` from 1970."""
    found = _read_series(values, f"column {name!r}")
    if found.dtype.kind == "M":
        return found
    return from_epoch(found, unit or epoch_unit(found) or "s")


def instant_text(value: Any) -> str:
    """Return a time as people write it: a date, a time to the second, or a number."""
    if isinstance(value, np.datetime64):
        if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D"):
            return str(value.astype("datetime64[D]"))
        return str(value.astype("datetime64[s]")).replace("T", " ")
    return str(plain(value))


# -- Reading ----------------------------------------------------------------------------------------------------------


def unreadable_times(time: object) -> BoolArray:
    """Return which entries of a column of times are there and cannot be read: text that is not a date, or infinity."""
    series = nw.from_native(unmasked(time), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if series.dtype in TEXT:
            labels, position = distinct_values(series)  # every distinct text is read once
            return np.array([*(not _is_readable(label) for label in labels), False])[position]
        if series.dtype != nw.Object:
            return np.isinf(column_to_float(series)) if series.dtype.is_float() else np.zeros(len(series), np.bool_)
        series = series.to_list()
    elif isinstance(series, np.ndarray) and series.dtype.kind in "iuM":
        return np.zeros(len(series), np.bool_)
    return np.array([not _is_readable(value) for value in series], dtype=np.bool_)


def _is_readable(value: Any) -> bool:
    if is_missing(value):
        return True
    if isinstance(value, int | float | np.number):
        return bool(np.isfinite(value))
    try:
        moment_of(value)
    except ValueError:
        return False
    return True


def read_times(time: object) -> AnyArray:
    """Return datetimes or numbers of one dimension, missing ones among them."""
    series = nw.from_native(time, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(series, "time")
    try:
        values = np.array(unmasked(time))
    except ValueError:
        raise ValueError("time must have one dimension (n_samples,); it holds lists of different lengths.") from None
    if values.ndim != 1:
        raise ValueError(f"time must have one dimension (n_samples,); it has shape {values.shape}.")
    if values.dtype.kind in "Miuf":
        return values
    if values.dtype.kind in "UTO":
        return _read_objects(values.tolist(), "time")
    raise TypeError(f"time must hold dates, timestamps, numbers or text; it holds {values.dtype}.")


def _read_series(series: nw.Series[Any], what: str) -> AnyArray:
    dtype = series.dtype
    if dtype in TEXT:
        return _read_labels(series, what)
    if is_timestamp(series):
        return _read_arrow(series)
    if dtype.is_numeric():
        return np.array(column_to_float(series))
    if dtype == nw.Object or series.null_count() == len(series):
        return _read_objects(series.to_list(), what)
    raise TypeError(f"{what} must hold dates, timestamps, numbers or text; it holds {dtype_name(series)}.")


def _read_arrow(series: nw.Series[Any]) -> AnyArray:
    """Return dates and timestamps; Arrow keeps those with a zone in UTC."""
    import pyarrow

    column = series.to_arrow()
    if series.dtype == nw.Date:
        return np.array(column.cast(pyarrow.date32()).to_numpy(zero_copy_only=False)).astype("datetime64[D]")
    unit = column.type.unit if pyarrow.types.is_timestamp(column.type) else "ms"
    naive = column.cast(pyarrow.timestamp(unit), safe=False)
    return np.array(naive.to_numpy(zero_copy_only=False)).astype(f"datetime64[{unit}]")


def _read_labels(series: nw.Series[Any], what: str) -> AnyArray:
    """Return text as datetimes; every distinct text is read once."""
    labels, position = distinct_values(series)
    moments = _quick(labels) if all(isinstance(label, str) for label in labels) else None
    if moments is None:
        moments = _slow(labels, position, what)
    return np.append(moments, np.datetime64("NaT"))[position]  # position -1, missing, takes the last


def _quick(labels: Sequence[Any]) -> AnyArray | None:
    """Return texts as datetimes where Arrow reads them all: the usual forms of ISO 8601."""
    import pyarrow

    if not labels:
        return None
    column = pyarrow.array(labels, pyarrow.string())
    if all(len(label) == 10 for label in labels):
        try:
            return np.array(column.cast(pyarrow.date32()).to_numpy(zero_copy_only=False)).astype("datetime64[D]")
        except pyarrow.ArrowInvalid:
            pass
    moments = cast_to_times(column)
    return None if moments is None else np.array(moments.to_numpy(zero_copy_only=False))


def _read_objects(values: Sequence[Any], what: str) -> AnyArray:
    """Return Python's and pandas' dates, numbers and text as datetimes or numbers, None and the like as missing."""
    missing = missing_rows(list(values))
    there = [value for value, is_absent in zip(values, missing, strict=True) if not is_absent]
    if there and all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in there):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = _finite_floats(there, what)
        exact = np.array(there)
        return numbers if missing.any() or exact.dtype.kind not in "iuf" else exact
    moments = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[us]")
    if not there:
        return moments
    rows = np.flatnonzero(~missing)
    position = np.full(len(values), -1)
    position[rows] = np.arange(len(rows))
    found = _slow(there, position, what)
    return np.append(found, np.datetime64("NaT"))[position]


def _finite_floats(values: Sequence[Any], what: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except OverflowError:
        raise ValueError(f"{what} holds integers beyond the range of a float. {HOW_TO_WRITE}") from None


def _slow(labels: Sequence[Any], position: IntArray, what: str) -> AnyArray:
    """Return values as datetimes, one by one; raise one sentence about the first row that holds none."""
    moments: list[Moment] = []
    bad: dict[int, str] = {}
    for code, label in enumerate(labels):
        try:
            moments.append(moment_of(label))
        except ValueError as error:
            bad[code] = str(error)
    if bad:
        row = int(np.flatnonzero(np.isin(position, list(bad)))[0])
        value = labels[position[row]]
        raise ValueError(
            f"{what} must hold times; row {row} holds {value!r}, {bad[int(position[row])]}. {HOW_TO_WRITE}"
        )
    _check_zones(moments, labels, position, what)
    return _to_numpy(moments)


def moment_of(value: Any) -> Moment:
    """Return what a text, a date or a timestamp says of time, or raise `ValueError` with the reason as a clause."""
    if isinstance(value, str):
        return parse_moment(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        has_zone = value.tzinfo is not None
        gap = (value if has_zone else value.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        whole = (gap.days * 86_400 + gap.seconds) * 10**9 + gap.microseconds * 1000
        return Moment(whole + getattr(value, "nanosecond", 0), has_zone, is_date=False)
    if isinstance(value, date):
        return Moment((value.toordinal() - date(1970, 1, 1).toordinal()) * 86_400 * 10**9, has_zone=False, is_date=True)
    raise ValueError(f"which is of type {type(value).__name__}")


def _check_zones(moments: Sequence[Moment], labels: Sequence[Any], position: IntArray, what: str) -> None:
    """Raise if only some times have a zone: nobody knows which of two such was first."""
    has_zone = np.array([moment.has_zone for moment in moments])
    if has_zone.all() or not has_zone.any():
        return
    in_row = has_zone[position] & (position >= 0)
    zoned, plain = int(np.flatnonzero(in_row)[0]), int(np.flatnonzero(~in_row & (position >= 0))[0])
    raise ValueError(
        f"{what} has a zone in some rows and none in others, so they cannot be ordered: row {zoned} holds "
        f"'{labels[position[zoned]]!s:.40}', row {plain} '{labels[position[plain]]!s:.40}'. Give all a zone, or none."
    )


def _to_numpy(moments: Sequence[Moment]) -> AnyArray:
    """Return days if there is no time of day, else millionths of seconds, or billionths where they differ in those."""
    if all(moment.is_date for moment in moments):
        return np.array([moment.nanoseconds // (86_400 * 10**9) for moment in moments]).astype("datetime64[D]")
    if all(moment.nanoseconds % 1000 == 0 for moment in moments):
        return np.array([moment.nanoseconds // 1000 for moment in moments], dtype=np.int64).astype("datetime64[us]")
    try:
        return np.array([moment.nanoseconds for moment in moments], dtype=np.int64).astype("datetime64[ns]")
    except OverflowError:
        raise ValueError("time must lie between 1678 and 2261 if it has nanoseconds; round it.") from None
