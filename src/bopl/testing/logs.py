"""Small random logs for the checks, and how a broken promise is reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.learner.store import settings_of
from bopl.log import BanditLog


def random_log(
    seed: int = 0,
    *,
    n_samples: int = 60,
    n_features: int = 3,
    n_actions: int = 4,
    min_propensity: float = 0.05,
    has_mask: bool = False,
) -> BanditLog:
    """Return a log with rewards of both signs, some of them zero, and propensities of several magnitudes.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    n_samples, n_features, n_actions : int
        Size of the log.
    min_propensity : float
        Propensities lie between it and 1.
    has_mask : bool, default=False
        Whether some actions are not eligible.
    """
    rng = np.random.default_rng(seed)
    action = rng.integers(0, n_actions, size=n_samples)
    reward = np.where(rng.random(n_samples) < 0.2, 0.0, rng.normal(size=n_samples))
    propensity = np.exp(rng.uniform(np.log(min_propensity), 0.0, size=n_samples))
    mask = None
    if has_mask:
        mask = rng.random((n_samples, n_actions)) < 0.6
        mask[np.arange(n_samples), action] = True
    context = rng.normal(size=(n_samples, n_features))
    return BanditLog(context, action, reward, propensity, actions=list(range(n_actions)), action_mask=mask)


def require(is_kept: Any, promise: str) -> None:
    """Raise `AssertionError` with the promise unless it is kept."""
    if not is_kept:
        raise AssertionError(promise)


def require_equal(found: Any, expected: Any, promise: str, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise `AssertionError` with the promise and the largest difference unless two arrays are equal."""
    one, other = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(one.shape == other.shape, f"{promise} The shapes are {one.shape} and {other.shape}.")
    is_equal = np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True) if rtol or atol else _same(one, other)
    if not is_equal.all():
        worst = float(np.nanmax(np.abs(one - other)))
        raise AssertionError(f"{promise} {(~is_equal).sum()} of {is_equal.size} numbers differ, by up to {worst:.3g}.")


def require_settings(loaded: Any, own: Any, noun: str) -> None:
    """Raise `AssertionError` with the settings that a file has changed; those that are objects are not compared."""
    before, after = settings_of(own) or {}, settings_of(loaded) or {}
    changed = [name for name, value in before.items() if _listed(value) != _listed(after[name])]
    require(not changed, f"A file must restore the settings of the {noun}; it changes {', '.join(changed)}.")


def _listed(value: Any) -> Any:
    """Return a setting as files restore it: as a list, whatever sequence it is."""
    if hasattr(value, "get_params") or isinstance(value, np.random.RandomState):
        return type(value)
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_listed(one) for one in value]
    return value


def _same(one: FloatArray, other: FloatArray) -> Any:
    return (one == other) | (np.isnan(one) & np.isnan(other))
