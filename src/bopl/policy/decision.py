"""`Decision`: the decision on one record, with everything to log."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._errors import quoted
from bopl._typing import BoolArray


@dataclass(frozen=True)
class Decision:
    """One decision: log it as it is.

    Attributes
    ----------
    action : str, int, float, bool or tuple
        What to do.
    propensity : float
        Probability with which it was chosen, equal to that of `predict_proba` to the last bit.
    event : str
        Id of the event, which links the reward to the decision.
    policy : str
        ``policy_id`` of the policy that decided.
    """

    action: Any
    propensity: float
    event: str
    policy: str


def new_event() -> str:
    """Return a unique event id."""
    return uuid.uuid4().hex


def eligible_row(eligible: Any, labels: Sequence[Hashable]) -> BoolArray:
    """Return which actions can be chosen, of shape (n_actions,).

    Parameters
    ----------
    eligible : sequence of labels, or of n_actions booleans
        If the labels themselves are booleans, only an array is treated as a mask.
    labels : sequence
        Labels of all actions.
    """
    if isinstance(eligible, str | bytes) or not hasattr(eligible, "__iter__"):
        raise TypeError(f"eligible must be a list of actions or a mask of booleans; got {eligible!r}.")
    given = eligible.tolist() if isinstance(eligible, np.ndarray) else list(eligible)
    has_flags = any(isinstance(label, bool) for label in labels)
    if given and all(isinstance(one, bool) for one in given) and (not has_flags or isinstance(eligible, np.ndarray)):
        if len(given) != len(labels):
            raise ValueError(f"eligible is a mask of {len(given)} booleans; there are {len(labels)} actions.")
        mask = np.array(given)
    else:
        given = [tuple(one) if isinstance(one, list) else one for one in given]  # JSON has no tuples
        unknown = [one for one in given if not isinstance(one, Hashable) or one not in labels]
        if unknown:
            raise ValueError(
                f"eligible lists {quoted(unknown)}, which the policy does not know. Its actions are {quoted(labels)}."
            )
        mask = np.array([label in given for label in labels])
    if not mask.any():
        raise ValueError("eligible leaves no action to choose; list at least one.")
    return mask


def eligible_rows(eligible: Any, labels: Sequence[Hashable], n_records: int) -> BoolArray | None:
    """Return the same for several records, of shape (n_records, n_actions); None if all actions can be chosen."""
    if eligible is None:
        return None
    if len(eligible) != n_records:
        raise ValueError(f"eligible has {len(eligible)} entries for {n_records} records; each needs one.")
    return np.array([np.ones(len(labels), bool) if one is None else eligible_row(one, labels) for one in eligible])
