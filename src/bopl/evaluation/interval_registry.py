"""The kinds of interval by their names."""

from __future__ import annotations

from bopl._registry import Registry
from bopl._settings import check_choice, check_number
from bopl.evaluation.interval import Bootstrap, Interval, Normal
from bopl.evaluation.interval_bound import Betting, EmpiricalBernstein, LogSmoothing

INTERVALS: Registry[type[Interval]] = Registry(
    "bopl.intervals", {kind.name: kind for kind in (Normal, Bootstrap, EmpiricalBernstein, LogSmoothing, Betting)}
)


def register_interval(kind: type[Interval]) -> type[Interval]:
    """Make an interval of your own known by its ``name``: to `bopl.evaluate` and the commands."""
    INTERVALS[kind.name] = kind
    return kind


def get_interval(name: object, confidence: float) -> Interval:
    """Return the interval of a name."""
    check_choice("interval", name, tuple(INTERVALS))
    check_number("confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True)
    return INTERVALS[str(name)](float(confidence))
