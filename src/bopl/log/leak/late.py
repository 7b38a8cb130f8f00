"""Columns of times beside the time of the decision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bopl._typing import AnyArray, FloatArray
from bopl.log.leak.leak import DOUBTFUL, TIME, Leak
from bopl.log.leak.view import ColumnView

MIN_LATER = 0.5  # share of the times that lie after the decision, from which that is told
TOLERANCE = 1.0 / 3600.0  # hours: clocks and float32


def lags(view: ColumnView, values: Sequence[AnyArray], time: AnyArray | None) -> FloatArray | None:
    """Return hours between the decision and a column of times, NaN where it is missing; None if that is not known."""
    if view.column is None or view.column.kind != "time" or time is None or time.dtype.kind != "M":
        return None
    part = dict(zip(view.column.parts, values, strict=True))
    if not {"day", "hour"} <= set(part):  # of the time of the decision itself, no day is in the context
        return None
    decided = time.astype("datetime64[ms]").astype(np.int64) / 3.6e6
    day, hour = part["day"].astype(np.float64), part["hour"].astype(np.float64)
    if not hour[~np.isnan(hour)].any():  # dates: only whole days can be compared
        return 24.0 * (day - np.floor(decided / 24.0))
    return 24.0 * day + hour - decided


def judge_time(view: ColumnView, lag: FloatArray | None) -> Leak | None:
    """Return whether a column holds times that lie after the decision: a plan, or something that came of it."""
    if lag is None or np.isnan(lag).all():
        return None
    later = float((lag[~np.isnan(lag)] > TOLERANCE).mean())
    if later < MIN_LATER:
        return None
    text = f"{later:.0%} of its times lie after the decision. If they were planned before, that is fine"
    return Leak(view.name, TIME, DOUBTFUL, text, later)
