"""Arrow tables: rare types become common ones, and times must lie in the calendar."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_SECONDS = (-62_135_596_800, 253_402_300_800)  # from 1970 to the beginning of the year 1, and to that of 10000
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def with_usual_kinds(table: Any) -> Any:
    """Return an arrow table or batch whose columns are of kinds that can be compared, counted and selected.

    Text and bytes in views, run-length encoded values and extension types become plain ones; times keep their
    instants, in UTC. Times and durations outside the calendar raise an error.
    """
    for place, field in enumerate(table.schema):
        column = table.column(place)
        usual = _usual(column)
        check_range(usual, field.name)
        if usual is not column:
            table = table.set_column(place, field.name, usual)
    return table


def _usual(column: Any) -> Any:
    """Return a column in a common type; itself if it has one."""
    from pyarrow import compute, types

    kind = column.type
    if hasattr(kind, "storage_type"):
        column, kind = column.cast(kind.storage_type), kind.storage_type
    if types.is_run_end_encoded(kind):
        column = compute.run_end_decode(column)
        kind = column.type
    target = _usual_kind(kind)
    return column if target is None else column.cast(target)


def _usual_kind(kind: Any) -> Any | None:
    import pyarrow
    from pyarrow import types

    if types.is_string_view(kind):
        return pyarrow.string()
    if types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return pyarrow.timestamp(kind.unit, "UTC")
    return None


def cast_to_times(column: Any) -> Any | None:
    """Return an arrow column of text as times, in UTC where they have zones; None if arrow cannot read all of them."""
    from pyarrow import ArrowInvalid, timestamp

    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            with suppress(ArrowInvalid):
                return column.cast(timestamp(unit, zone)).cast(timestamp(unit))
    return None


def check_range(column: Any, name: str) -> None:
    """Raise if times or durations are out of Python's range."""
    import pyarrow
    from pyarrow import compute, types

    kind = column.type
    if not (types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind)):
        return
    units = 1 / 86_400 if types.is_date32(kind) else _UNITS["ms" if types.is_date64(kind) else kind.unit]
    stored = column.cast(pyarrow.int32()) if types.is_date32(kind) else column.cast(pyarrow.int64())
    ends = compute.min_max(stored).as_py()
    if ends["min"] is None or (ends["min"] >= _SECONDS[0] * units and ends["max"] < _SECONDS[1] * units):
        return
    worst = max(ends.values(), key=abs) / units
    what = "durations" if types.is_duration(kind) else "times"
    raise ValueError(
        f"column {name!r} holds {what} outside the years 1 to 9999, such as {worst:.3g} seconds from "
        f"{'0' if types.is_duration(kind) else '1970'}: their unit ({kind}) is probably wrong. Correct them, or "
        "exclude the column with ignore."
    )
