"""Values as JSON and as text: short numbers, no infinities, labels as a person would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

MINUS = "−"
DIGITS = 5  # significant digits of the numbers that charts are drawn from
MAX_DECIMALS = 6  # of numbers that are written without an exponent


def plain(value: Any, digits: int | None = DIGITS) -> Any:
    """Return a value as JSON can hold it: numbers rounded, what is not finite None, unknown objects as text.

    Parameters
    ----------
    value : any
        Entries of mappings, sequences and arrays are converted one by one.
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


def number_text(value: float | None) -> str:
    """Return a number with four significant digits, without an exponent where it can be avoided; a dash for none."""
    if value is None:
        return "–"
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


def signed_text(value: float | None) -> str:
    """Return a number with its sign, a true minus included; a dash for none."""
    return number_text(value) if value is None or value < 0.0 else f"+{number_text(value)}"


def fixed_text(value: float, largest: float) -> str:
    """Return a number that is read beside others, with as many decimals as the largest of them calls for."""
    decimals = min(max(1 - math.floor(math.log10(largest)), 2), 6) if largest > 0.0 else 2
    text = f"{abs(value):.{decimals}f}"
    return (MINUS if value < 0.0 and float(text) != 0.0 else "+") + text


def within_text(value: float, lower: float | None, upper: float | None) -> str:
    """Return a number with the decimals that its interval leaves meaning to: two digits of half the width."""
    half = 0.0 if lower is None or upper is None else 0.5 * (upper - lower)
    if not math.isfinite(half) or half <= 0.0:
        return number_text(value)
    decimals = 1 - math.floor(math.log10(half))
    if decimals > MAX_DECIMALS:
        return number_text(value)
    text = f"{abs(value):,.{max(decimals, 0)}f}"
    return f"{MINUS}{text}" if value < 0.0 and text.strip("0.") else text


def percent_text(share: float, *, signed: bool = False) -> str:
    """Return a share as a percentage of two or three digits, and never as 0% or 100% what is not quite that."""
    size = abs(100.0 * share)
    text = f"{size:.{_percent_decimals(size)}f}%"
    plus = "+" if signed else ""
    return (MINUS if share < 0.0 else plus) + text


def _percent_decimals(size: float) -> int:
    if 0.0 < size < 0.1:
        return min(-math.floor(math.log10(size)), MAX_DECIMALS)
    if 99.5 <= size < 99.995:
        return 1 if size < 99.95 else 2
    return 1 if size < 10.0 else 0
