"""The minimum empirical risk of any policy on a log (Theorem 1), and that of the uniform policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bopl._exact import Limbs, limbs_of, value_of
from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.log.identical import group_identical_contexts, keys_of
from bopl.theory.smoothness import highest_eligible


def n_eligible(log: BanditLog) -> FloatArray:
    """Return the number of eligible actions of each sample: ``|A|`` without a mask."""
    if log.action_mask is None:
        return np.full(log.n_samples, float(log.n_actions))
    return log.action_mask.sum(axis=1).astype(np.float64)


def emp_risk_uniform(log: BanditLog) -> float:
    """Return the empirical risk of the uniform policy, the ensemble's start: ``mean(-r/p / |A|)``."""
    return float(np.mean(-log.reward / log.propensity / n_eligible(log)))


def opt_emp_risk(log: BanditLog, weighted_reward: FloatArray | None = None) -> float:
    """Return OptEmpRisk, the minimum empirical risk of any policy on this log.

    The risk is linear in the policy, so the best one takes, in every context, the action with the largest sum of
    ``r/p`` over the samples that share that context (zero for an action never logged there). Where actions are masked,
    samples that share a context but not the mask are distinguished.

    Parameters
    ----------
    log : BanditLog
        Samples that the risk is the mean over.
    weighted_reward : ndarray of shape (n_samples,), optional
        Replaces ``r/p``: a regularised form of it, times the sample weight if there is one.
    """
    return value_of(opt_emp_total(log, weighted_reward)) / log.n_samples


def opt_emp_total(log: BanditLog, weighted_reward: FloatArray | None = None) -> Limbs:
    """Return `opt_emp_risk` times the number of samples, exactly: those of logs without a common context add up."""
    value = _weighted_reward(log, weighted_reward)
    groups = _shared_contexts(log)
    # The risk is a sum over contexts, each minimised by itself (Theorem 1, OptEmpRisk): a context with one sample needs
    # no grouping, and a sum over (group, logged action) cells is enough, as unlogged actions are worth zero.
    alone = np.maximum(value, _value_of_unlogged(log))[groups.alone]
    cells = groups.cells(log)
    best = np.maximum(cells.highest(cells.sums(value)), np.where(cells.has_unlogged, 0.0, -np.inf))
    return limbs_of(-alone) + limbs_of(-best)


def opt_risk_of(reward_estimate: FloatArray, log: BanditLog) -> float:
    """Return the minimum of ``mean_i(-sum_a pi(a | x_i) Gamma[i, a])`` over all policies.

    As in `opt_emp_risk`, samples that share context and mask share the policy: it takes the eligible action with the
    largest sum of Gamma over them.

    Parameters
    ----------
    reward_estimate : ndarray of shape (n_samples, n_actions)
        Gamma, in the row order of ``log``. With ``r/p`` at the logged action and 0 elsewhere this is `opt_emp_risk`.
    log : BanditLog
        Determines which samples share a context, and which actions are eligible.
    """
    return value_of(opt_total_of(reward_estimate, log)) / log.n_samples


def opt_total_of(reward_estimate: FloatArray, log: BanditLog) -> Limbs:
    """Return `opt_risk_of` times the number of samples, as an exact sum; see `opt_emp_total`."""
    groups = _shared_contexts(log)
    alone = highest_eligible(reward_estimate, log.action_mask)[groups.alone]
    highest = np.full(groups.n_groups, -np.inf)
    for action_idx in range(log.n_actions if groups.n_groups else 0):  # one action at a time: no (n, A) temporary
        sums = groups.sums(reward_estimate[groups.rows, action_idx])
        eligible = True if log.action_mask is None else log.action_mask[groups.first, action_idx]
        np.maximum(highest, sums, out=highest, where=eligible)
    return limbs_of(-alone) + limbs_of(-highest)


def excess_emp_risk_0(log: BanditLog) -> float:
    """Return ExcessEmpRisk_0: how far the uniform policy is from the best on this log."""
    return emp_risk_uniform(log) - opt_emp_risk(log)


def opt_surrogate_risk(log: BanditLog, weighted_reward: FloatArray | None = None) -> float:
    """Return the largest certified lower bound of the surrogate risk over all policies.

    Per context with ``c_a = sum v`` over its samples with v >= 0 and ``d_a = sum |v|`` over those with v < 0, the
    problem ``min_pi sum_a d_a pi_a - c_a (ln pi_a + 1)`` is convex. Its dual in the multiplier of ``sum pi = 1`` has
    one variable t: ``max_t sum_a c_a ln((d_a - d_min + t) / c_a) - t + d_min``. Every t gives a lower bound, so the
    result is valid whatever rounding does to the maximiser.

    Parameters
    ----------
    log : BanditLog
        Samples that the risk is the mean over.
    weighted_reward : ndarray of shape (n_samples,), optional
        v, ``r/p`` by default; see `opt_emp_risk`.
    """
    return value_of(opt_surrogate_total(log, weighted_reward)) / log.n_samples


def opt_surrogate_total(log: BanditLog, weighted_reward: FloatArray | None = None) -> Limbs:
    """Return `opt_surrogate_risk` times the number of samples, as an exact sum; see `opt_emp_total`."""
    value = _weighted_reward(log, weighted_reward)
    groups = _shared_contexts(log)
    # A single sample: with v >= 0 the best policy takes the logged action, ln pi + 1 = 1; with v < 0 it avoids it.
    alone = np.maximum(value, _value_of_unlogged(log))[groups.alone]
    cells = groups.cells(log)
    best = _surrogate_dual(cells, cells.sums(np.maximum(value, 0.0)), cells.sums(np.maximum(-value, 0.0)))
    return limbs_of(-alone) + limbs_of(best)


def _weighted_reward(log: BanditLog, weighted_reward: FloatArray | None) -> FloatArray:
    return log.reward / log.propensity if weighted_reward is None else weighted_reward


def _value_of_unlogged(log: BanditLog) -> FloatArray:
    """Return the estimated reward of not choosing the logged action: zero, or -inf if there is no other."""
    return np.where(n_eligible(log) > 1, 0.0, -np.inf)


def _surrogate_dual(cells: _Cells, reward_sum: FloatArray, cost_sum: FloatArray) -> FloatArray:
    """Maximise the dual of `opt_surrogate_risk` by bisection, all groups at once; sums are by cell."""
    cost_min = np.where(cells.has_unlogged, 0.0, -cells.highest(-cost_sum))
    rewarded = reward_sum > 0.0  # the other cells enter through cost_min alone
    group, reward_sum = cells.group[rewarded], reward_sum[rewarded]
    slack = cost_sum[rewarded] - cost_min[group]

    def by_group(terms: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(group, weights=terms, minlength=len(cost_min)), dtype=np.float64)

    low, high = np.zeros(len(cost_min)), by_group(reward_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(200):  # the derivative sum c/(slack + t) - 1 falls in t; at t = sum c it is not positive
            middle = (low + high) / 2.0
            slope = by_group(reward_sum / (slack + middle[group])) - 1.0
            low, high = np.where(slope > 0.0, middle, low), np.where(slope > 0.0, high, middle)
        terms = by_group(reward_sum * np.log((slack + high[group]) / reward_sum))
    return terms - high + cost_min  # the dual at ``high``: a lower bound, however far from its maximum


@dataclass(frozen=True)
class _SharedContexts:
    """Samples alone in their context, and the groups of those that are not."""

    alone: npt.NDArray[np.bool_]  # (n_samples,)
    rows: npt.NDArray[np.intp]  # the samples that are not alone
    group: npt.NDArray[np.intp]  # group number of each of them
    first: npt.NDArray[np.intp]  # a sample of each group

    @property
    def n_groups(self) -> int:
        return len(self.first)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums by group of the values of ``rows``."""
        return np.asarray(np.bincount(self.group, weights=values, minlength=self.n_groups), dtype=np.float64)

    def cells(self, log: BanditLog) -> _Cells:
        keys, cell = np.unique(self.group * log.n_actions + log.action_idx[self.rows], return_inverse=True)
        group = keys // log.n_actions
        start = np.flatnonzero(np.diff(group, prepend=-1))
        has_unlogged = np.diff(start, append=len(keys)) < n_eligible(log)[self.first]
        return _Cells(self.rows, cell.reshape(-1), group, start, has_unlogged)


@dataclass(frozen=True)
class _Cells:
    """The pairs of group and logged action that occur, sorted: at most one per sample, however many actions."""

    rows: npt.NDArray[np.intp]  # the samples in groups
    cell: npt.NDArray[np.intp]  # cell of each of them
    group: npt.NDArray[np.intp]  # (n_cells,)
    start: npt.NDArray[np.intp]  # (n_groups,): first cell of each group
    has_unlogged: npt.NDArray[np.bool_]  # (n_groups,): an eligible action was never logged

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums by cell of ``values``, of shape (n_samples,)."""
        totals = np.bincount(self.cell, weights=values[self.rows], minlength=len(self.group))
        return np.asarray(totals, dtype=np.float64)

    def highest(self, sums: FloatArray) -> FloatArray:
        """Return the maximum of ``sums``, one per cell, in each group."""
        return np.asarray(np.maximum.reduceat(sums, self.start), dtype=np.float64)


def _shared_contexts(log: BanditLog) -> _SharedContexts:
    group = group_identical_contexts(log.context, keys_of(log))
    if log.action_mask is not None:
        by_mask = group_identical_contexts(log.action_mask)
        _, group = np.unique(group * (by_mask.max() + 1) + by_mask, return_inverse=True)
    # Most logs have few shared contexts: what follows works on those samples alone.
    alone = np.bincount(group)[group] == 1
    rows = np.flatnonzero(~alone)
    _, first, dense_group = np.unique(group[rows], return_index=True, return_inverse=True)
    return _SharedContexts(alone, rows, dense_group.reshape(-1), rows[first])
