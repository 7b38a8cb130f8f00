"""Whether more data would help: policies trained on more and more samples, judged on the same held-out ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from bopl._settings import check_number
from bopl._typing import FloatArray
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.planning import Plan, plan, policy_weights
from bopl.evaluation.unit import in_unit, reward_unit
from bopl.log import BanditLog


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """What policies earn that were trained on more and more samples.

    Attributes
    ----------
    n_trained : tuple of int
        Samples that each policy was trained on, in ascending order.
    plan : Plan
        Uplift of each policy on the held-out samples, in that order, and the decisions that tell it.
    gain, gain_ci_lower, gain_ci_upper : float
        What the largest policy earns more than the one before, paired on the same samples, and its interval.
    n_held_out : int
    confidence : float
    min_uplift : float or None
        The smallest uplift of interest.
    """

    n_trained: tuple[int, ...]
    plan: Plan
    gain: float
    gain_ci_lower: float
    gain_ci_upper: float
    n_held_out: int
    confidence: float
    min_uplift: float | None

    @property
    def still_rises(self) -> bool | None:
        """Whether the last step earned more; None if the held-out samples cannot tell.

        False if it earned nothing, or less than the smallest uplift of interest.
        """
        if self.gain_ci_upper <= 0.0 or (self.min_uplift is not None and self.gain_ci_upper < self.min_uplift):
            return False
        return True if self.gain_ci_lower > 0.0 else None

    @property
    def sentence(self) -> str:
        """What to make of it."""
        before, last = self.n_trained[-2:]
        head = {
            True: "More data would probably still help",
            False: "More data would hardly help",
            None: f"Whether more data would help cannot be told on {self.n_held_out:,} held-out samples",
        }[self.still_rises]
        interval = f"{100.0 * self.confidence:.4g}% interval {self.gain_ci_lower:+.3g} to {self.gain_ci_upper:+.3g}"
        return f"{head}: going from {before:,} to {last:,} training samples earned {self.gain:+.3g} ({interval})."

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        points = [
            {"n_trained": n_trained, **{name: row[name] for name in ("uplift", "uplift_ci_lower", "uplift_ci_upper")}}
            for n_trained, row in zip(self.n_trained, self.plan.rows, strict=True)
        ]
        names = ("gain", "gain_ci_lower", "gain_ci_upper", "n_held_out", "still_rises", "sentence")
        return {"points": points, **{name: getattr(self, name) for name in names}}


def learning_curve(
    log: BanditLog,
    policies: Mapping[int, Any],
    *,
    min_uplift: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
) -> LearningCurve:
    """Judge policies that were trained on more and more samples.

    Parameters
    ----------
    log : BanditLog
        Samples that none of them was trained on.
    policies : mapping of int to policy
        By the number of samples that each was trained on; at least two.
    min_uplift, confidence, power
        As for `bopl.evaluation.plan`.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, size=2000)
    >>> log = bopl.BanditLog(np.zeros((2000, 1)), action, action * 1.0, np.full(2000, 0.5))
    >>> small, large = np.tile([0.5, 0.5], (2000, 1)), np.tile([0.1, 0.9], (2000, 1))
    >>> bopl.evaluation.learning_curve(log, {500: small, 1000: large}).still_rises
    True
    """
    if not isinstance(policies, Mapping):
        raise TypeError("a learning curve takes a mapping from the numbers of training samples to policies.")
    for n_trained in policies:
        check_number("the number of samples that a policy was trained on", n_trained, low=0, integer=True)
    if len(policies) < 2:
        raise ValueError(f"a learning curve needs policies of at least two sizes; got {len(policies)}.")
    ordered = dict(sorted(policies.items()))
    named = {f"{n_trained:,} samples": policy for n_trained, policy in ordered.items()}
    planned = plan(log, named, min_uplift=min_uplift, confidence=confidence, power=power)
    (_, before), (_, last) = policy_weights(log, dict(list(named.items())[-2:]))
    gain, std_err = _paired_gain(log, last, before)
    half = float(ndtri(0.5 + confidence / 2.0)) * std_err
    return LearningCurve(tuple(ordered), planned, gain, gain - half, gain + half, log.n_samples, confidence, min_uplift)


def _paired_gain(log: BanditLog, weight: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return the difference of two self-normalised estimates on the same samples, and its standard error."""
    if not (weight.any() and other.any()):
        return math.nan, math.nan
    unit = reward_unit(log.reward)
    reward = in_unit(log.reward, unit)
    values = [float(one @ reward / one.sum()) for one in (weight, other)]
    influence = [one * (reward - value) / one.mean() for one, value in zip((weight, other), values, strict=True)]
    spread = SampleSums.of((influence[0] - influence[1])[:, None], log.group).spread(np.ones(1))
    return (values[0] - values[1]) * unit, spread.std_err * unit
