"""Frames as they come: column names that are numbers, and columns of Python objects that are really of one kind."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw


def as_table(native: Any) -> nw.DataFrame[Any]:
    """Return any frame as a table with text for column names; objects of one kind become a column of that kind.

    Pandas holds numbers beside `pandas.NA`, booleans beside None, lists and the like as objects; here they are numbers
    and booleans with gaps, and lists of numbers. Other frames have no such columns.
    """
    if isinstance(native, nw.DataFrame):
        return native
    if not (hasattr(native, "set_axis") and hasattr(native, "assign")):  # as pandas' frames have
        return _with_known_times(nw.from_native(_with_usual_kinds(native), eager_only=True))
    names = [str(name) for name in native.columns]
    frame = native if all(isinstance(name, str) for name in native.columns) else native.set_axis(names, axis=1)
    kinds = {name: kind for name in frame.columns if (kind := _kind_of_objects(frame[name])) is not None}
    if kinds:
        frame = frame.assign(**kinds)
    return _with_known_times(nw.from_native(frame, eager_only=True))


def _with_usual_kinds(native: Any) -> Any:
    """Return an arrow table in kinds that every function knows; other frames have no others."""
    if type(native).__module__.partition(".")[0] != "pyarrow":
        return native
    from bopl.log.arrow_kind import with_usual_kinds

    return with_usual_kinds(native)


def _with_known_times(table: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a table whose times and durations lie in the calendar, or raise one sentence."""
    from bopl.log.arrow_kind import check_range

    for name, kind in table.schema.items():
        if kind.is_temporal():
            check_range(table[name].to_arrow(), name)
    return table


def _kind_of_objects(column: Any) -> Any | None:
    """Return a pandas column of objects as one of arrow's kinds; None where it is none, or text already."""
    if column.dtype != object:
        return None
    import pandas
    import pyarrow

    try:
        values = pyarrow.array(column.to_numpy(), from_pandas=True)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        return None
    kind = values.type
    plain = kind.value_type if pyarrow.types.is_list(kind) else kind
    is_number = pyarrow.types.is_floating(plain) or pyarrow.types.is_integer(plain)
    is_known = is_number or pyarrow.types.is_boolean(kind)
    return pandas.Series(values, index=column.index, dtype=pandas.ArrowDtype(kind)) if is_known else None
