"""The difference of two policies while decisions come in: bounds that hold at every look, however often one looks.

A canary is served beside what runs now, and after every day somebody asks whether it is better. The difference of the
two values is the mean of ::

    d_t = (new(a_t | x_t) - running(a_t | x_t)) / p_t · (r_t - c_t)

with p_t the logged propensity and c_t any centre that is known before the decision, as the two probabilities sum to the
same. For every mu below the true difference no bet on ``d_t - mu`` gains in expectation, and for a mu above it no bet
against; by Ville's inequality capital grows to ``1 / delta`` with probability delta at most, at any time (Waudby-Smith
and Ramdas, 2024). Here the capital is spread over a grid of bets, so that it depends neither on how long the canary
will run nor on when one looks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import FloatArray

BETS = 0.75 * 0.5 ** np.arange(10)  # shares of the capital at stake
# ... in these parts of it. Large bets find large differences, which should be found soon.
PARTS = 1.0 / np.arange(1, len(BETS) + 1) / np.sum(1.0 / np.arange(1, len(BETS) + 1))
_BISECTIONS = 40


@dataclass(frozen=True)
class DifferenceBounds:
    """What a stream of decisions says of the difference of two policies, at any time.

    Attributes
    ----------
    difference : float
        The mean of the terms: an unbiased estimate.
    lower, upper : float
        Both hold together, at all times, with the requested confidence.
    n_samples : int
    """

    difference: float
    lower: float
    upper: float
    n_samples: int


@dataclass(frozen=True, eq=False)
class DifferenceTerms:
    """The terms ``d_t`` of a stream, in the order of the decisions, and what each could have been."""

    term: FloatArray  # (n_samples,)
    # (n_samples,): ``d_t`` lies in ``[-least_t, most_t]``, as was known before the decision
    least: FloatArray
    most: FloatArray


def difference_terms(
    new_prob: FloatArray,  # what either policy gives to the logged action
    running_prob: FloatArray,
    propensity: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],  # what a reward can be
    # what ``new / p`` and ``running / p`` could have been at most, whatever context and action came
    max_new_weight: FloatArray,
    max_running_weight: FloatArray,
) -> DifferenceTerms:
    """Return the terms of the difference of two policies.

    All arrays are of shape (n_samples,).
    """
    low, high = reward_range
    outside = (reward < low) | (reward > high)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"rewards must lie in [{low:g}, {high:g}] for a bound that holds at all times; {int(outside.sum())} of "
            f"{len(reward)} do not, the first at row {row} with {reward[row]:g}. Set reward_range."
        )
    for prob, limit, name in ((new_prob, max_new_weight, "new"), (running_prob, max_running_weight, "running")):
        if (prob > propensity * limit * (1.0 + 1e-9)).any():
            row = int(np.flatnonzero(prob > propensity * limit * (1.0 + 1e-9))[0])
            raise ValueError(
                f"the {name} policy's weight at row {row} is {prob[row] / propensity[row]:g}, above the "
                f"{limit[row]:g} that what was served allows: the propensities are of other policies than these."
            )
    centre = np.clip(_mean_before(reward, 0.5 * (low + high)), low, high)
    term = (new_prob - running_prob) / propensity * (reward - centre)
    least = np.maximum(max_new_weight * (centre - low), max_running_weight * (high - centre))
    most = np.maximum(max_new_weight * (high - centre), max_running_weight * (centre - low))
    return DifferenceTerms(term, np.maximum(least, high - low), np.maximum(most, high - low))


def anytime_difference(
    terms: DifferenceTerms, confidence: float, *, reward_range: tuple[float, float]
) -> DifferenceBounds:
    """Return the difference of two policies with bounds that hold at all times together.

    Parameters
    ----------
    terms : DifferenceTerms
        As `difference_terms` makes them.
    confidence : float in (0, 1)
        Of both bounds together.
    reward_range : (float, float)
        No reward lies outside.
    """
    width = reward_range[1] - reward_range[0]
    delta = (1.0 - confidence) / 2.0
    lower = anytime_lower_bound(terms.term, terms.least, delta, width=width)
    upper = -anytime_lower_bound(-terms.term, terms.most, delta, width=width)
    mean = float(terms.term.mean()) if len(terms.term) else float("nan")
    return DifferenceBounds(mean, lower, upper, len(terms.term))


def anytime_lower_bound(terms: FloatArray, least: FloatArray, delta: float, *, width: float) -> float:
    """Return a lower bound on the mean of ``terms``, valid at all times together with ``1 - delta``.

    The terms, of shape (n_samples,), are in the order in which they came, all with one mean in ``[-width, width]``,
    given what came before. Each is at least ``-least``, which is known before it came, and ``width`` at least.
    """
    target = float(np.log(1.0 / delta))
    low, high = -width, width
    # The capital falls as mu rises, so that all below the bound is excluded.
    if not len(terms) or max_log_capital(terms, least, -width + 1e-12 * width) < target:
        return low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if max_log_capital(terms, least, middle) >= target else (low, middle)
    return low


def max_log_capital(terms: FloatArray, least: FloatArray, mu: float) -> float:
    """Return the largest logarithm that the capital of bets on ``terms`` being above ``mu`` ever has.

    A bet of share b turns the capital by ``1 + b (d_t - mu) / (least_t + mu)``, which is not negative.
    """
    gain = (terms - mu) / np.maximum(least + mu, 1e-300)
    total = np.full(len(terms), -np.inf)
    for bet, part in zip(BETS, PARTS, strict=True):
        total = np.logaddexp(total, np.log(part) + np.cumsum(np.log1p(bet * np.maximum(gain, -1.0))))
    return float(total.max())


def _mean_before(values: FloatArray, prior: float) -> FloatArray:
    """Return the mean of all values before each, together with one that is believed beforehand."""
    count = np.arange(1, len(values) + 1)
    return (prior + np.concatenate([[0.0], np.cumsum(values)[:-1]])) / count if len(values) else values
