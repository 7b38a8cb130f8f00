"""What an audit says of propensities: can they be those with which the actions were drawn?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bopl._native import plain
from bopl._policy_reader import PolicyReader, row_blocks
from bopl._typing import AnyArray, FloatArray, IntArray
from bopl._weight import without_skewness
from bopl.log.finding import NOTE, OK, PROBLEM, Finding, judged
from bopl.log.propensity_grid import MAX_DECIMALS, find_grid
from bopl.log.weight_audit import ESTIMATED_HINT, mean_weight_finding, uniform_weight, z_text

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

FEW_SAMPLES = 20  # an action taken less often is hardly logged
SMALL_PROPENSITY = 1e-3
MAX_ROUNDING = 0.05  # relative error of the smallest propensity that rounding may have made
HEAD = 1000  # values that mostly tell that not all of them end soon
MAX_ACTION_Z = 3.5  # of an action's sum of 1/p, without its skewness; if normal, 4 in 10,000 sound logs exceed it
MAX_ESTIMATED_ACTION_GAP = 0.25  # of an action's sum of 1/p under estimated propensities


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
            "All propensities are 1: the logging policy never explored, and the log says nothing about other actions.",
        )
    if n_sure + n_small > 0:
        text += f"; {n_sure} are 1 (no exploration there) and {n_small} below {SMALL_PROPENSITY:g} (heavy weights)"
        return Finding("propensity_range", NOTE, least, text + ".")
    return Finding("propensity_range", OK, least, text + ".")


def _rounding(log: BanditLog) -> Finding:
    """Decimals after which all propensities end, and what cutting them off may have done to the smallest."""
    decimals = next((d for d in range(1, MAX_DECIMALS + 1) if _ends_after(log.propensity, d)), None)
    if decimals is None:
        return _other_rounding(log)
    error = 0.5 * 10.0**-decimals / float(log.propensity.min())
    text = f"All propensities end after {decimals} decimal{'' if decimals == 1 else 's'}"
    if log.exact_propensity:
        return Finding("rounding", OK, 0.0, f"{text}, and are declared exact.")
    if error > MAX_ROUNDING and len(np.unique(log.propensity)) > 10:
        return Finding(
            "rounding",
            PROBLEM,
            error,
            f"{text}: if they were rounded, the smallest is off by up to {error:.0%}, and so are its weights. Log more "
            "digits; if they are exact, declare it with exact_propensity.",
        )
    return Finding("rounding", OK, error, f"{text}; if the values are exact, that is fine.")


def _other_rounding(log: BanditLog) -> Finding:
    """Say of propensities with many decimals whether they were rounded in another form."""
    grid = find_grid(log.propensity)
    if grid is None or not grid.form or log.exact_propensity or not grid.may_be_rounded(log.n_actions):
        return Finding("rounding", OK, float("nan"), f"Propensities have more than {MAX_DECIMALS} decimals.")
    error = float((grid.half_unit(grid.values) / grid.values).max())
    text = f"All propensities are {grid.form}: if they were rounded, they are off by up to {error:.2g} of themselves"
    status = PROBLEM if error > MAX_ROUNDING else NOTE
    return Finding("rounding", status, error, f"{text}. If they are exact, declare it with exact_propensity.")


def _ends_after(values: FloatArray, decimals: int) -> bool:
    if len(values) > HEAD and not _ends_after(values[:HEAD], decimals):
        return False
    scaled = values * 10.0**decimals
    return bool(np.all(np.abs(scaled - np.round(scaled)) <= 1e-9 * scaled))


def _uniform_mean_weight(log: BanditLog) -> Finding:
    return mean_weight_finding(
        log,
        "mean_weight_uniform",
        uniform_weight(log),
        log.group,
        "the uniform policy",
        "propensities are wrong, or some actions were impossible in some contexts",
    )


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
    return mean_weight_finding(
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
    gap = (total - expected)[often]
    log_variance = np.log(np.maximum(variance, 1e-18 * total**2)[often])  # rounding alone is not spread
    # Few and very unequal 1/p miss their sum more often than they overshoot it, and look sure of themselves then: the
    # largest are those that are not there. So a sum that is too small has at least the usual spread of an action's.
    usual = log_variance.mean() if often.any() else 0.0
    std_err = np.exp(0.5 * np.where(gap < 0.0, np.maximum(log_variance, usual), log_variance))
    z[often] = without_skewness(gap / std_err, third[often] / std_err**3)
    # The more actions, the larger the largest z of a log that is right.
    is_off = np.abs(z) > np.sqrt(MAX_ACTION_Z**2 + 2.0 * np.log(log.n_actions))
    if log.has_estimates:
        is_off &= np.abs(total - expected) > MAX_ESTIMATED_ACTION_GAP * expected
    worst = int(np.where(is_off | ~is_off.any(), np.abs(z), 0.0).argmax())
    text = (
        f"The sum of 1/p over samples with action {plain(log.actions[worst])!r} is "
        f"{total[worst] / max(expected[worst], 1):.3g} times the {expected[worst]:.0f} expected"
    )
    if not is_off.any():
        text = f"{text} ({z_text(z[worst])}), the largest deviation."
        return Finding("sum_inverse_propensity", OK, float(z[worst]), text)
    text = f"{text} ({z_text(z[worst])}; {int(is_off.sum())} of {log.n_actions} actions are off)"
    hint = ESTIMATED_HINT if log.has_estimates else "its propensities are wrong, or it was impossible in some contexts"
    return judged("sum_inverse_propensity", float(z[worst]), text, PROBLEM, hint)


def _sums_by_action(log: BanditLog, inverse: FloatArray, mean: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return for each action how many samples (or groups) took it, and the second and third moment of its sum of 1/p.

    These are ``sum_c (S_c - n_c · mean)^k`` over the groups, ``S_c`` being the sum in a group of ``n_c`` samples.
    """
    action_idx: IntArray
    total: AnyArray
    if log.group is None:  # each sample is a group of its own
        action_idx, total, size = log.action_idx, inverse, np.ones(log.n_samples)
        own_size = size
    else:
        size = np.bincount(log.group).astype(np.float64)
        pair, own = np.unique(log.group * log.n_actions + log.action_idx, return_inverse=True)
        action_idx, total = pair % log.n_actions, np.bincount(own, weights=inverse)
        own_size = size[pair // log.n_actions]

    def sum_of(part: AnyArray) -> AnyArray:
        return np.bincount(action_idx, weights=part, minlength=log.n_actions)

    # Groups that did not take the action are in the last terms alone.
    second = sum_of(total**2) - 2.0 * mean * sum_of(total * own_size) + mean**2 * float((size**2).sum())
    third = sum_of(total**3) - 3.0 * mean * sum_of(total**2 * own_size)
    third += 3.0 * mean**2 * sum_of(total * own_size**2) - mean**3 * float((size**3).sum())
    return np.bincount(action_idx, minlength=log.n_actions), second, third


def with_raised_propensities(log: BanditLog, findings: Sequence[Finding]) -> BanditLog:
    """Return a log whose actions have larger propensities where their sum of 1/p says that they are too small.

    With propensities that are too small, samples of one context seem to repeat their action oftener than by chance. If
    the ``findings`` on the propensities are no problem, the log stays as it is.
    """
    from bopl.log.bandit_log import replaced

    if all(finding.status != PROBLEM for finding in findings):
        return log
    total = np.bincount(log.action_idx, weights=1.0 / log.propensity, minlength=log.n_actions)
    n_eligible = log.n_samples if log.action_mask is None else np.maximum(log.action_mask.sum(axis=0), 1)
    factor = np.maximum(total / n_eligible, 1.0)
    return replaced(log, propensity=np.minimum(factor[log.action_idx] * log.propensity, 1.0))


def logging_policy_finding(log: BanditLog, reader: PolicyReader) -> Finding:
    """Return whether a policy gives the logged actions their propensities."""
    n_off = 0
    for rows in row_blocks(log.n_samples, log.n_actions):
        propensity = log.propensity[rows]
        n_off += int(reader.block(rows).differs_from(propensity).sum())
    if n_off:
        return Finding(
            "logging_policy",
            PROBLEM,
            n_off / log.n_samples,
            f"The logging policy gives {n_off} of {log.n_samples} logged actions another probability than the log: it "
            "did not write this log, or its propensities were changed.",
        )
    return Finding("logging_policy", OK, 0.0, "The logging policy gives every logged action its propensity.")
