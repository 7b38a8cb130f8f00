"""Limits of trust: where an audit calls something a problem, and a verdict is `not trustworthy`.

The simulated worlds in docs/evaluation.md lie on both sides of them.
"""

from __future__ import annotations

import math

USUAL_DELTA = 0.025  # probability of a miss on one side, for which these limits were chosen
MAX_UNSUPPORTED = 0.01  # share of a policy's choices that the log never took
MAX_MEAN_Z = 4.0  # standard errors between the mean weight and 1: one sound log in 16,000 …
MIN_MEAN_GAP = 2e-3  # … unless the distance is one that rounded propensities leave
MAX_WEIGHT_SKEWNESS = 0.1  # of the mean weight: beyond, one that is below 1 may lack rare large weights
MIN_ESS = 50.0  # effective samples
MIN_REWARDED = 30.0  # effective samples with a reward that decides, at 95%: skewed sums of fewer are not normal yet
MIN_GROUPS = 30  # independent groups, if the samples of a group are not …
MIN_EQUAL_GROUPS = 15.0  # … and effective ones, of those that tell policies apart: one may be larger than all others
MIN_REWARDED_GROUPS = 10.0  # effective ones with rewards that decide, at 95%: a few users may do all the buying
MIN_TOGETHER = 2.0  # times the variance that the weights of a group add up to: below, each sample was drawn by itself
SAME_POLICY = 1e-3  # root mean square of w - 1 that rounded propensities may leave of the logging policy
MAX_SINGLE_SHARE = 0.25  # share of sum(w²) in the largest weight; the central limit theorem wants it near zero …
MAX_HEAVY_SINGLE_SHARE = 0.1  # … nearer still if the tail is heavy by the next two limits
MIN_TAIL_INDEX = 2.0  # below, the variance of an unbounded weight is infinite
MAX_TOP_SHARE = 0.5  # share of the value in the top 1% of the weights
MAX_LOST_WEIGHT = 0.05  # share of the policy's probability that clipping weights may drop
MAX_MODEL_SHARE = 0.5  # share of it left to a reward model: beyond, an estimate is mostly the opinion of that model


def min_rewarded(delta: float) -> float:
    """Return how many effective samples with a reward that decides an interval takes that misses so rarely on a side.

    The probability that a log does not show some of the rewards falls exponentially in their number. If an interval is
    to miss more rarely than usual, it takes more of them, in proportion to the logarithm of that probability.
    """
    return MIN_REWARDED * max(round(math.log(delta) / math.log(USUAL_DELTA), 9), 1.0)


def min_rewarded_groups(delta: float) -> float:
    """Return the same of groups of dependent samples."""
    return min_rewarded(delta) * (MIN_REWARDED_GROUPS / MIN_REWARDED)


def is_mean_off(mean: float, mean_z: float) -> bool:
    """Return whether a mean weight is too far from 1 for chance and for rounding."""
    return abs(mean_z) > MAX_MEAN_Z and abs(mean - 1.0) > MIN_MEAN_GAP
