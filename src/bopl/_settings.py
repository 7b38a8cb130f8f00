"""Checks of settings: each refusal names the setting, its value and its range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bopl._errors import did_you_mean, shortened

if TYPE_CHECKING:
    import numpy as np

MAX_JOBS = 1 << 12  # threads; more would only take memory


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
    is_fraction = isinstance(value, numbers.Rational) and not isinstance(value, numbers.Integral)  # has no format
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or is_fraction or not isinstance(value, kind):
        raise TypeError(f"{name} must be {'an integer' if integer else 'a number'}; got {shortened(value)}.")
    try:
        number = float(value)
    except OverflowError:
        text = _range_text(low, high, low_open, high_open)
        raise ValueError(f"{name} must {text}; got more than 1e308.") from None
    is_low = number < low or (low_open and number == low)
    is_high = number > high or (high_open and number == high)
    if is_low or is_high or math.isnan(number):
        text = "be finite" if number == high == math.inf else _range_text(low, high, low_open, high_open)
        raise ValueError(f"{name} must {text}; got {value!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {shortened(value)}.{hint}")


def check_flag(name: str, value: object) -> None:
    """Raise unless ``value`` is True or False."""
    is_numpys = str(getattr(value, "dtype", "")) == "bool" and getattr(value, "ndim", None) == 0  # of a grid
    if not (isinstance(value, bool) or is_numpys):
        raise TypeError(f"{name} must be True or False; got {shortened(value)}.")


def check_jobs(value: object) -> None:
    """Raise unless ``n_jobs`` is a number of threads, or None."""
    if value is not None:
        check_number("n_jobs", value, low=1, integer=True)
        check_number("n_jobs", value, low=1, high=MAX_JOBS, integer=True)


def check_model(name: str, value: object) -> None:
    """Raise unless ``value`` is an object that scikit-learn could fit: no class, no name."""
    if isinstance(value, type) or not (hasattr(value, "fit") and hasattr(value, "get_params")):
        raise TypeError(f"{name} must be a model with fit and get_params, not a class; got {shortened(value)}.")


def seed_of(random_state: Any) -> int:
    """Return a seed drawn from what scikit-learn takes as a random state; a `RandomState` gives another each time."""
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError):
        given = shortened(random_state)
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1, or a RandomState; got {given}."
        ) from None


def generator_of(random_state: Any) -> np.random.Generator:
    """Return the generator of a random state: a `Generator` itself, a seed's, or a fresh one for None."""
    import numpy as np

    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise TypeError(
            f"random_state must be None, an integer of at least 0, or a numpy Generator; got {shortened(random_state)}."
        ) from None


def _range_text(low: float, high: float, low_open: bool, high_open: bool) -> str:
    if low == -math.inf:
        return "be finite"
    if high == math.inf:
        return f"be greater than {low:g}" if low_open else f"be at least {low:g}"
    return f"lie in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
