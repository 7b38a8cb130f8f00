"""Action, reward and propensity as one column: the ``y`` of scikit-learn's tools, which do not know rewards."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import quoted
from bopl._native import column_names, is_frame
from bopl._typing import AnyArray
from bopl.log.action import encode_actions
from bopl.log.check import check_lengths, check_propensity, check_reward

FIELDS = ("action", "reward", "propensity")


def outcomes(action: object, reward: object, propensity: object) -> AnyArray:
    """Return action, reward and propensity as one array, to be passed as ``y`` in scikit-learn's tools.

    Parameters
    ----------
    action, reward, propensity : array-like of shape (n_samples,)
        As for `bopl.BanditLog`, and checked in the same way.

    Returns
    -------
    y : structured ndarray of shape (n_samples,)
        Array with the fields ``action``, ``reward`` and ``propensity``. A frame with these columns works too.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> y = bopl.outcomes(["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> y["action"].tolist(), len(y[:1])
    (['a', 'b'], 1)
    """
    if propensity is None:
        raise ValueError("propensity is missing: without it the value of a policy cannot be estimated from a log.")
    position, labels = encode_actions(action, None)
    earned = check_reward(reward)
    chance = check_propensity(propensity, len(position))
    check_lengths({"action": len(position), "reward": len(earned), "propensity": len(chance)})
    y = np.empty(len(position), dtype=[("action", labels.dtype), ("reward", np.float64), ("propensity", np.float64)])
    y["action"], y["reward"], y["propensity"] = labels[position], earned, chance
    return y


def is_outcomes(y: object) -> bool:
    """Return whether this is several columns rather than the actions alone."""
    if isinstance(y, np.ndarray):
        return y.dtype.names is not None
    return is_frame(y) and len(column_names(y)) > 1


def read_outcomes(y: Any) -> tuple[Any, Any, Any]:
    """Return the columns action, reward and propensity of a structured array or a frame."""
    names = list(y.dtype.names) if isinstance(y, np.ndarray) else [str(name) for name in column_names(y)]
    absent = [name for name in FIELDS if name not in names]
    if absent:
        raise ValueError(
            f"y has the columns {quoted(names)}, but not {quoted(absent)}: name its columns action, reward and "
            "propensity, or make it with bopl.outcomes(action, reward, propensity)."
        )
    if isinstance(y, np.ndarray):
        return y["action"], y["reward"], y["propensity"]
    frame = nw.from_native(y, eager_only=True)
    action, reward, propensity = (frame[name].to_native() for name in FIELDS)
    return action, reward, propensity
