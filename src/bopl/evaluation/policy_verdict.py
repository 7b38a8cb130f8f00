"""What decides: of all that was estimated of a policy, one verdict with one reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bopl.evaluation.interval import Bounds
from bopl.evaluation.question import Guard
from bopl.evaluation.row import Comparison, Estimate, GuardResult, PolicyVerdict
from bopl.evaluation.verdict import BETTER, INCONCLUSIVE, NOT_TRUSTWORTHY, WORSE

KEPT, BROKEN, UNDECIDED = "kept", "broken", "undecided"


def guard_state(
    guard: Guard, base: float, change: float, bounds: Bounds, strict: Bounds, complaint: str | None, certainty: str
) -> tuple[str, str, float]:
    """Return whether a guard is kept, a sentence about it, and the change that it allows.

    Parameters
    ----------
    base : float
        What is earned of the guarded reward now.
    bounds, strict : (float, float)
        Interval of the change, and the one at the level at which all guards together are held to be broken.
    complaint : str or None
        Why the log cannot say.
    certainty : str
        Confidence of the interval, in words.
    """
    limit, sign = guard.margin.absolute(base), guard.sign
    shown = [change_text(one, base) for one in bounds]
    between = f"{guard.reward} changes by between {shown[0]} and {shown[1]} {certainty}"
    if complaint is not None:
        return UNDECIDED, f"The log cannot say whether the guard {guard} is kept. {complaint}", limit
    if min(sign * one for one in bounds) >= sign * limit:
        return KEPT, f"The guard {guard} is kept: {between}.", limit
    if max(sign * one for one in strict) < sign * limit:
        return BROKEN, f"The guard {guard} is broken: {between}.", limit
    return UNDECIDED, f"Whether the guard {guard} is kept cannot be told: {between}.", limit


def change_text(change: float, base: float) -> str:
    """Return a change in per cent of what is earned now, or as it is where that is not positive."""
    return f"{100.0 * change / base:+.3g}%" if base > 0.0 else f"{change:+.4g}"


def decide(estimate: Estimate, comparison: Comparison | None, guards: Sequence[GuardResult]) -> PolicyVerdict:
    """Return the verdict on a policy: better on the main reward, and not worse on any that is guarded.

    Each guard is tested at the level of the verdict itself. All of them have to be kept, so that the probability of
    calling a policy better although one is broken is at most that of one test, however many there are (Berger, 1982).

    Parameters
    ----------
    estimate : Estimate
        By the policy's primary estimator.
    comparison : Comparison or None
        With the policy that runs now, if that is not the logging policy.
    guards : sequence of GuardResult
        Those of the policy.
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
