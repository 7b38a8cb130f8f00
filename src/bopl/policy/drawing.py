"""From probabilities to actions: draws, and where the randomness of a draw comes from."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._settings import check_number
from bopl._typing import AnyArray, FloatArray, IntArray

RandomState = int | np.random.Generator | None


def draw_labels(action_prob: FloatArray, actions: AnyArray, random_state: RandomState) -> tuple[AnyArray, FloatArray]:
    """Return one drawn action label per row, and the probability it was drawn with."""
    chosen = draw_actions(action_prob, np.random.default_rng(random_state))
    return actions[chosen], logged_entries(action_prob, chosen)


def draw_actions(action_prob: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one action position per row, drawn from its probabilities."""
    return actions_at(action_prob, rng.random(len(action_prob)))


def actions_at(action_prob: FloatArray, draw: FloatArray) -> IntArray:
    """Return the action positions that correspond to uniform numbers.

    Parameters
    ----------
    action_prob : ndarray of shape (n_samples, n_actions)
    draw : ndarray of shape (n_samples,)
        Numbers in [0, 1): the first action takes those below its probability, the second those below the sum of
        both, and so on. An action without probability takes none.
    """
    cumulative = np.cumsum(action_prob, axis=1)
    # Rounding may leave the last cumulative value below 1: scale the draw accordingly, and stay below it.
    total = cumulative[:, -1:]
    threshold = np.minimum(draw[:, None] * total, np.nextafter(total, 0.0))
    return (cumulative <= threshold).sum(axis=1)


def action_at(action_prob: FloatArray, draw: float) -> int:
    """Return the action position that corresponds to one uniform number, like `actions_at`.

    Parameters
    ----------
    action_prob : ndarray of shape (n_actions,)
    draw : float in [0, 1)
    """
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
    return np.random.default_rng(random_state).random(n_samples)


def _given(n_samples: int, draw: float | Sequence[float] | FloatArray) -> FloatArray:
    numbers = np.asarray(draw, dtype=np.float64).reshape(-1)
    if len(numbers) != n_samples:
        raise ValueError(f"draw holds {len(numbers)} numbers for {n_samples} records; each needs one.")
    if not ((numbers >= 0.0) & (numbers < 1.0)).all():
        bad = float(numbers[~((numbers >= 0.0) & (numbers < 1.0))][0])
        check_number("draw", bad, low=0.0, high=1.0, high_open=True)
    return numbers
