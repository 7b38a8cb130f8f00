"""The verdict: better, worse, inconclusive, or that this log cannot say; always with a reason in a plain sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bopl._trust import (
    MAX_HEAVY_SINGLE_SHARE,
    MAX_LOST_WEIGHT,
    MAX_MODEL_SHARE,
    MAX_SINGLE_SHARE,
    MAX_TOP_SHARE,
    MAX_UNSUPPORTED,
    MIN_EQUAL_GROUPS,
    MIN_ESS,
    MIN_GROUPS,
    MIN_REWARDED,
    MIN_TAIL_INDEX,
    SAME_POLICY,
    is_mean_off,
    min_rewarded,
    min_rewarded_groups,
)
from bopl._weight import mean_weight_gap
from bopl.evaluation.diagnosis import WeightFacts
from bopl.evaluation.estimator import Estimator, Need
from bopl.evaluation.interval import Bounds, Evidence, Interval, stretched
from bopl.evaluation.row import Comparison, Estimate, GuardResult, PolicyVerdict
from bopl.log.weight_audit import z_text

BETTER, WORSE, INCONCLUSIVE, NOT_TRUSTWORTHY = "better", "worse", "inconclusive", "not trustworthy"
DECIDED = (BETTER, WORSE)
KEPT, BROKEN, UNDECIDED = "kept", "broken", "undecided"  # of a guard
MENTIONED = 1e-3  # share of a policy's choices that were never taken: below, what they may earn is not worth a sentence
NEGLIGIBLE = 1e-3  # of what the logging policy earns: a difference that hardly anybody would act on
LOGGING = "the logging policy"
SOURCE_NOTES = {
    "estimated": " It rests on estimated propensities: wrong if the logging policy looked at more than the context.",
    "balanced": " It takes contexts and rewards to be alike under all logging policies.",
    "uniform": " The propensities are taken to be uniform because the caller said so.",
}
MISMATCHED = (
    "The logging policies earned different rewards with the same actions: contexts or rewards changed from one to the "
    "other, or one was trained on rows of the other, and the propensities of their mixture are wrong. Take those with "
    "which each sample was logged."
)
FEW_GROUPS = "too few to tell how much groups differ, so the interval cannot be relied on."
MODEL_ALONE = (
    "This is the opinion of a reward model: nothing checks it against what the policy's choices earned, and its error "
    "shows in no interval. Add 'dr', which corrects the model by the logged rewards, or 'snips', which needs none."
)


@dataclass(frozen=True)
class Goal:
    """What a difference is held against."""

    min_uplift: float = 0.0  # smallest difference of interest: `better` takes more than this
    share: float = 0.0  # that, where it was given as a share of `base`
    base: float = float("nan")  # what the policy compared with earns, to say how large a difference is
    other: str = LOGGING  # how messages call that policy
    certainty: str = "with 95% confidence"  # confidence of the interval, in words
    samples: str = "log"  # how messages call the samples: a part of the log may lack what the rest of it has


class Allowance(NamedTuple):
    """By how much a difference may be lower, and higher, than an estimate says that does not see all of a policy."""

    below: float = 0.0
    above: float = 0.0

    def around(self, bounds: Bounds) -> Bounds:
        """Return an interval with what is allowed for at its ends."""
        return bounds[0] - self.below, bounds[1] + self.above


@dataclass(frozen=True)
class Case:
    """All that a verdict on one policy under one estimator looks at."""

    evidence: Evidence
    interval: Interval  # interval of the uplift
    facts: WeightFacts
    lost_weight: float  # share of the weights that the estimator clipped off
    allowance: Allowance  # what that share, and actions that were never taken, may be worth
    uplift: float
    # Intervals of the value and of the uplift.
    value_bounds: Bounds
    bounds: Bounds
    source: str  # where the propensities come from
    # Whether the logging policy's probabilities of all actions were known; else even a reward model's uplift is taken
    # from weights (`Terms.modelled_uplift`).
    knows_logging_policy: bool
    goal: Goal

    @property
    def estimator(self) -> Estimator:
        """What the estimate comes from."""
        return self.evidence.estimator

    @property
    def judged(self) -> Bounds:
        """The interval that the verdict rests on, with what it allows for.

        The lower end also allows for the noise of what is earned now, if the smallest uplift of interest is a share.
        """
        lower, _ = stretched(self.bounds, self.uplift, self.evidence.share_factor(self.goal.share))
        return self.allowance.around((lower, self.bounds[1]))

    @property
    def uses_weights(self) -> bool:
        """Whether the difference rests on weights."""
        return Need.PROPENSITY in self.estimator.needs or not self.knows_logging_policy


def judge(case: Case) -> tuple[str, str]:
    """Return the verdict on one policy under one estimator, and the reason."""
    complaint = find_complaint(case) or _crossed_complaint(case.value_bounds, case.bounds)
    note = SOURCE_NOTES.get(case.source, "")
    if complaint is not None:
        return NOT_TRUSTWORTHY, complaint + note
    if case.facts.gap <= SAME_POLICY:
        reason = "The policy is the logging policy on this log, but for rounding: there is no difference to see."
        return INCONCLUSIVE, reason + note
    verdict, reason = compare_bounds(case.uplift, case.judged, case.goal)
    return verdict, reason + _allowance_sentence(case) + note


def _allowance_sentence(case: Case) -> str:
    """Return what the verdict allows for, as a sentence; empty if for hardly anything."""
    hidden = []
    if case.lost_weight > MAX_UNSUPPORTED:
        left = "is left to the reward model" if case.estimator.needs_model else "is clipped off"
        hidden.append(f"{case.lost_weight:.0%} of the policy's probability {left}")
    if case.facts.unsupported_mass > MENTIONED:
        hidden.append(f"{case.facts.unsupported_mass:.1%} of the policy's choices are actions that were never taken")
    missing = case.facts.missing_from(case.estimator)
    if missing > MENTIONED:
        hidden.append(f"{missing:.1%} of the policy's choices are missing, as rare large weights are by chance")
    if not hidden:
        return ""
    return f" {' and '.join(hidden)}; the verdict allows {max(case.allowance):.2g} for it."


def find_complaint(case: Case, *, is_paired: bool = False) -> str | None:
    """Return why the log cannot answer, or None if it can: what is wrong with the log itself first, then with its size.

    A cause stands before what follows from it: rows that the policy was trained on spoil any number, wrong propensities
    any weight, and few effective samples are often no more than the trace of actions that were hardly ever taken.

    ``is_paired``: the policy is compared with another one, so that few samples that tell it from the logging policy are
    no complaint.
    """
    facts, samples = case.facts, case.goal.samples
    if facts.trained_share > 0.0:
        return (
            f"The policy was trained on {facts.trained_share:.0%} of these samples, where it looks better than it is: "
            "evaluate it on others."
        )
    if facts.reward_share == 0.0 and facts.gap > SAME_POLICY:
        return f"All rewards of the {samples} are the same: it cannot tell policies apart."
    if facts.unsupported_mass > MAX_UNSUPPORTED:
        return (
            f"{facts.unsupported_mass:.1%} of the policy's choices are actions that were never taken in this "
            f"{samples}: nothing is known of what they earn."
        )
    if not case.estimator.can_decide:
        return MODEL_ALONE
    if case.uses_weights:
        complaint = _weight_complaint(case, is_paired) or _size_complaint(case, is_paired)
        if complaint is not None:
            return complaint
    if not all(math.isfinite(bound) for bound in case.bounds):
        return "The estimate is not defined on this log: too few samples match the policy."
    return None


def _weight_complaint(case: Case, is_paired: bool) -> str | None:
    """Return what is wrong with the weights, whatever is estimated from them."""
    facts, is_bound, samples = case.facts, case.interval.is_bound, case.goal.samples
    if facts.max == 0.0:
        return f"The policy gives probability zero to every logged action: the {samples} says nothing about it."
    if facts.gap <= SAME_POLICY:
        return None  # of the logging policy nothing has to be inferred
    if not is_bound and facts.n_groups is not None and facts.n_groups < MIN_GROUPS:
        # Before the mean weight: its standard error comes from the groups.
        return f"The {samples} has {facts.n_groups} groups, fewer than {MIN_GROUPS}: {FEW_GROUPS}"
    if case.source == "mismatched":
        return MISMATCHED
    lopsided = None if is_bound or is_paired else lopsided_groups(facts.differing_groups)
    if lopsided is not None:
        return lopsided
    if is_mean_off(facts.mean, facts.mean_z):
        return _mean_complaint(facts)
    if is_bound or facts.ess >= MIN_ESS:
        return None
    return (
        f"To this policy the {samples} is worth {_counted(facts.ess)}, fewer than {MIN_ESS:.0f}: the interval "
        f"cannot be relied on. {_few_because(facts, samples)}"
    )


def lopsided_groups(n_groups: float | None) -> str | None:
    """Return the complaint that a few groups decide, given how many there are in effect, or None if enough do."""
    if n_groups is None or n_groups >= MIN_EQUAL_GROUPS:
        return None
    return (
        f"A few large groups decide: those that tell the two policies apart are worth {n_groups:.0f} of equal size, "
        f"fewer than {MIN_EQUAL_GROUPS:.0f}: {FEW_GROUPS}"
    )


def _mean_complaint(facts: WeightFacts) -> str:
    """Tell propensities that are wrong for every policy from weights that are off for this one alone."""
    expected = facts.mean - mean_weight_gap(facts.mean, facts.unsupported_mass)
    found = f"The mean weight is {facts.mean:.3g} where {expected:.3g} is expected ({z_text(facts.mean_z)}): "
    if is_mean_off(facts.uniform_mean, facts.uniform_z):
        return (
            f"{found}the propensities are not those of the logging policy. They imply {facts.uniform_mean:.3g} "
            f"times as many actions as the log has ({z_text(facts.uniform_z)}), whatever the policy."
        )
    return (
        f"{found}either the propensities are not those of the logging policy, or the policy takes actions that hardly "
        "occur here, or a context column knows the action that was taken."
    )


def _few_because(facts: WeightFacts, samples: str) -> str:
    if facts.n_samples < 2.0 * MIN_ESS:
        return f"The {samples} has only {facts.n_samples:,} samples: collect more."
    return (
        f"Of {facts.n_samples:,} samples few are like what the policy would do: the largest weight is {facts.max:.3g}. "
        "A policy nearer to the logging policy can be judged, or a log that explores more."
    )


def _size_complaint(case: Case, is_paired: bool) -> str | None:
    """Return why there are too few samples for an interval that holds for many."""
    facts = case.facts
    if case.interval.is_bound or facts.gap <= SAME_POLICY:
        return None  # holds for any number of samples and any weights
    # Where nothing was clipped the weights are as heavy as they came.
    complaint = _clip_complaint(case) if case.lost_weight > 0.0 else _tail_complaint(facts)
    return complaint if is_paired or complaint is not None else _reward_complaint(case)


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


def _reward_complaint(case: Case) -> str | None:
    facts = case.facts
    rewarded, n_groups = facts.rewarded_under(case.estimator)
    few = few_rewards(rewarded, case.interval)
    if few is None:
        return few_rewarded_groups(n_groups, case.interval)
    if facts.differing < 0.5 * facts.ess:
        return (
            f"The policy differs from the logging policy in few samples (worth {facts.differing:.0f}); of their "
            f"rewards {few}: the interval cannot be relied on."
        )
    is_local = rewarded < 0.5 * facts.reward_share * min(facts.ess, facts.differing)
    where = "Where the policy differs from the logging policy, rewards" if is_local else "Rewards"
    return f"{where} are rare or very unequal, and {few}: the interval cannot be relied on."


def few_rewarded_groups(n_groups: float | None, interval: Interval) -> str | None:
    """Return the complaint that the rewards of a few groups decide, or None if those of enough do."""
    least = min_rewarded_groups(interval.delta)
    if n_groups is None or n_groups >= least:
        return None
    worth = f"{n_groups:.0f} of equal size, fewer than {least:.0f}"
    return f"Few groups have the rewards that decide. They are worth {worth}: {FEW_GROUPS}"


def few_rewards(rewarded: float, interval: Interval) -> str | None:
    """Return the clause that too few rewards decide, or None if there are enough for an interval."""
    least = min_rewarded(interval.delta)
    if rewarded >= least:
        return None
    told = f"{least:.0f}"
    if least > MIN_REWARDED:
        told = f"the {told} that a level of {100.0 * interval.confidence:.6g}% takes"
    return f"those that decide come from about {_counted(rewarded)}, fewer than {told}"


def _clip_complaint(case: Case) -> str | None:
    """Clipped weights are tame, but what was clipped off is missing from the estimate or left to the reward model."""
    if case.estimator.needs_model:
        if case.lost_weight > MAX_MODEL_SHARE:
            return f"{case.lost_weight:.0%} of the policy's probability is left to the reward model. {MODEL_ALONE}"
    elif case.lost_weight > MAX_LOST_WEIGHT:
        return (
            f"Clipping the weights drops {case.lost_weight:.0%} of the policy's probability: the estimate is biased by "
            "about as much."
        )
    return None


def compare_bounds(uplift: float, bounds: Bounds, goal: Goal) -> tuple[str, str]:
    """Return the verdict on a difference by its interval, and the reason."""
    (lower, upper), least = bounds, goal.min_uplift
    if lower == upper == 0.0:
        return INCONCLUSIVE, f"No sample shows a difference from {goal.other}: it is zero."
    between = f"The uplift lies between {lower:.4g} and {upper:.4g} {goal.certainty}"
    if least > 0.0 and -least <= lower and upper <= least:
        return INCONCLUSIVE, (
            f"{between}, within ±{least:.4g}, the smallest difference of interest: the two are as good as equal."
        )
    if lower > least:
        return BETTER, _size_sentence("more", uplift, lower, goal)
    if upper < 0.0:
        return WORSE, _size_sentence("less", -uplift, -upper, goal)
    if lower > 0.0:
        return INCONCLUSIVE, f"{between}: more than {goal.other}, but perhaps by less than the {least:.4g} asked for."
    return INCONCLUSIVE, f"{between}: it could be better or worse."


def _size_sentence(word: str, size: float, least: float, goal: Goal) -> str:
    """Say how large a difference is; of one that hardly matters say so before its digits."""
    if size < NEGLIGIBLE * abs(goal.base):
        share = f"{100.0 * size / abs(goal.base):.2g}%"
        return (
            f"The difference from {goal.other} is real but tiny: {share} {word} ({size:.4g}, "
            f"at least {least:.4g} {goal.certainty}). Set min_uplift to the smallest uplift that matters."
        )
    is_asked = word == "more" and goal.min_uplift > 0.0
    asked = f", which is more than the {goal.min_uplift:.4g} asked for" if is_asked else ""
    return f"It earns {size:.4g} {word} than {goal.other}, at least {least:.4g} {goal.certainty}{asked}."


def _counted(number: float) -> str:
    return f"{number:.0f} effective sample{'' if round(number) == 1 else 's'}"


# -- The verdict on a policy ------------------------------------------------------------------------------------------


def decide(estimate: Estimate, comparison: Comparison | None, guards: Sequence[GuardResult]) -> PolicyVerdict:
    """Return the verdict on a policy: better on the main reward, and not worse on any that is guarded.

    Each guard is tested at the level of the verdict itself. All of them have to be kept, so that the probability of
    calling a policy better although one is broken is at most that of one test, however many there are (Berger, 1982).
    ``estimate`` is by the policy's primary estimator, ``comparison`` with the policy that runs now, if that is not the
    logging policy.
    """
    found: Estimate | Comparison = estimate if comparison is None else comparison
    verdict, reason = found.verdict, found.reason
    broken = [one.reason for one in guards if one.state == BROKEN]
    undecided = [one.reason for one in guards if one.state == UNDECIDED]
    if verdict == NOT_TRUSTWORTHY or (verdict == WORSE and not broken):
        pass
    elif broken:
        verdict, reason = WORSE, " ".join([*broken, f"On the main reward: {reason}"])
    elif undecided:
        verdict, reason = INCONCLUSIVE, " ".join([*undecided, f"On the main reward: {reason}"])
    elif guards and verdict == BETTER:
        count = "The guard is" if len(guards) == 1 else f"All {len(guards)} guards are"
        reason += f" {count} kept: {', '.join(one.guard for one in guards)}."
    return PolicyVerdict(
        policy=estimate.policy,
        against=None if comparison is None else comparison.other,
        estimator=estimate.estimator,
        verdict=verdict,
        reason=reason,
    )


def overall_verdict(verdicts: Iterable[str]) -> str:
    """Return one verdict for several policies, by which a command exits.

    Better only if all are, worse if one of them is, and inconclusive otherwise.
    """
    found = set(verdicts)
    if found == {BETTER}:
        return BETTER
    return WORSE if WORSE in found else INCONCLUSIVE
