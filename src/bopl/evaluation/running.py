"""Anytime-valid bounds that grow with the data: one pass, constant memory, looked at as often as one likes.

The bets of `bopl.evaluation.betting` are tuned to the number of samples there are, so each number has bets of its own.
Here a bet depends on the samples before it and on nothing else (Waudby-Smith and Ramdas, 2024)::

    lambda_t = sqrt(2 log(1/delta) / (t log(1 + t) · variance_{t-1}))

so that all looks belong to one martingale, and with probability ``1 - delta`` none of the bounds is ever wrong. The
capital is kept for a grid of candidate means; it falls as the mean rises, so that all means up to the largest excluded
one are excluded.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl._typing import FloatArray
from bopl.evaluation.betting import PRIOR_MEAN, PRIOR_VARIANCE, SHARE

GRID = 1000  # candidate means; they lie denser towards the low end of the rewards, where rates of clicks are
LOST = 1e-250  # a capital below this will not come back, and slows down the processor


@njit(nogil=True, cache=True)
def advance(terms, log_inverse_delta, mean, state_out, capital_out):  # type: ignore[no-untyped-def]
    """Let the capital at every candidate mean take part in some more bets.

    ``state`` holds the count, total and spread of the terms so far. A capital that has reached the target stays there,
    whatever comes: its mean is excluded. One that is lost stays lost, which excludes less, not more.
    """
    target = np.exp(log_inverse_delta)
    for i in range(len(terms)):
        t = state_out[0] + 1.0
        bet = np.sqrt(2.0 * log_inverse_delta / (np.log1p(t) * state_out[2]))  # spread is t times the variance
        for k in range(len(mean)):
            if LOST < capital_out[k] < target:
                stake = bet if bet * mean[k] <= SHARE else SHARE / mean[k]
                capital_out[k] *= 1.0 + stake * (terms[i] - mean[k])
        state_out[0] = t
        state_out[1] += terms[i]
        state_out[2] += (terms[i] - state_out[1] / (t + 1.0)) ** 2


class _LowerBound:
    """A lower bound on the mean of non-negative terms whose mean lies in [0, 1]."""

    def __init__(self, delta: float, mean: FloatArray) -> None:
        self._log_inverse_delta = float(np.log(1.0 / delta))
        self._mean = mean
        self._state = np.array([0.0, PRIOR_MEAN, PRIOR_VARIANCE])
        self._capital = np.ones(len(mean))

    def add(self, terms: FloatArray) -> None:
        advance(terms, self._log_inverse_delta, self._mean, self._state, self._capital)

    @property
    def bound(self) -> float:
        is_excluded = self._capital >= np.exp(self._log_inverse_delta)
        return float(self._mean[is_excluded].max()) if is_excluded.any() else 0.0


class RunningBound:
    """The value of a policy while its decisions come in, with an interval that holds at all times simultaneously.

    Parameters
    ----------
    confidence : float in (0, 1)
        Probability with which no interval, however often one looks, ever misses the value.
    reward_range : (float, float)
        Rewards outside of it are clipped.

    Examples
    --------
    >>> import numpy as np
    >>> running = RunningBound()
    >>> running.add(np.ones(1000), np.tile([0.0, 1.0], 500))
    >>> running.value, [round(end, 2) for end in running.interval]
    (0.5, [0.42, 0.57])
    """

    def __init__(self, confidence: float = 0.95, reward_range: tuple[float, float] = (0.0, 1.0)) -> None:
        self.confidence = confidence
        self._low, self._high = reward_range
        dense = (np.arange(GRID) / GRID) ** 2
        delta = (1.0 - confidence) / 2.0
        self._from_below, self._from_above = _LowerBound(delta, dense), _LowerBound(delta, 1.0 - dense[::-1])
        self.n_samples, self._weight, self._total = 0, 0.0, 0.0

    def add(self, importance_weight: FloatArray, reward: FloatArray) -> None:
        """Add samples, in the order in which they were decided; weights of 1 are those of what was served."""
        weight = np.ascontiguousarray(importance_weight, dtype=np.float64)
        scaled = np.clip((np.asarray(reward, dtype=np.float64) - self._low) / (self._high - self._low), 0.0, 1.0)
        self._from_below.add(weight * scaled)
        self._from_above.add(weight * (1.0 - scaled))
        self.n_samples += len(weight)
        self._weight += float(weight.sum())
        self._total += float((weight * scaled).sum())

    @property
    def value(self) -> float:
        """Mean of weight times reward; NaN without samples."""
        if not self.n_samples:
            return float("nan")
        # Written so that weights of 1 give the mean reward.
        return self._low * self.mean_weight + (self._high - self._low) * self._total / self.n_samples

    @property
    def mean_weight(self) -> float:
        """Mean of the weights, which is 1 up to chance if propensities are right; NaN without samples."""
        return self._weight / self.n_samples if self.n_samples else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The values that are not yet excluded."""
        width = self._high - self._low
        return self._low + width * self._from_below.bound, self._high - width * self._from_above.bound
