"""Checks of settings: each refusal names the setting, its value and its range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence


def check_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    integer: bool = False,
    is_open: bool = False,
) -> None:
    """Raise unless ``value`` is a number (whole if ``integer``) in ``[low, high]``, or in ``(low, high)`` if open."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {'a whole number' if integer else 'a number'}; got {value!r}.")
    inside = low < float(value) < high if is_open else low <= float(value) <= high
    if not inside:
        raise ValueError(f"{name} must {_range_text(low, high, is_open)}; got {value!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def _range_text(low: float, high: float, is_open: bool) -> str:
    if (low, high) == (-math.inf, math.inf):
        return "be finite" if is_open else "be a number"
    if high == math.inf:
        return f"be greater than {low:g}" if is_open else f"be at least {low:g}"
    return f"lie strictly between {low:g} and {high:g}" if is_open else f"lie in [{low:g}, {high:g}]"
