"""`Decision`: the decision on one record, with everything to log; draws, and where their randomness comes from."""

from __future__ import annotations

import math
import os
import uuid
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._errors import quoted, shortened
from bopl._policy_reader import logged_entries
from bopl._settings import check_number, generator_of
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray

RandomState = int | np.random.Generator | None


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

    ``eligible`` are labels, or n_actions booleans; if the labels themselves are booleans, only an array is treated as a
    mask.
    """
    if isinstance(eligible, str | bytes) or not hasattr(eligible, "__iter__"):
        raise TypeError(f"eligible must be a list of actions or a mask of booleans; got {eligible!r}.")
    given = list(np.atleast_1d(eligible).tolist()) if isinstance(eligible, np.ndarray) else list(eligible)
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


def draw_labels(action_prob: FloatArray, actions: AnyArray, random_state: RandomState) -> tuple[AnyArray, FloatArray]:
    """Return one drawn action label per row, and the probability it was drawn with."""
    chosen = draw_actions(action_prob, generator_of(random_state))
    return actions[chosen], logged_entries(action_prob, chosen)


def draw_actions(action_prob: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one action position per row, drawn from its probabilities."""
    return actions_at(action_prob, rng.random(len(action_prob)))


def actions_at(action_prob: FloatArray, draw: FloatArray) -> IntArray:
    """Return the action positions that correspond to uniform numbers.

    The numbers, of shape (n_samples,), lie in [0, 1): the first action takes those below its probability, the second
    those below the sum of both, and so on. An action without probability takes none.
    """
    cumulative = np.cumsum(action_prob, axis=1)
    # Rounding may leave the last cumulative value below 1: scale the draw accordingly, and stay below it.
    total = cumulative[:, -1:]
    threshold = np.minimum(draw[:, None] * total, np.nextafter(total, 0.0))
    return (cumulative <= threshold).sum(axis=1)


def action_at(action_prob: FloatArray, draw: float) -> int:
    """Return the action position of one uniform number, like `actions_at`; probabilities of shape (n_actions,)."""
    cumulative: list[float] = np.cumsum(action_prob).tolist()
    total = cumulative[-1]
    return bisect_right(cumulative, min(draw * total, math.nextafter(total, 0.0)))


def uniform_number(random_state: RandomState, draw: float | None) -> float:
    """Return a number in [0, 1): the given one, one of a generator, or a fresh one of the system."""
    if type(draw) is float and random_state is None and 0.0 <= draw < 1.0:
        return draw
    return float(uniform_numbers(1, random_state, draw)[0])


def uniform_numbers(
    n_samples: int, random_state: RandomState, draw: float | Sequence[float] | FloatArray | None
) -> FloatArray:
    """Return a number in [0, 1) for each sample: given ones, those of a generator, or fresh ones of the system.

    Fresh ones have no state, so that threads and forked processes never share their draws.
    """
    if draw is not None:
        if random_state is not None:
            raise TypeError("pass either random_state or draw, not both.")
        return _given(n_samples, draw)
    if random_state is None:
        # The high 53 bits, as numpy's generators do: all multiples of 2^-53 in [0, 1) are equally likely.
        words = np.frombuffer(os.urandom(8 * n_samples), dtype=np.uint64)
        return (words >> np.uint64(11)) * 2.0**-53
    return generator_of(random_state).random(n_samples)


def _given(n_samples: int, draw: float | Sequence[float] | FloatArray) -> FloatArray:
    try:
        numbers = np.asarray(draw, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"draw must be a number in [0, 1), or one for each record; got {shortened(draw)}.") from None
    if len(numbers) != n_samples:
        raise ValueError(f"draw holds {len(numbers)} numbers for {n_samples} records; each needs one.")
    if not ((numbers >= 0.0) & (numbers < 1.0)).all():
        bad = float(numbers[~((numbers >= 0.0) & (numbers < 1.0))][0])
        check_number("draw", bad, low=0.0, high=1.0, high_open=True)
    return numbers
