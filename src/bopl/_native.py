"""What callers hold, as it comes: frames of any library, and arrays with a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError


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
    """Return an array without a mask: what it hides becomes NaN, NaT or None; anything else is returned as it is."""
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


def plain(value: Any) -> Any:
    """Return a number, text or flag of numpy as Python's own; anything else is returned as it is."""
    return value.item() if isinstance(value, np.generic) else value
