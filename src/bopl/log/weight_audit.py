"""What an audit says of importance weights: their mean, their effective sample size and their tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bopl._policy_reader import PolicyReader, read_policy, row_blocks
from bopl._trust import (
    MAX_SINGLE_SHARE,
    MAX_TOP_SHARE,
    MAX_UNSUPPORTED,
    MIN_ESS,
    MIN_REWARDED,
    MIN_TAIL_INDEX,
    is_mean_off,
)
from bopl._typing import FloatArray, IntArray
from bopl._weight import (
    TOP_SHARE,
    effective_sample_size,
    largest_share,
    mean_skewness,
    mean_std_err,
    mean_weight_gap,
    mean_weight_z,
    rewarded_sample_size,
    tail_index,
    top_share,
)
from bopl.log.finding import NOTE, OK, PROBLEM, Finding, judged
from bopl.log.learnable import MAX_REWARD

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_Z = 1000.0  # larger ones are reported as larger: their digits mean nothing
MAX_ESTIMATED_GAP = 0.1  # of a mean weight under estimated propensities: smaller ones are errors of estimation
ESTIMATED_HINT = (
    "the model of the logging policy misses something. Add the columns that it used, say which actions were "
    "eligible, drop actions that it took by rule, or log the propensities"
)


def weight_findings(log: BanditLog, policy: object | None) -> list[Finding]:
    """Return what the checks of a policy's weights say; of the uniform policy's, where there is no other."""
    if policy is None:
        # Few rewards are no fault of a log of which nothing has been asked yet.
        return _weight_facts(uniform_weight(log), log.reward, "the uniform policy", few_rewards=NOTE)
    weight, unsupported = _policy_weight(log, read_policy(policy, log))
    findings = [] if np.isnan(unsupported) else [support_finding(unsupported)]
    findings.append(
        mean_weight_finding(
            log,
            "mean_weight_policy",
            weight,
            log.group,
            "the policy",
            "the propensities are wrong, or the policy takes actions that hardly occur here",
            unsupported,
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
    return judged(
        "policy_support",
        unsupported,
        f"{unsupported:.2%} of the policy's choices are actions that were never taken or not eligible",
        PROBLEM if unsupported > MAX_UNSUPPORTED else OK,
        "what they earn cannot be known from this log",
    )


def _weight_facts(weight: FloatArray, reward: FloatArray, what: str, *, few_rewards: str = PROBLEM) -> list[Finding]:
    ess, tail = effective_sample_size(weight), tail_index(weight, len(weight))
    single = largest_share(weight)
    contribution = weight * np.abs(reward / max(float(np.abs(reward).max()), 1.0))  # shares have no unit
    share = top_share(weight, contribution, len(weight), float(contribution.sum()))
    return [
        judged(
            "effective_sample_size",
            ess,
            f"To {what} the log is worth {ess:,.0f} of its {len(weight):,} samples",
            PROBLEM if ess < MIN_ESS else OK,
            f"fewer than {MIN_ESS:.0f} decide nothing",
        ),
        _rewarded(weight, reward, what, few_rewards),
        judged(
            "tail_index",
            tail,
            f"The weights of {what} have a tail index of {tail:.2g}",
            NOTE if tail < MIN_TAIL_INDEX else OK,
            "below 2 their variance may be infinite, and normal intervals too narrow",
        ),
        judged(
            "top_weight_share",
            share,
            f"The top {TOP_SHARE:.0%} of the weights of {what} carry {share:.0%} of the value",
            NOTE if share > MAX_TOP_SHARE else OK,
            "much depends on few samples",
        ),
        judged(
            "largest_weight",
            float(weight.max()),
            f"The largest weight of {what} is {weight.max():.4g}, with {single:.1%} of the sum of squared weights",
            PROBLEM if single > MAX_SINGLE_SHARE else OK,
            "a few samples decide",
        ),
    ]


def _rewarded(weight: FloatArray, reward: FloatArray, what: str, few_rewards: str) -> Finding:
    if reward.min() == reward.max():  # a fault of the log, whatever is asked of it
        text = f"All {len(reward):,} rewards are {reward[0]:g}: nothing distinguishes the actions."
        return Finding("rewarded_samples", PROBLEM, 0.0, text)
    if (largest := float(np.abs(reward).max())) > MAX_REWARD:
        text = f"The largest reward has a size of {largest:.3g}: rewards beyond {MAX_REWARD:g} cannot be learned from."
        return Finding("rewarded_samples", PROBLEM, 0.0, text)
    rewarded = rewarded_sample_size(weight, reward)
    return judged(
        "rewarded_samples",
        rewarded,
        f"About {rewarded:,.0f} effective samples have a reward that decides about {what}",
        few_rewards if rewarded < MIN_REWARDED else OK,
        f"fewer than {MIN_REWARDED:.0f} are too few for an interval",
    )


def mean_weight_finding(
    log: BanditLog,
    check: str,
    weight: FloatArray,
    group: IntArray | None,
    what: str,
    hint: str,
    unsupported: float = 0.0,
) -> Finding:
    """Return what the mean of weights says, where it must be one up to chance, but for actions never taken."""
    mean = float(weight.mean())
    gap = mean_weight_gap(mean, unsupported)
    z = mean_weight_z(mean, mean_std_err(weight, group), mean_skewness(weight, group), unsupported=unsupported)
    text = f"The mean weight of {what} is {mean:.4g} where {mean - gap:.4g} is expected ({z_text(z)})"
    is_off = is_mean_off(mean, z) and not (log.has_estimates and abs(gap) <= MAX_ESTIMATED_GAP)
    return judged(check, z, text, PROBLEM if is_off else OK, ESTIMATED_HINT if log.has_estimates else hint)


def z_text(z: float) -> str:
    """Return a z as it is told."""
    return f"z = {z:.1f}" if abs(z) < MAX_Z else f"z {'>' if z > 0.0 else '<'} {np.copysign(MAX_Z, z):.0f}"


def uniform_weight(log: BanditLog) -> FloatArray:
    """Return the weights of the uniform policy."""
    n_eligible = log.n_actions if log.action_mask is None else log.action_mask.sum(axis=1)
    return 1.0 / (n_eligible * log.propensity)
