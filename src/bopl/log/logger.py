"""What is known of logging policies: the propensity of a uniform one, and of a mixture of several."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from bopl._errors import LoggerDifferenceWarning, quoted
from bopl._native import plain
from bopl._trust import MAX_MEAN_Z, MIN_REWARDED
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl._weight import effective_sample_size, mean_std_err, reward_share


def uniform_propensity(n_samples: int, n_actions: int, action_mask: BoolArray | None) -> FloatArray:
    """Return the propensities of a policy to which all eligible actions are equally likely."""
    return 1.0 / (np.full(n_samples, n_actions) if action_mask is None else action_mask.sum(axis=1))


def mixture_propensity(
    logger: object, logger_propensity: object, reward: FloatArray, group: IntArray | None
) -> tuple[FloatArray, bool]:
    """Return ``sum_l (n_l / n) · p_l(a_i | x_i)``, the propensity of the mixture that wrote the log.

    The second answer is whether the loggers earned different rewards with the same actions, of which it warns: then no
    mixture of them wrote the log.
    """
    values, n_samples = np.asarray(logger), len(reward)
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
    differ = _find_difference(names, own, by_logger, reward, group)
    return np.minimum(by_logger @ (count / n_samples), 1.0), differ  # shares may sum to a little more than one


def _find_difference(
    names: AnyArray, own: IntArray, by_logger: FloatArray, reward: FloatArray, group: IntArray | None
) -> bool:
    """Return whether two loggers earned different rewards with the same actions, and warn of it.

    A sample counts ``1 / (p_own sum_l 1 / p_l)``, with which every logger takes the same actions. If contexts or
    rewards change from one logger to the next, as they do with time, the mixture takes that for what actions earn; and
    a logger that was trained on rows of the log gives actions that were rewarded there higher probabilities.
    """
    taken_by_all = (by_logger > 0.0).all(axis=1)
    inverse = 1.0 / np.where(by_logger > 0.0, by_logger, 1.0)
    common = taken_by_all * inverse[np.arange(len(own)), own] / inverse.sum(axis=1)
    found = []
    for place, name in enumerate(names.tolist()):
        rows = own == place
        weight = common[rows]
        if effective_sample_size(weight) * reward_share(reward[rows], weight) < MIN_REWARDED:
            continue  # too few to tell
        mean = float(weight @ reward[rows] / weight.sum())
        influence = weight * (reward[rows] - mean) / weight.mean()
        found.append((mean, mean_std_err(influence, None if group is None else group[rows]), name))
    if len(found) < 2:
        return False
    low, high = min(found), max(found)
    if not high[0] - low[0] > MAX_MEAN_Z * float(np.hypot(low[1], high[1])):
        return False
    warnings.warn(
        f"with the same actions, logger {plain(high[2])!r} earned {high[0]:.4g} and {plain(low[2])!r} {low[0]:.4g}: "
        "contexts or rewards changed from one to the other, or one was trained on rows of the other. The propensities "
        "of a mixture are wrong then: take those with which each sample was logged, or leave those rows out.",
        LoggerDifferenceWarning,
        stacklevel=4,
    )
    return True


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
