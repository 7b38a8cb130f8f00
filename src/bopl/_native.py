"""What callers hold, as it comes: frames of any library, arrays with a mask, and what stands for a missing entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from bopl._typing import AnyArray, BoolArray


def is_frame(value: object) -> bool:
    """Return whether narwhals can read ``value`` as a table (pandas, polars, arrow, …)."""
    try:
        return isinstance(nw.from_native(value, eager_only=True, pass_through=True), nw.DataFrame)
    except DuplicateError:  # a frame all the same; the check of its names says what is wrong with it
        return True


def column_names(frame: Any) -> Sequence[object]:
    """Return the column names of any frame, also where narwhals would refuse it."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def unmasked(values: Any) -> Any:
    """Return a column or matrix as numpy or narwhals read it: what a mask hides becomes NaN, NaT or None.

    Arrays of arrow become chunked ones, and tensors numpy's; anything else is returned as it is. Both would otherwise
    be read entry by entry, as objects that differ from each other whatever they hold.
    """
    if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        return _array_of_another_library(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    hidden = np.ma.getmaskarray(values)
    if not hidden.any():
        return values.data
    if values.dtype.kind in "fc":
        return values.filled(np.nan)
    if values.dtype.kind in "mM":
        moments = values.data.copy()
        moments[hidden] = "NaT"
        return moments
    objects = values.data.astype(object)
    objects[hidden] = None
    return objects


def _array_of_another_library(values: Any) -> Any:
    import pyarrow

    if isinstance(values, pyarrow.Array):
        return pyarrow.chunked_array([values])
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:  # on another device, or with a gradient
        raise TypeError(
            f"{type(values).__name__} cannot be read as a numpy array: {error} Convert it to one first."
        ) from error


def plain(value: Any) -> Any:
    """Return a number, text or flag of numpy, arrow or a tensor as Python's own; anything else is returned as it is."""
    if isinstance(value, np.generic) or getattr(value, "ndim", None) == 0:
        return value.item()
    return value.as_py() if hasattr(value, "as_py") else value


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, str | int | tuple | bytes):  # nearly all labels are
        return False
    try:
        return bool(value != value)  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not; an array is not a label
        return type(value).__name__ == "NAType"


def object_to_float(values: AnyArray) -> AnyArray:
    """Return objects as floats, missing ones as NaN; what is not a number raises `TypeError` or `ValueError`."""
    flat = [np.nan if is_missing(value) else float(value) for value in values.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(values.shape)


def missing_clause(name: str, missing: BoolArray) -> str:
    """Return where a column is missing, for a message."""
    row = int(np.flatnonzero(missing)[0])
    return f"{name} is missing in {int(missing.sum())} of {len(missing)} samples, the first at row {row}"


def missing_rows(values: Any) -> BoolArray:
    """Return which entries of a column are missing, whatever holds it."""
    series = nw.from_native(unmasked(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
        if series.dtype.is_float():
            return missing | np.asarray(series.is_nan().fill_null(value=True).to_numpy(), dtype=np.bool_)
        if series.dtype != nw.Object:
            return missing
        series = np.array(series.to_list(), dtype=object)
    if isinstance(series, list | tuple):  # numpy would make text of a NaN among texts
        return np.array([is_missing(value) for value in series], dtype=np.bool_)
    array = np.asarray(series)
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(len(array), dtype=np.bool_)
    return np.array([is_missing(value) for value in array.tolist()], dtype=np.bool_)
