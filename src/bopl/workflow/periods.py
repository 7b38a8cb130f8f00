"""The periods of a backtest: when each of them begins and ends, and which past is used to train for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._settings import check_number
from bopl._typing import AnyArray
from bopl.log import BanditLog
from bopl.log.log_split import Division, divide_at

DEFAULT_PERIODS = 4
MIN_PAST = 100  # samples before a period; with fewer there is almost nothing to learn from
MAX_MICROSECONDS = 3e18  # a hundred thousand years, so that sums fit into 64 bits
_DURATION = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)\s*", re.I)
_UNITS = {"s": ("s", 1), "min": ("m", 60), "m": ("m", 60), "h": ("h", 3600), "d": ("D", 86_400), "w": ("D", 604_800)}
_ORIGINS = (("D", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True)
class PeriodPlan:
    """How a log is divided into periods.

    Attributes
    ----------
    n_periods : int, optional
        Number of periods to judge. If the log is divided by samples, 4 by default; if it is divided by a length
        of time, all but the first, or the last ones.
    every : str, timedelta, numpy.timedelta64 or number, optional
        Length of a period, such as ``"7d"``, ``"12h"``, or a number if times are numbers. Periods begin at midnight
        (for hours: at the full hour) of the first sample, in UTC if times have a zone. By default all periods have
        about equally many samples.
    window : like ``every``, optional
        How far back the training samples of a period go; to the beginning by default.
    """

    n_periods: int | None = None
    every: Any = None
    window: Any = None

    def divide(self, log: BanditLog) -> list[Division]:
        """Return the training rows and the judged rows, period by period."""
        if log.time is None:
            raise UsageError("a backtest needs the time of each decision: name its column, time=….")
        if self.n_periods is not None:
            check_number("n_periods", self.n_periods, low=1, integer=True)
        window = None if self.window is None else read_length(self.window, log.time, "window")
        starts = self._starts(log.time)
        stops = [*starts[1:], None]
        divisions = [
            divide_at(log, start, stop=stop, since=None if window is None else start - window)
            for start, stop in zip(starts, stops, strict=True)
        ]
        return [one for one in divisions if len(one.test)]  # rounding may move the only sample of a period out of it

    def _starts(self, time: AnyArray) -> list[Any]:
        """Return the first time of every period, in order; each has samples, and the last continues to the end."""
        if self.every is None:
            return _by_samples(time, self.n_periods or DEFAULT_PERIODS)
        length = read_length(self.every, time, "every")
        origin = _origin(time.min(), length)
        number = np.unique((time - origin) // length)
        starts = [origin + int(one) * length for one in number[1:]]
        starts = [start for start in starts if np.count_nonzero(time < start) >= MIN_PAST]
        if not starts:
            raise ValueError(
                f"no period of every={self.every} has {MIN_PAST} samples before it; make periods shorter, or "
                "use a longer log."
            )
        return starts if self.n_periods is None else starts[-self.n_periods :]


def read_length(length: Any, time: AnyArray, name: str) -> Any:
    """Return a length of time in the unit of a log's times, or raise an error.

    ``length`` is text, a number, or a timedelta of Python or numpy; ``time`` are the times of the log, and ``name`` is
    that of the setting in messages.
    """
    number, unit = _parse(length, name)
    if time.dtype.kind != "M":
        if unit:
            raise UsageError(f"{name} must be a number, as the times of this log are numbers; got {length!r}.")
        return int(number) if time.dtype.kind in "iu" and number.is_integer() and number < 2**62 else number
    if unit not in _UNITS:
        raise UsageError(f"{name} must be a length of time such as '7d', '12h' or '30min'; got {length!r}.")
    n_microseconds = number * _UNITS[unit][1] * 1e6
    if not 1.0 <= n_microseconds <= MAX_MICROSECONDS:
        raise UsageError(f"{name} must lie between a microsecond and a hundred thousand years; got {length!r}.")
    return np.timedelta64(round(n_microseconds), "us")


def _parse(length: Any, name: str) -> tuple[float, str]:
    """Return a number and a unit, which is empty for a plain number."""
    if isinstance(length, timedelta | np.timedelta64):
        length = f"{np.timedelta64(length) / np.timedelta64(1, 's'):f}s"
    found = _DURATION.fullmatch(str(length))
    if found is None or float(found["number"]) <= 0.0:
        raise UsageError(f"{name} must be a positive length of time such as '7d', or a number; got {length!r}.")
    return float(found["number"]), found["unit"].lower()


def _origin(first: Any, length: Any) -> Any:
    """Return the origin of the periods: the first time, or the full day, hour or minute that contains it."""
    if not isinstance(first, np.datetime64):
        return first
    seconds = length / np.timedelta64(1, "s")
    unit = next((unit for unit, size in _ORIGINS if seconds % size == 0), "us")
    return first.astype(f"datetime64[{unit}]").astype("datetime64[us]")


def _by_samples(time: AnyArray, n_periods: int) -> list[Any]:
    """Return the first times of periods with about equally many samples, and as many before the first of them."""
    ordered = np.sort(time)
    n_places = min(n_periods, len(ordered) - 1)
    places = [round(number * len(ordered) / (n_places + 1)) for number in range(1, n_places + 1)]
    starts = np.unique([ordered[place] for place in places if ordered[place] > ordered[0]])
    if len(starts) < n_periods:
        raise ValueError(
            f"the times of this log allow only {len(starts)} periods, not {n_periods}: there are too few samples, or "
            "too many with the same time. Ask for fewer periods."
        )
    return list(starts)
