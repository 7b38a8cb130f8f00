"""Values as JSON and as text: short numbers, no infinities, labels as a person would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

MINUS = "−"
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
    size = abs(value)
    if size != 0.0 and (size < 1e-4 or size >= 1e7):
        digits, power = f"{size:.2e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", MINUS)
    elif size >= 1000.0:
        text = f"{size:,.0f}"
    else:
        decimals = 0 if size == 0.0 else max(0, 3 - math.floor(math.log10(size)))
        text = f"{size:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{MINUS}{text}" if value < 0.0 else text


def signed_text(value: float) -> str:
    """Return a number with its sign, a true minus included."""
    return number_text(value) if value < 0.0 else f"+{number_text(value)}"


def fixed_text(value: float, largest: float) -> str:
    """Return a number that is read beside others, with as many decimals as the largest of them calls for."""
    decimals = min(max(1 - math.floor(math.log10(largest)), 2), 6) if largest > 0.0 else 2
    text = f"{abs(value):.{decimals}f}"
    return (MINUS if value < 0.0 and float(text) != 0.0 else "+") + text


def percent_text(share: float, *, signed: bool = False) -> str:
    """Return a share as a percentage of two or three digits."""
    size = abs(100.0 * share)
    decimals = 0 if size >= 10.0 else 1
    text = f"{size:.{decimals}f}%"
    plus = "+" if signed else ""
    return (MINUS if share < 0.0 else plus) + text
