"""Checks of settings: each refusal names the setting, its value and its range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

from bopl._errors import did_you_mean


def check_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    integer: bool = False,
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Raise unless ``value`` is a number (an integer if ``integer``) from ``low`` to ``high``, open ends excluded."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {'an integer' if integer else 'a number'}; got {value!r}.")
    number = float(value)
    is_low = number < low or (low_open and number == low)
    is_high = number > high or (high_open and number == high)
    if is_low or is_high or math.isnan(number):
        raise ValueError(f"{name} must {_range_text(low, high, low_open, high_open)}; got {value!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.{hint}")


def check_flag(name: str, value: object) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False; got {value!r}.")


def _range_text(low: float, high: float, low_open: bool, high_open: bool) -> str:
    if low == -math.inf:
        return "be finite"
    if high == math.inf:
        return f"be greater than {low:g}" if low_open else f"be at least {low:g}"
    return f"lie in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
