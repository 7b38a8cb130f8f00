"""The audit of a log: can its propensities be right, and can it answer for a policy? One plain sentence per finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log.column_audit import audit_columns
from bopl.log.context import quoted
from bopl.log.duplicate import audit_duplicates
from bopl.log.finding import NOTE, OK, PROBLEM, Audit, Finding
from bopl.log.leak import Leak, find_leaks
from bopl.log.leak.record import ACTION
from bopl.log.leak.view import column_views
from bopl.log.policy_prob import PolicyReader, read_policy, row_blocks
from bopl.log.weight import (
    MAX_SINGLE_SHARE,
    MAX_TOP_SHARE,
    MAX_UNSUPPORTED,
    MIN_ESS,
    MIN_REWARDED,
    MIN_TAIL_INDEX,
    TOP_SHARE,
    effective_sample_size,
    is_mean_off,
    largest_share,
    mean_std_err,
    mean_weight_z,
    rewarded_sample_size,
    tail_index,
    top_share,
    without_skewness,
)

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

FEW_SAMPLES = 20  # an action taken less often is hardly logged
SMALL_PROPENSITY = 1e-3
MAX_ROUNDING = 0.05  # relative error of the smallest propensity that rounding may have made
MAX_DECIMALS = 6
MATCH_TOLERANCE = 1e-3
MAX_ACTION_Z = 3.5  # of an action's sum of 1/p, without its skewness; if normal, 4 in 10,000 sound logs exceed it
MOST_Z = 1000.0  # larger ones are told as larger: their digits say nothing
MAX_ESTIMATED_GAP = 0.1  # of a mean weight under estimated propensities: smaller ones are errors of estimation
MAX_ESTIMATED_ACTION_GAP = 0.25  # of an action's sum of 1/p under them
ESTIMATED_HINT = (
    "the model of the logging policy misses something. Add the columns that it looked at, say which actions were "
    "eligible, leave out actions that it took by rule, or log the propensities"
)


def audit_log(
    log: BanditLog,
    policy: object | None,
    logging_policy: object | None,
    keep: Sequence[str | int] = (),
    seen: BanditLog | None = None,
) -> Audit:
    """Run all checks; see `BanditLog.audit`.

    ``seen`` is the log, or a part of it, whose contexts are looked at, where those of ``log`` are not in memory.
    """
    seen = log if seen is None else seen
    leaks = find_leaks(seen)
    findings = [
        *([] if log.origin is None else log.origin.findings()),
        audit_duplicates(_without_told_actions(seen, leaks)),
        _never_logged(log),
        _hardly_logged(log),
        *audit_columns(seen.schema, leaks, keep),
    ]
    if not log.has_propensity:
        findings.insert(
            0,
            Finding(
                "propensity",
                PROBLEM,
                float("nan"),
                "The log has no propensities: estimates need them, logged, estimated or declared uniform.",
            ),
        )
        return Audit(tuple(findings), log.n_samples, leaks)
    findings = propensity_findings(log) + findings
    if logging_policy is not None:
        findings.append(_logging_policy_match(log, read_policy(logging_policy, log, "logging_policy")))
    return Audit((*findings, *_weight_findings(log, policy)), log.n_samples, leaks)


def _without_told_actions(log: BanditLog, leaks: Sequence[Leak]) -> BanditLog:
    """Return a log without the columns that give the action away: samples that agree in them are no copies for that."""
    told = [leak.column for leak in leaks if leak.knows == ACTION]
    return log.without_columns(told) if 0 < len(told) < len(column_views(log)) else log


# -- Propensities -------------------------------------------------------------------------------------------------


def propensity_findings(log: BanditLog) -> list[Finding]:
    """Return what the checks of the propensities say; none of them looks at the context."""
    checks: list[Callable[[BanditLog], Finding]] = [
        _propensity_range,
        _rounding,
        _uniform_mean_weight,
        _frequency_mean_weight,
        _inverse_propensity_by_action,
    ]
    return [check(log) for check in checks]


def _propensity_range(log: BanditLog) -> Finding:
    least, most = float(log.propensity.min()), float(log.propensity.max())
    n_sure, n_small = int((log.propensity == 1.0).sum()), int((log.propensity < SMALL_PROPENSITY).sum())
    text = f"Propensities lie between {least:.3g} and {most:.3g}"
    if n_sure == log.n_samples:
        return Finding(
            "propensity_range",
            PROBLEM,
            least,
            "All propensities are 1: the logging policy never explored, and the log says nothing of other actions.",
        )
    if n_sure + n_small > 0:
        text += f"; {n_sure} are 1 (no exploration there) and {n_small} below {SMALL_PROPENSITY:g} (heavy weights)"
        return Finding("propensity_range", NOTE, least, text + ".")
    return Finding("propensity_range", OK, least, text + ".")


def _rounding(log: BanditLog) -> Finding:
    """Decimals after which all propensities end, and what cutting them off may have done to the smallest."""
    decimals = next((d for d in range(1, MAX_DECIMALS + 1) if _ends_after(log.propensity, d)), None)
    if decimals is None:
        return Finding("rounding", OK, float("nan"), f"Propensities have more than {MAX_DECIMALS} decimals.")
    error = 0.5 * 10.0**-decimals / float(log.propensity.min())
    text = f"All propensities end after {decimals} decimal(s)"
    if error > MAX_ROUNDING and len(np.unique(log.propensity)) > 10:
        return Finding(
            "rounding",
            PROBLEM,
            error,
            f"{text}: if they were rounded, the smallest is off by up to {error:.0%}, and so are its weights.",
        )
    return Finding("rounding", OK, error, f"{text}; as exact values that is fine.")


def _ends_after(values: FloatArray, decimals: int) -> bool:
    scaled = values * 10.0**decimals
    return bool(np.all(np.abs(scaled - np.round(scaled)) <= 1e-9 * scaled))


def _z_finding(log: BanditLog, check: str, weight: FloatArray, group: IntArray | None, what: str, hint: str) -> Finding:
    mean = float(weight.mean())
    z = mean_weight_z(mean, mean_std_err(weight, group))
    text = f"The mean weight of {what} is {mean:.4g} where 1 is expected ({_z_text(z)})"
    is_off = is_mean_off(mean, z) and not (log.has_estimates and abs(mean - 1.0) <= MAX_ESTIMATED_GAP)
    return _judged(check, z, text, PROBLEM if is_off else OK, ESTIMATED_HINT if log.has_estimates else hint)


def _z_text(z: float) -> str:
    return f"z = {z:.1f}" if abs(z) < MOST_Z else f"z {'>' if z > 0.0 else '<'} {np.copysign(MOST_Z, z):.0f}"


def _uniform_mean_weight(log: BanditLog) -> Finding:
    return _z_finding(
        log,
        "mean_weight_uniform",
        _uniform_weight(log),
        log.group,
        "the uniform policy",
        "propensities are wrong, or some actions had no chance in some contexts",
    )


def _uniform_weight(log: BanditLog) -> FloatArray:
    n_eligible = log.n_actions if log.action_mask is None else log.action_mask.sum(axis=1)
    return 1.0 / (n_eligible * log.propensity)


def _frequency_mean_weight(log: BanditLog) -> Finding:
    """The logging policy without its context: the share of each action, an estimate of it that needs no model.

    The shares are counted in one half of the samples (or groups) and tried on the other: on their own samples, those
    of the actions that happened to come often are too large, and so would be the mean weight.
    """
    unit = np.arange(log.n_samples) if log.group is None else np.unique(log.group, return_inverse=True)[1]
    tried = np.flatnonzero(unit % 2 == 0)
    count = np.bincount(log.action_idx[unit % 2 == 1], minlength=log.n_actions)
    share = (count + 1.0 / log.n_actions) / (count.sum() + 1.0)  # no action is taken for impossible
    eligible = 1.0 if log.action_mask is None else log.action_mask[tried] @ share  # what could be chosen at all
    return _z_finding(
        log,
        "mean_weight_logging",
        share[log.action_idx[tried]] / eligible / log.propensity[tried],
        None if log.group is None else log.group[tried],
        "the logging policy's action frequencies",
        "the propensities are not those with which these actions were drawn",
    )


def _inverse_propensity_by_action(log: BanditLog) -> Finding:
    """For each logged action, ``sum 1/p`` over its samples estimates how many samples could have taken it: n."""
    inverse = 1.0 / log.propensity
    total = np.bincount(log.action_idx, weights=inverse, minlength=log.n_actions)
    expected = np.full(log.n_actions, float(log.n_samples)) if log.action_mask is None else log.action_mask.sum(axis=0)
    count, variance, third = _sums_by_action(log, inverse, total / log.n_samples)
    often, z = count >= FEW_SAMPLES, np.zeros(log.n_actions)
    std_err = np.sqrt(np.maximum(variance, 1e-18 * total**2))[often]  # rounding alone is no spread
    # Few and very unequal 1/p miss their sum more often than they overshoot it, and look sure of themselves then.
    z[often] = without_skewness((total - expected)[often] / std_err, third[often] / std_err**3)
    # The more actions, the larger the largest z of a log that is right.
    is_off = np.abs(z) > np.sqrt(MAX_ACTION_Z**2 + 2.0 * np.log(log.n_actions))
    if log.has_estimates:
        is_off &= np.abs(total - expected) > MAX_ESTIMATED_ACTION_GAP * expected
    worst = int(np.where(is_off | ~is_off.any(), np.abs(z), 0.0).argmax())
    name = log.actions[worst].item() if isinstance(log.actions[worst], np.generic) else log.actions[worst]
    text = (
        f"The sum of 1/p over samples with action {name!r} is {total[worst] / max(expected[worst], 1):.3g} times the "
        f"{expected[worst]:.0f} expected"
    )
    if is_off.any():
        hint = (
            ESTIMATED_HINT if log.has_estimates else "its propensities are wrong, or it had no chance in some contexts"
        )
        return Finding(
            "sum_inverse_propensity",
            PROBLEM,
            float(z[worst]),
            f"{text} ({_z_text(z[worst])}; {int(is_off.sum())} of {log.n_actions} actions are off): {hint}.",
        )
    return Finding(
        "sum_inverse_propensity", OK, float(z[worst]), f"{text} ({_z_text(z[worst])}), the largest deviation."
    )


def _sums_by_action(log: BanditLog, inverse: FloatArray, mean: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return for each action how many samples (or groups) took it, and the second and third moment of its sum of 1/p.

    These are ``sum_c (S_c - n_c · mean)^k`` over the groups, ``S_c`` being the sum in a group of ``n_c`` samples.
    """
    group = np.arange(log.n_samples) if log.group is None else log.group
    size = np.bincount(group).astype(np.float64)
    pair, own = np.unique(group * log.n_actions + log.action_idx, return_inverse=True)
    action_idx, total = pair % log.n_actions, np.bincount(own, weights=inverse)
    own_size = size[pair // log.n_actions]

    def sum_of(part: AnyArray) -> AnyArray:
        return np.bincount(action_idx, weights=part, minlength=log.n_actions)

    # Groups that did not take the action are in the last terms alone.
    second = sum_of(total**2) - 2.0 * mean * sum_of(total * own_size) + mean**2 * float((size**2).sum())
    third = sum_of(total**3) - 3.0 * mean * sum_of(total**2 * own_size)
    third += 3.0 * mean**2 * sum_of(total * own_size**2) - mean**3 * float((size**3).sum())
    return np.bincount(action_idx, minlength=log.n_actions), second, third


def _logging_policy_match(log: BanditLog, reader: PolicyReader) -> Finding:
    n_off = 0
    for rows in row_blocks(log.n_samples, log.n_actions):
        propensity = log.propensity[rows]
        n_off += int((np.abs(reader.block(rows).logged_prob - propensity) > MATCH_TOLERANCE * propensity).sum())
    if n_off:
        return Finding(
            "logging_policy",
            PROBLEM,
            n_off / log.n_samples,
            f"The logging policy gives {n_off} of {log.n_samples} logged actions another probability than the log: it "
            "is not what wrote this log, or its propensities were changed.",
        )
    return Finding("logging_policy", OK, 0.0, "The logging policy gives every logged action its propensity.")


# -- Rows and actions ---------------------------------------------------------------------------------------------


def _never_logged(log: BanditLog) -> Finding:
    count = np.bincount(log.action_idx, minlength=log.n_actions)
    never = log.actions[count == 0].tolist()
    if never:
        return Finding(
            "never_logged",
            NOTE,
            float(len(never)),
            f"{len(never)} of {log.n_actions} actions were never taken: {quoted(never)}. Nothing is known of them.",
        )
    return Finding("never_logged", OK, 0.0, f"All {log.n_actions} actions were taken.")


def _hardly_logged(log: BanditLog) -> Finding:
    count = np.bincount(log.action_idx, minlength=log.n_actions)
    few = log.actions[(count > 0) & (count < FEW_SAMPLES)].tolist()
    if few:
        return Finding(
            "hardly_logged",
            NOTE,
            float(len(few)),
            f"{len(few)} of {log.n_actions} actions were taken fewer than {FEW_SAMPLES} times: {quoted(few)}.",
        )
    return Finding("hardly_logged", OK, 0.0, f"Every action that was taken was taken at least {FEW_SAMPLES} times.")


# -- Weights of a policy ------------------------------------------------------------------------------------------


def _weight_findings(log: BanditLog, policy: object | None) -> list[Finding]:
    if policy is None:
        # Few rewards are no fault of a log of which nothing has been asked yet.
        return _weight_facts(_uniform_weight(log), log.reward, "the uniform policy", few_rewards=NOTE)
    weight, unsupported = _policy_weight(log, read_policy(policy, log))
    findings = [] if np.isnan(unsupported) else [support_finding(unsupported)]
    findings.append(
        _z_finding(
            log,
            "mean_weight_policy",
            weight,
            log.group,
            "the policy",
            "the propensities do not fit, or the policy takes actions that hardly occur here",
        )
    )
    return findings + _weight_facts(weight, log.reward, "the policy")


def _policy_weight(log: BanditLog, reader: PolicyReader) -> tuple[FloatArray, float]:
    """Return a policy's weights and the share of its probability on actions that were never taken or possible."""
    weight = np.empty(log.n_samples)
    never = np.bincount(log.action_idx, minlength=log.n_actions) == 0
    mass = 0.0
    for rows in row_blocks(log.n_samples, log.n_actions if reader.has_all_actions else 1):
        block = reader.block(rows)
        weight[rows] = block.logged_prob / log.propensity[rows]
        if block.action_prob is None:
            mass = float("nan")
        else:
            outside = never if log.action_mask is None else never | ~log.action_mask[rows]
            mass += float(np.where(outside, block.action_prob, 0.0).sum())
    return weight, mass / log.n_samples


def support_finding(unsupported: float) -> Finding:
    """Return what is said of the share of a policy's probability on actions that the log cannot answer for."""
    return _judged(
        "policy_support",
        unsupported,
        f"{unsupported:.2%} of the policy's choices are actions that were never taken or not eligible",
        PROBLEM if unsupported > MAX_UNSUPPORTED else OK,
        "what they earn cannot be known from this log",
    )


def _weight_facts(weight: FloatArray, reward: FloatArray, what: str, *, few_rewards: str = PROBLEM) -> list[Finding]:
    ess, tail = effective_sample_size(weight), tail_index(weight, len(weight))
    single = largest_share(weight)
    contribution = weight * np.abs(reward)
    share = top_share(weight, contribution, len(weight), float(contribution.sum()))
    return [
        _judged(
            "effective_sample_size",
            ess,
            f"To {what} the log is worth {ess:,.0f} of its {len(weight):,} samples",
            PROBLEM if ess < MIN_ESS else OK,
            f"fewer than {MIN_ESS:.0f} decide nothing",
        ),
        _rewarded(weight, reward, what, few_rewards),
        _judged(
            "tail_index",
            tail,
            f"The weights of {what} have a tail index of {tail:.2g}",
            NOTE if tail < MIN_TAIL_INDEX else OK,
            "below 2 their variance may be infinite, and normal intervals too narrow",
        ),
        _judged(
            "top_weight_share",
            share,
            f"The top {TOP_SHARE:.0%} of the weights of {what} carry {share:.0%} of the value",
            NOTE if share > MAX_TOP_SHARE else OK,
            "much depends on few samples",
        ),
        _judged(
            "largest_weight",
            float(weight.max()),
            f"The largest weight of {what} is {weight.max():.4g}, with {single:.1%} of the sum of squared weights",
            PROBLEM if single > MAX_SINGLE_SHARE else OK,
            "a few samples decide",
        ),
    ]


def _rewarded(weight: FloatArray, reward: FloatArray, what: str, few_rewards: str) -> Finding:
    if reward.min() == reward.max():  # a fault of the log, whatever is asked of it
        text = f"All {len(reward):,} rewards are {reward[0]:g}: there is nothing to tell actions apart by."
        return Finding("rewarded_samples", PROBLEM, 0.0, text)
    rewarded = rewarded_sample_size(weight, reward)
    return _judged(
        "rewarded_samples",
        rewarded,
        f"About {rewarded:,.0f} effective samples have a reward that decides for {what}",
        few_rewards if rewarded < MIN_REWARDED else OK,
        f"fewer than {MIN_REWARDED:.0f} are too few for an interval",
    )


def _judged(check: str, value: float, text: str, status: str, consequence: str) -> Finding:
    """Return a finding; what follows from it is said if it is not ok."""
    return Finding(check, status, value, f"{text}." if status == OK else f"{text}: {consequence}.")
