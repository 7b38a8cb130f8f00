"""What is known of logging policies: the propensity of a uniform one, and of a mixture of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bopl._errors import quoted
from bopl._native import plain
from bopl._typing import AnyArray, BoolArray, FloatArray


def uniform_propensity(n_samples: int, n_actions: int, action_mask: BoolArray | None) -> FloatArray:
    """Return the propensities of a policy to which all eligible actions are equally likely."""
    return 1.0 / (np.full(n_samples, n_actions) if action_mask is None else action_mask.sum(axis=1))


def mixture_propensity(logger: object, logger_propensity: object, n_samples: int) -> FloatArray:
    """Return ``sum_l (n_l / n) · p_l(a_i | x_i)``, the propensity of the mixture that wrote the log."""
    values = np.asarray(logger)
    if values.shape != (n_samples,):
        raise ValueError(f"logger must have shape ({n_samples},), one policy per sample; it has {values.shape}.")
    names, own, count = np.unique(values, return_inverse=True, return_counts=True)
    by_logger = _logger_columns(logger_propensity, names, n_samples)
    bad = ~((by_logger >= 0.0) & (by_logger <= 1.0))
    if bad.any():
        row, column = (int(idx) for idx in np.argwhere(bad)[0])
        raise ValueError(
            f"logger_propensity must lie in [0, 1]; row {row} holds {by_logger[row, column]:g} for logger "
            f"{plain(names[column])!r}."
        )
    never = by_logger[np.arange(n_samples), own] == 0.0
    if never.any():
        row = int(np.flatnonzero(never)[0])
        raise ValueError(
            f"logger_propensity says that {int(never.sum())} of {n_samples} logged actions were impossible for the "
            f"policy that took them, the first at row {row} by {plain(names[own[row]])!r}."
        )
    return np.minimum(by_logger @ (count / n_samples), 1.0)  # shares may sum to a little more than one


def _logger_columns(logger_propensity: Any, names: AnyArray, n_samples: int) -> FloatArray:
    """Return the loggers' probabilities of the logged actions, of shape (n_samples, n_loggers)."""
    if isinstance(logger_propensity, Mapping):
        absent = [name for name in names.tolist() if name not in logger_propensity]
        if absent:
            raise ValueError(f"logger_propensity lacks logger {quoted(absent)}.")
        logger_propensity = np.column_stack([np.asarray(logger_propensity[name]) for name in names.tolist()])
    columns = np.asarray(logger_propensity, dtype=np.float64)
    if columns.shape != (n_samples, len(names)):
        raise ValueError(
            f"logger_propensity must have shape ({n_samples}, {len(names)}), one column for each of the loggers "
            f"{quoted(names.tolist())}; it has {columns.shape}."
        )
    return columns
