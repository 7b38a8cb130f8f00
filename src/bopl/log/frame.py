"""Frames as they come: names that are numbers, objects that are really of one kind, and arrow's rarer kinds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import narwhals.stable.v1 as nw

from bopl._errors import shortened
from bopl._native import is_missing

TEXT = (nw.String, nw.Categorical, nw.Enum)
_SECONDS = (-62_135_596_800, 253_402_300_800)  # from 1970 to the beginning of the year 1, and to that of 10000
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def as_table(native: Any) -> nw.DataFrame[Any]:
    """Return any frame as a table with text for column names; objects of one kind become a column of that kind.

    Pandas holds numbers beside `pandas.NA`, decimals, booleans beside None, lists and the like as objects; here they
    are numbers and booleans with gaps, and lists of numbers. Other frames have no such columns.
    """
    if isinstance(native, nw.DataFrame):
        return native
    if not (hasattr(native, "set_axis") and hasattr(native, "assign")):  # as pandas' frames have
        is_arrow = type(native).__module__.partition(".")[0] == "pyarrow"  # other frames have no rarer kinds
        return _with_known_times(nw.from_native(with_usual_kinds(native) if is_arrow else native, eager_only=True))
    names = [str(name) for name in native.columns]
    frame = native if all(isinstance(name, str) for name in native.columns) else native.set_axis(names, axis=1)
    kinds = {name: kind for name in frame.columns if (kind := _kind_of_objects(frame[name])) is not None}
    if kinds:
        frame = frame.assign(**kinds)
    return _with_known_times(nw.from_native(frame, eager_only=True))


def _with_known_times(table: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a table whose times and durations lie in the calendar, or raise one sentence."""
    for name, kind in table.schema.items():
        if kind.is_temporal():
            check_range(table[name].to_arrow(), name)
    return table


def _kind_of_objects(column: Any) -> Any | None:
    """Return a pandas column of objects as one of arrow's kinds, or a sparse one in full; None for any other."""
    import pandas
    import pyarrow

    if isinstance(column.dtype, pandas.SparseDtype):
        return column.sparse.to_dense()
    if column.dtype != object:
        return None
    try:
        values = pyarrow.array(column.to_numpy(), from_pandas=True)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        return None
    kind = values.type
    types = pyarrow.types
    plain = kind.value_type if types.is_list(kind) else kind
    is_number = any(is_kind(plain) for is_kind in (types.is_floating, types.is_integer, types.is_decimal))
    is_known = is_number or types.is_boolean(kind)
    return pandas.Series(values, index=column.index, dtype=pandas.ArrowDtype(kind)) if is_known else None


def dtype_name(values: nw.Series[Any]) -> str:
    """Return what a column holds as it goes into a message: a reader may store text in other ways."""
    if values.dtype != nw.Object:
        native: Any = values.to_native() if values.dtype == nw.Unknown else values
        return "text" if values.dtype in TEXT else str(getattr(native, "dtype", None) or native.type)
    kinds = {type(value): value for value in reversed(values.to_list()) if not is_missing(value)}
    shown = [shortened(value) for value in kinds.values()][:2]
    return f"{'objects' if len(shown) < 2 else 'values of several kinds,'} such as {' and '.join(shown)}"


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

    target = usual_kind(column.type)
    if target == column.type:
        return column
    if hasattr(column.type, "storage_type"):
        column = column.cast(column.type.storage_type)
    if types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    return column.cast(target)


def usual_kind(kind: Any) -> Any:
    """Return the arrow type that `with_usual_kinds` gives to columns of some type."""
    import pyarrow
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    if types.is_run_end_encoded(kind):
        return usual_kind(kind.value_type)
    if types.is_string_view(kind):
        return pyarrow.string()
    if types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return pyarrow.timestamp(kind.unit, "UTC")
    return kind


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
