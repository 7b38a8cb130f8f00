"""The paper's theory as functions of a log: smoothness, weak learning, Theorem 1, the excess-risk bound.

Every formula names its place in *Boosted Off-Policy Learning* (London, Lu, Sandler, Joachims, AISTATS 2023). Rewards
are taken as they are: pass ``log.translated(…)`` where the reward is translated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bopl._exact import Limbs, limbs_of, value_of
from bopl._settings import check_choice
from bopl._typing import BoolArray, FloatArray
from bopl.log import BanditLog
from bopl.log.identical import group_identical_contexts

# -- Smoothness (appendix "Smoothness"; docs/theory.md, "Sharp constants") -------------------------------------------

# Bounds on the second derivative along any unit direction of the scores. "sharp" is attained, "paper" is not.
_SOFTMAX = {"sharp": math.sqrt(3.0) / 9.0, "paper": 0.5}
_LOG_SOFTMAX = {"sharp": 0.5, "paper": 1.0}


def softmax_smoothness(inverse_temperature: float = 1.0, *, smoothness: str = "sharp") -> float:
    """Return the smoothness coefficient of one softmax probability, or of the probability of a set of actions.

    Parameters
    ----------
    inverse_temperature : float, default=1
        beta: scores are multiplied by it before the softmax.
    smoothness : {"sharp", "paper"}, default="sharp"
        ``beta² √3/9``, the least coefficient there is, or the paper's ``beta² / 2`` (Lemma "softmax_smooth").

    >>> round(softmax_smoothness(), 6)
    0.19245
    >>> softmax_smoothness(smoothness="paper")
    0.5
    """
    return inverse_temperature**2 * _constant(_SOFTMAX, smoothness)


def log_softmax_smoothness(
    n_actions: int | None = None, inverse_temperature: float = 1.0, *, smoothness: str = "sharp"
) -> float:
    """Return the smoothness coefficient of the logarithm of a softmax probability.

    Parameters
    ----------
    n_actions : int, optional
        Refines the paper's coefficient; the sharp one is the same for two actions and for a thousand.
    inverse_temperature : float, default=1
    smoothness : {"sharp", "paper"}, default="sharp"
        ``beta² / 2``, or the paper's ``beta² (1 - 1/|A|)`` (Lemma "log_softmax_smooth"), which is ``beta²`` without
        ``n_actions``.

    >>> log_softmax_smoothness()
    0.5
    """
    coefficient = inverse_temperature**2 * _constant(_LOG_SOFTMAX, smoothness)
    if smoothness == "paper" and n_actions is not None:
        coefficient *= 1.0 - 1.0 / n_actions
    return coefficient


def loss_smoothness(weighted_reward: FloatArray, *, smoothness: str = "sharp") -> FloatArray:
    """Return the smoothness of the loss ``-v · pi(a_i)``: ``|v|`` times that of the softmax.

    Proposition "loss_function_smooth" has ``|v| / 2``.

    Parameters
    ----------
    weighted_reward : ndarray of shape (n_samples,)
        v: ``r / p`` or a regularised form of it.
    smoothness : {"sharp", "paper"}, default="sharp"
    """
    return np.abs(weighted_reward) * softmax_smoothness(smoothness=smoothness)


def surrogate_loss_smoothness(weighted_reward: FloatArray, *, smoothness: str = "sharp") -> FloatArray:
    """Return the smoothness of the surrogate loss: ``v/2`` where v >= 0, ``|v| √3/9`` where v < 0.

    The paper has ``v`` (Proposition "log_loss_function_smooth") and ``|v| / 2``: samples with v < 0 keep the original
    loss.

    Parameters
    ----------
    weighted_reward : ndarray of shape (n_samples,)
        v: ``r / p`` or a regularised form of it.
    smoothness : {"sharp", "paper"}, default="sharp"
    """
    negative, other = softmax_smoothness(smoothness=smoothness), log_softmax_smoothness(smoothness=smoothness)
    return np.abs(weighted_reward) * np.where(weighted_reward < 0.0, negative, other)


def expected_reward_smoothness(
    reward_estimate: FloatArray, *, smoothness: str = "sharp", action_mask: BoolArray | None = None
) -> FloatArray:
    """Return the smoothness of each row's ``sum_a pi(a) Gamma[i, a]``: the range of Gamma times that of the softmax.

    Parameters
    ----------
    reward_estimate : ndarray of shape (n_samples, n_actions)
        Gamma: any estimate of the reward of each action, for instance a doubly robust one.
    smoothness : {"sharp", "paper"}, default="sharp"
    action_mask : boolean ndarray of shape (n_samples, n_actions), optional
        The range is taken over the eligible actions.

    Returns
    -------
    smoothness : ndarray of shape (n_samples,)
        Zero where there is nothing to choose.
    """
    highest = _highest_eligible(reward_estimate, action_mask)
    lowest = np.min(reward_estimate, axis=1, initial=np.inf, where=True if action_mask is None else action_mask)
    return np.asarray((highest - lowest) * softmax_smoothness(smoothness=smoothness), dtype=np.float64)


def _constant(constants: dict[str, float], smoothness: str) -> float:
    check_choice("smoothness", smoothness, tuple(constants))
    return constants[smoothness]


def _highest_eligible(values: FloatArray, action_mask: BoolArray | None) -> FloatArray:
    where = True if action_mask is None else action_mask
    return np.asarray(np.max(values, axis=1, initial=-np.inf, where=where), dtype=np.float64)


# -- Weak learning (Eq. "weak_learning_condition", appendix "Boosting via Binary Classification") --------------------


def weak_learning_edge(log: BanditLog, action_prob: FloatArray, prediction: FloatArray) -> float:
    """Return how much better a predictor does on the logged actions than on the current policy's own.

    ``sum_i omega_i sgn(r_i) (f(x_i, a_i) - E_{a ~ pi}[f(x_i, a)])`` with ``omega_i ∝ |r_i|/p_i · pi(a_i | x_i)``
    summing to one. Boosting goes on as long as it is not zero.

    Parameters
    ----------
    log : BanditLog
    action_prob : ndarray of shape (n_samples, n_actions)
        The ensemble policy before the round.
    prediction : ndarray of shape (n_samples, n_actions)
        The round's predictor on the same contexts.
    """
    rows = np.arange(log.n_samples)
    omega = np.abs(log.reward) / log.propensity * action_prob[rows, log.action_idx]
    advantage = prediction[rows, log.action_idx] - (action_prob * prediction).sum(axis=1)
    total = omega.sum()
    return float((omega * np.sign(log.reward) * advantage).sum() / total) if total > 0.0 else 0.0


def error_rate(gradient: FloatArray, prediction: FloatArray) -> float:
    """Return the weighted error of a {-1, +1} predictor (Eq. "weighted_error_rate"); 1/2 is guessing.

    Labels are ``sgn(G)`` and weights ``|G|``, so that ``1 - 2 · error_rate = sum(G·f) / sum(|G|)``.
    """
    weight = np.abs(gradient)
    total = weight.sum()
    return float((weight * (np.sign(gradient) != prediction)).sum() / total) if total > 0.0 else 0.5


# -- Empirical risk (Theorem 1) --------------------------------------------------------------------------------------


def n_eligible(log: BanditLog) -> FloatArray:
    """Return the number of eligible actions of each sample: ``|A|`` without a mask."""
    if log.action_mask is None:
        return np.full(log.n_samples, float(log.n_actions))
    return log.action_mask.sum(axis=1).astype(np.float64)


def emp_risk_uniform(log: BanditLog) -> float:
    """Return the empirical risk of the uniform policy, the ensemble's start: ``mean(-r/p / |A|)``."""
    return float(np.mean(-log.reward / log.propensity / n_eligible(log)))


def opt_emp_risk(log: BanditLog, weighted_reward: FloatArray | None = None) -> float:
    """Return OptEmpRisk, the least empirical risk any policy can have on this log.

    The risk is linear in the policy, so the best one takes, in every context, the action with the greatest sum of
    ``r/p`` over the samples that share that context (zero for an action never logged there). Where actions are masked,
    samples that share a context but not the mask are told apart.

    Parameters
    ----------
    log : BanditLog
    weighted_reward : ndarray of shape (n_samples,), optional
        Takes the place of ``r/p``: a regularised form of it, times the sample weight where there is one.
    """
    return value_of(opt_emp_total(log, weighted_reward)) / log.n_samples


def opt_emp_total(log: BanditLog, weighted_reward: FloatArray | None = None) -> Limbs:
    """Return `opt_emp_risk` times the number of samples, exactly: those of logs without a common context add up."""
    value = _weighted_reward(log, weighted_reward)
    groups = _shared_contexts(log)
    alone = np.maximum(value, _value_of_unlogged(log))[groups.alone]
    cells = groups.cells(log)
    best = np.maximum(cells.highest(cells.sums(value)), np.where(cells.has_unlogged, 0.0, -np.inf))
    return limbs_of(-alone) + limbs_of(-best)


def opt_risk_of(reward_estimate: FloatArray, log: BanditLog) -> float:
    """Return the least ``mean_i(-sum_a pi(a | x_i) Gamma[i, a])`` over all policies.

    As in `opt_emp_risk`, samples that share context and mask share the policy: it takes the eligible action with the
    greatest sum of Gamma over them.

    Parameters
    ----------
    reward_estimate : ndarray of shape (n_samples, n_actions)
        Gamma, in the row order of ``log``. With ``r/p`` at the logged action and 0 elsewhere this is `opt_emp_risk`.
    log : BanditLog
        Says which samples share a context, and which actions are eligible.
    """
    return value_of(opt_total_of(reward_estimate, log)) / log.n_samples


def opt_total_of(reward_estimate: FloatArray, log: BanditLog) -> Limbs:
    """Return `opt_risk_of` times the number of samples, as an exact sum; see `opt_emp_total`."""
    groups = _shared_contexts(log)
    alone = _highest_eligible(reward_estimate, log.action_mask)[groups.alone]
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
    """Return the greatest certified lower bound of the surrogate risk over all policies.

    Per context with ``c_a = sum v`` over its samples with v >= 0 and ``d_a = sum |v|`` over those with v < 0, the
    problem ``min_pi sum_a d_a pi_a - c_a (ln pi_a + 1)`` is convex. Its dual in the multiplier of ``sum pi = 1`` has
    one variable t: ``max_t sum_a c_a ln((d_a - d_min + t) / c_a) - t + d_min``. Every t gives a lower bound, so the
    result is valid whatever rounding does to the maximiser.

    Parameters
    ----------
    log : BanditLog
    weighted_reward : ndarray of shape (n_samples,), optional
        v, ``r/p`` by default; see `opt_emp_risk`.
    """
    return value_of(opt_surrogate_total(log, weighted_reward)) / log.n_samples


def opt_surrogate_total(log: BanditLog, weighted_reward: FloatArray | None = None) -> Limbs:
    """Return `opt_surrogate_risk` times the number of samples, as an exact sum; see `opt_emp_total`."""
    value = _weighted_reward(log, weighted_reward)
    groups = _shared_contexts(log)
    alone = np.maximum(value, _value_of_unlogged(log))[groups.alone]
    cells = groups.cells(log)
    best = _surrogate_dual(cells, cells.sums(np.maximum(value, 0.0)), cells.sums(np.maximum(-value, 0.0)))
    return limbs_of(-alone) + limbs_of(best)


def _weighted_reward(log: BanditLog, weighted_reward: FloatArray | None) -> FloatArray:
    return log.reward / log.propensity if weighted_reward is None else weighted_reward


def _value_of_unlogged(log: BanditLog) -> FloatArray:
    """Return the estimated reward of not choosing the logged action: zero, or -inf where there is no other."""
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
    return terms - high + cost_min


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
        """Return the greatest of ``sums``, one per cell, in each group."""
        return np.asarray(np.maximum.reduceat(sums, self.start), dtype=np.float64)


def _shared_contexts(log: BanditLog) -> _SharedContexts:
    group = group_identical_contexts(log.context)
    if log.action_mask is not None:
        by_mask = group_identical_contexts(log.action_mask)
        _, group = np.unique(group * (by_mask.max() + 1) + by_mask, return_inverse=True)
    alone = np.bincount(group)[group] == 1
    rows = np.flatnonzero(~alone)
    _, first, dense_group = np.unique(group[rows], return_index=True, return_inverse=True)
    return _SharedContexts(alone, rows, dense_group.reshape(-1), rows[first])


def theorem_1_bound(
    excess_emp_risk_0: float, ensemble_weights: npt.ArrayLike, scale: float, *, smoothness: str = "sharp"
) -> float:
    """Return Theorem 1's bound on the excess empirical risk.

    ``ExcessEmpRisk_0 · exp(-C s / (2 ExcessEmpRisk_0) · sum_t alpha_t²)``, for predictors rescaled to
    ``mean(|r|/p · ‖f_t(x)‖²) = C`` and ensemble weights computed with the smoothness ``s`` of the softmax.

    Parameters
    ----------
    excess_emp_risk_0 : float
    ensemble_weights : array-like of shape (n_rounds,)
        The alphas.
    scale : float
        C.
    smoothness : {"sharp", "paper"}, default="sharp"
        The one that training used. With the paper's, ``C s / 2 = C / 4``; the formula with ``C / 4`` does not hold for
        the longer sharp steps.

    >>> round(theorem_1_bound(1.0, [1.0, 1.0], scale=2.0, smoothness="paper"), 6)
    0.367879
    """
    squares = np.square(np.asarray(ensemble_weights, dtype=np.float64)).sum()
    decrease = scale * softmax_smoothness(smoothness=smoothness) * squares / 2.0
    return excess_risk_after(excess_emp_risk_0, float(decrease))


def excess_risk_after(excess_risk_0: float, total_decrease: float) -> float:
    """Return ``E_0 · exp(-D / E_0)``: Theorem 1 in terms of the sum D of guaranteed decreases.

    For BOPL ``D = C s/2 · sum alpha²``; the same proof holds for the surrogate risk and its decreases.
    """
    if excess_risk_0 <= 0.0:
        return 0.0
    return float(excess_risk_0 * np.exp(-total_decrease / excess_risk_0))


# -- Excess risk (appendix "Excess Population Risk Bound") -----------------------------------------------------------


@dataclass(frozen=True)
class ExcessRiskBound:
    """The three parts of Eq. "full_excess_risk_bound"; they hold together with probability at least ``1 - delta``."""

    excess_empirical_risk: float
    generalization_error: float
    estimation_error: float

    @property
    def total(self) -> float:
        """Bound on the policy's risk above that of the best policy there is."""
        return self.excess_empirical_risk + self.generalization_error + self.estimation_error


def excess_risk_bound(
    *,
    n_samples: int,
    min_propensity: float,
    rademacher_complexity: float,
    ensemble_weights: npt.ArrayLike,
    excess_empirical_risk: float,
    delta: float = 0.05,
) -> ExcessRiskBound:
    """Return the bound on the excess population risk (Eq. "full_excess_risk_bound").

    Parameters
    ----------
    n_samples : int
    min_propensity : float in (0, 1]
        Lower bound of the logging policy's probabilities.
    rademacher_complexity : float
        Of the predictor class, summed over actions as in Eq. "vector_valued_contraction".
    ensemble_weights : array-like of shape (n_rounds,)
        The alphas; their 1-norm enters.
    excess_empirical_risk : float
        Bound on the empirical risk above OptEmpRisk, e.g. `theorem_1_bound`.
    delta : float in (0, 1), default=0.05
        Probability with which the bound may fail.

    Notes
    -----
    Rewards must lie in [-1, 1]. The bound is loose; its use is to show what it depends on.
    """
    _check_bound_arguments(n_samples, min_propensity, rademacher_complexity, excess_empirical_risk, delta)
    weight_norm = max(float(np.abs(np.asarray(ensemble_weights, dtype=np.float64)).sum()), 1.0)
    return ExcessRiskBound(
        excess_empirical_risk=float(excess_empirical_risk),
        generalization_error=float(
            np.sqrt(32.0) * weight_norm * rademacher_complexity
            + np.sqrt(2.0 / n_samples * np.log(8.0 / delta * weight_norm))
        )
        / min_propensity,
        estimation_error=float(np.sqrt(2.0 / n_samples * np.log(2.0 / delta))) / min_propensity,
    )


def _check_bound_arguments(
    n_samples: int, min_propensity: float, rademacher_complexity: float, excess_empirical_risk: float, delta: float
) -> None:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1; got {n_samples}.")
    if not 0.0 < min_propensity <= 1.0:
        raise ValueError(f"min_propensity must lie in (0, 1]; got {min_propensity}.")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1; got {delta}.")
    if not rademacher_complexity >= 0.0 or not excess_empirical_risk >= 0.0:
        raise ValueError(
            "rademacher_complexity and excess_empirical_risk must not be negative; got "
            f"{rademacher_complexity} and {excess_empirical_risk}."
        )
