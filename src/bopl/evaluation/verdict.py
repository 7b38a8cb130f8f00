"""The verdict: better, worse, inconclusive, or that this log cannot say; always with a reason in a plain sentence."""

from __future__ import annotations

import math

from bopl.evaluation.diagnosis import WeightFacts
from bopl.evaluation.estimator import Estimator, Need
from bopl.evaluation.interval import Bounds, Interval
from bopl.log.weight import (
    MAX_HEAVY_SINGLE_SHARE,
    MAX_LOST_WEIGHT,
    MAX_SINGLE_SHARE,
    MAX_TOP_SHARE,
    MAX_UNSUPPORTED,
    MIN_ESS,
    MIN_GROUPS,
    MIN_REWARDED,
    MIN_TAIL_INDEX,
    SAME_POLICY,
    is_mean_off,
)

BETTER, WORSE, INCONCLUSIVE, NOT_TRUSTWORTHY = "better", "worse", "inconclusive", "not trustworthy"
DECIDED = (BETTER, WORSE)
VERDICTS = (BETTER, WORSE, INCONCLUSIVE, NOT_TRUSTWORTHY)


CUTTING = ("clipped_ips", "switch_dr", "dr_shrinkage")  # large weights do not enter as they are

SOURCE_NOTES = {
    "estimated": " It rests on estimated propensities: wrong if the logging policy looked at more than the context.",
    "uniform": " The propensities are taken to be uniform because the caller said so.",
}


def judge(
    estimator: Estimator,
    interval: Interval,
    facts: WeightFacts,
    lost_weight: float,
    uplift: float,
    value_bounds: Bounds,
    bounds: Bounds,
    source: str,
    *,
    knows_logging_policy: bool,
) -> tuple[str, str]:
    """Return the verdict on one policy under one estimator, and the reason.

    Parameters
    ----------
    estimator : Estimator
    interval : Interval
    facts : WeightFacts
    lost_weight : float
        Share of the weights that the estimator cut off.
    uplift : float
    value_bounds : (float, float)
        Interval of the value.
    bounds : (float, float)
        Interval of the uplift.
    source : str
        Where the propensities come from.
    knows_logging_policy : bool
        Whether the logging policy's probabilities of all actions were known; else even a reward model's uplift is
        taken from weights (`Terms.modelled_uplift`).
    """
    uses_weights = Need.PROPENSITY in estimator.needs or not knows_logging_policy
    complaint = find_complaint(estimator, interval, facts, lost_weight, bounds, uses_weights=uses_weights)
    complaint = complaint or _crossed_complaint(value_bounds, bounds)
    if complaint is not None:
        return NOT_TRUSTWORTHY, complaint + SOURCE_NOTES.get(source, "")
    if facts.gap <= SAME_POLICY:
        reason = "The policy is the logging policy on this log, but for rounding: there is no difference to see."
        return INCONCLUSIVE, reason + SOURCE_NOTES.get(source, "")
    verdict, reason = _compare(interval.confidence, uplift, bounds)
    if estimator.name == "dm":
        if uses_weights:
            reason += " Its value rests on the reward model alone, its uplift on the weights too: see what 'dr' says."
        else:
            reason += " It rests on the reward model alone: see what 'dr' says."
    elif estimator.name in CUTTING[1:] and lost_weight > MAX_UNSUPPORTED:
        reason += f" {lost_weight:.0%} of the policy's probability is left to the reward model."
    return verdict, reason + SOURCE_NOTES.get(source, "")


def find_complaint(
    estimator: Estimator,
    interval: Interval,
    facts: WeightFacts,
    lost_weight: float,
    bounds: Bounds,
    *,
    uses_weights: bool,
) -> str | None:
    """Return why the log cannot answer, or None if it can."""
    if facts.trained_share > 0.0:
        return (
            f"The policy was trained on {facts.trained_share:.0%} of these samples, where it looks better than it is: "
            "evaluate it on others."
        )
    if facts.unsupported_mass > MAX_UNSUPPORTED:
        return (
            f"{facts.unsupported_mass:.1%} of the policy's choices are actions that were never taken in this log: "
            "nothing is known of what they earn."
        )
    if uses_weights:
        complaint = _weight_complaint(estimator, interval, facts, lost_weight)
        if complaint is not None:
            return complaint
    if not all(math.isfinite(bound) for bound in bounds):
        return "The estimate is not defined on this log: there are too few samples that speak of the policy."
    return None


def _weight_complaint(estimator: Estimator, interval: Interval, facts: WeightFacts, lost_weight: float) -> str | None:
    if facts.max == 0.0:
        return "The policy gives probability zero to every logged action: the log says nothing about it."
    if facts.gap <= SAME_POLICY:
        return None  # of the logging policy nothing has to be inferred
    if is_mean_off(facts.mean, facts.mean_z):
        return (
            f"The mean weight is {facts.mean:.3g} where 1 is expected (z = {facts.mean_z:.1f}): either the "
            "propensities are not those of the logging policy, or the policy takes actions that hardly occur here."
        )
    if interval.is_bound:
        return None  # holds for any number of samples and any weights
    if facts.ess < MIN_ESS:
        return (
            f"To this policy the log is worth {_counted(facts.ess)}, fewer than {MIN_ESS:.0f}: the "
            "interval cannot be relied on."
        )
    if facts.n_groups is not None and facts.n_groups < MIN_GROUPS:
        return (
            f"The log has {facts.n_groups} groups, fewer than {MIN_GROUPS}: how much they differ from each other "
            "cannot be told, and the interval cannot be relied on."
        )
    has_cut = estimator.name in CUTTING and lost_weight > 0.0  # else the weights are as heavy as they came
    complaint = _cut_complaint(estimator, lost_weight) if has_cut else _tail_complaint(facts)
    return _reward_complaint(facts) if complaint is None else complaint


def _crossed_complaint(*intervals: Bounds) -> str | None:
    for lower, upper in intervals:
        if lower > upper:
            return (
                f"The lower bound, {lower:.4g}, is above the upper one, {upper:.4g}: the samples contradict what the "
                "bounds assume, such as propensities that are right."
            )
    return None


def _tail_complaint(facts: WeightFacts) -> str | None:
    is_heavy = facts.tail_index < MIN_TAIL_INDEX and facts.top_share > MAX_TOP_SHARE
    if facts.single_share <= (MAX_HEAVY_SINGLE_SHARE if is_heavy else MAX_SINGLE_SHARE):
        return None
    return (
        f"One sample has {facts.single_share:.0%} of the sum of squared weights, the top 1% carry "
        f"{facts.top_share:.0%} of the value (tail index {facts.tail_index:.1f}): a few samples decide, and the "
        "interval is too narrow."
    )


def _reward_complaint(facts: WeightFacts) -> str | None:
    if facts.rewarded >= MIN_REWARDED:
        return None
    if facts.rewarded == 0.0:
        return "All rewards of the log are the same: it cannot tell policies apart."
    few = f"those that decide come from about {_counted(facts.rewarded)}, fewer than {MIN_REWARDED:.0f}"
    if facts.differing < 0.5 * facts.ess:
        return (
            f"The policy differs from the logging policy in few samples (worth {facts.differing:.0f}); of their "
            f"rewards {few}: the interval cannot be relied on."
        )
    return f"Rewards are rare or very unequal, and {few}: the interval cannot be relied on."


def _cut_complaint(estimator: Estimator, lost_weight: float) -> str | None:
    """Cut weights are tame, but what was cut off is missing from the estimate or left to the reward model."""
    if lost_weight > MAX_LOST_WEIGHT and estimator.name == "clipped_ips":
        return (
            f"Cutting the weights drops {lost_weight:.0%} of the policy's probability: the estimate is biased by about "
            "as much."
        )
    return None


def _compare(confidence: float, uplift: float, bounds: Bounds) -> tuple[str, str]:
    lower, upper = bounds
    if lower == upper == 0.0:
        return INCONCLUSIVE, "No sample shows a difference to the logging policy: it is zero."
    certainty = f"with {100.0 * confidence:.4g}% confidence"
    if lower > 0.0:
        return BETTER, f"It earns {uplift:.4g} more than the logging policy, at least {lower:.4g} {certainty}."
    if upper < 0.0:
        return WORSE, f"It earns {-uplift:.4g} less than the logging policy, at least {-upper:.4g} {certainty}."
    return INCONCLUSIVE, f"The uplift lies between {lower:.4g} and {upper:.4g} {certainty}: it may be either way."


def _counted(number: float) -> str:
    return f"{number:.0f} effective sample{'' if round(number) == 1 else 's'}"
