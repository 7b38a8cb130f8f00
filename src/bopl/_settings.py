"""Checks of settings: each refusal names the setting, its value and its range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence


def check_number(
    name: str, value: object, *, low: float = -math.inf, high: float = math.inf, integer: bool = False
) -> None:
    """Raise unless ``value`` is a number (a whole one if ``integer``) in ``[low, high]``."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {'a whole number' if integer else 'a number'}; got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must {_range_text(low, high)}; got {value!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def _range_text(low: float, high: float) -> str:
    if high == math.inf:
        return f"be at least {low:g}"
    if low == -math.inf:
        return f"be at most {high:g}"
    return f"lie in [{low:g}, {high:g}]"
