"""Values as JSON and as text: short numbers, no infinities, labels as a person would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

DIGITS = 5  # significant digits of the numbers that charts are drawn from


def plain(value: Any, digits: int | None = DIGITS) -> Any:
    """Return a value as JSON can hold it: numbers rounded, what is not finite None, unknown objects as text.

    Parameters
    ----------
    value : any
        Mappings, sequences and arrays are walked through.
    digits : int or None
        Significant digits of floating-point numbers; None leaves them as they are.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, float):
        return rounded(value, digits)
    if isinstance(value, Mapping):
        return {str(key): plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry, digits) for entry in value]
    return str(value)


def rounded(value: float, digits: int | None = DIGITS) -> float | None:
    """Return a number with so many significant digits; None if it is not finite."""
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def label(value: Any) -> str:
    """Return an action or a category as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def number_text(value: float) -> str:
    """Return a number with four significant digits, without an exponent where it can be avoided."""
    if value != 0.0 and (abs(value) < 1e-4 or abs(value) >= 1e7):
        return f"{value:.3g}"
    if abs(value) >= 1000.0:
        return f"{value:,.0f}"
    decimals = 3 if value == 0.0 else max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed_text(value: float) -> str:
    """Return a number with its sign, a true minus included."""
    sign = "−" if value < 0.0 else "+"
    return sign + number_text(abs(value))


def percent_text(share: float, *, signed: bool = False) -> str:
    """Return a share as a percentage of two or three digits."""
    size = abs(100.0 * share)
    decimals = 0 if size >= 10.0 else 1
    text = f"{size:.{decimals}f}%"
    if not signed:
        return f"−{text}" if share < 0.0 else text
    return ("−" if share < 0.0 else "+") + text
