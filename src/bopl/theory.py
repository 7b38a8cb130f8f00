"""The paper's theory as functions of a log: smoothness, weak learning, Theorem 1, the excess-risk bound.

Every formula names its place in *Boosted Off-Policy Learning* (London, Lu, Sandler, Joachims, AISTATS 2023). Rewards
are taken as they are: pass ``log.translated(…)`` where the reward is translated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.log.identical import group_identical_contexts

# -- Smoothness (appendix "Smoothness") ------------------------------------------------------------------------------


def softmax_smoothness(inverse_temperature: float = 1.0) -> float:
    """Return the smoothness coefficient ``beta² / 2`` of one softmax probability (Lemma "softmax_smooth").

    >>> softmax_smoothness()
    0.5
    """
    return inverse_temperature**2 / 2.0


def log_softmax_smoothness(n_actions: int, inverse_temperature: float = 1.0) -> float:
    """Return the smoothness coefficient ``beta² (1 - 1/|A|)`` of a log-probability (Lemma "log_softmax_smooth")."""
    return inverse_temperature**2 * (1.0 - 1.0 / n_actions)


def loss_smoothness(reward: FloatArray, propensity: FloatArray) -> FloatArray:
    """Return ``|r| / (2p)``, the smoothness of the loss ``-r/p · pi(a_i)`` (Proposition "loss_function_smooth")."""
    return np.abs(reward) * softmax_smoothness() / propensity


def surrogate_loss_smoothness(reward: FloatArray, propensity: FloatArray) -> FloatArray:
    """Return the smoothness of the surrogate loss: ``|r| / p`` where r >= 0, ``|r| / (2p)`` where r < 0.

    Proposition "log_loss_function_smooth" (with the log-softmax taken as 1-smooth), and "loss_function_smooth" for the
    negative rewards, which keep the original loss.
    """
    return np.abs(reward) * np.where(reward < 0.0, softmax_smoothness(), 1.0) / propensity


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


def opt_emp_risk(log: BanditLog) -> float:
    """Return OptEmpRisk, the least empirical risk any policy can have on this log.

    The risk is linear in the policy, so the best one takes, in every context, the action with the greatest sum of
    ``r/p`` over the samples that share that context (zero for an action never logged there). Where actions are masked,
    samples that share a context but not the mask are told apart.
    """
    gain = log.reward / log.propensity
    groups = _shared_contexts(log)
    best = np.maximum(gain, np.where(n_eligible(log) > 1, 0.0, -np.inf))[groups.alone].sum()
    sums = groups.sums(gain, log)
    best += np.where(groups.eligible(log), sums, -np.inf).max(axis=1, initial=-np.inf).sum()
    return float(-best / log.n_samples)


def excess_emp_risk_0(log: BanditLog) -> float:
    """Return ExcessEmpRisk_0: how far the uniform policy is from the best on this log."""
    return emp_risk_uniform(log) - opt_emp_risk(log)


def opt_surrogate_risk(log: BanditLog) -> float:
    """Return the greatest certified lower bound of the surrogate risk over all policies.

    Per context with ``c_a = sum r/p`` over its samples with r >= 0 and ``d_a = sum |r|/p`` over those with r < 0, the
    problem ``min_pi sum_a d_a pi_a - c_a (ln pi_a + 1)`` is convex. Its dual in the multiplier of ``sum pi = 1`` has
    one variable t: ``max_t sum_a c_a ln((d_a - d_min + t) / c_a) - t + d_min``. Every t gives a lower bound, so the
    result is valid whatever rounding does to the maximiser.
    """
    gain = log.reward / log.propensity
    groups = _shared_contexts(log)
    best = -np.maximum(gain, np.where(n_eligible(log) > 1, 0.0, -np.inf))[groups.alone].sum()
    cost_sum = np.where(groups.eligible(log), groups.sums(np.maximum(-gain, 0.0), log), np.inf)
    best += _surrogate_dual(groups.sums(np.maximum(gain, 0.0), log), cost_sum).sum()
    return float(best / log.n_samples)


def _surrogate_dual(reward_sum: FloatArray, cost_sum: FloatArray) -> FloatArray:
    """Maximise the dual of `opt_surrogate_risk` by bisection, all contexts at once."""
    if len(reward_sum) == 0:
        return np.zeros(0)
    cost_min = cost_sum.min(axis=1)
    slack = cost_sum - cost_min[:, None]
    low, high = np.zeros(len(slack)), reward_sum.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(200):  # the derivative sum c/(slack + t) - 1 falls in t; at t = sum c it is not positive
            middle = (low + high) / 2.0
            slope = np.where(reward_sum > 0.0, reward_sum / (slack + middle[:, None]), 0.0).sum(axis=1) - 1.0
            low, high = np.where(slope > 0.0, middle, low), np.where(slope > 0.0, high, middle)
        terms = np.where(reward_sum > 0.0, reward_sum * np.log((slack + high[:, None]) / reward_sum), 0.0)
    return terms.sum(axis=1) - high + cost_min


@dataclass(frozen=True)
class _SharedContexts:
    """Samples alone in their context, and the groups of those that are not."""

    alone: npt.NDArray[np.bool_]  # (n_samples,)
    group: npt.NDArray[np.intp]  # group number of each sample that is not alone
    first: npt.NDArray[np.intp]  # a sample of each group

    def sums(self, values: FloatArray, log: BanditLog) -> FloatArray:
        """Return sums of ``values`` by group and logged action, of shape (n_groups, n_actions)."""
        shared = ~self.alone
        cell = self.group * log.n_actions + log.action_idx[shared]
        totals = np.bincount(cell, weights=values[shared], minlength=len(self.first) * log.n_actions)
        return np.asarray(totals, dtype=np.float64).reshape(len(self.first), log.n_actions)

    def eligible(self, log: BanditLog) -> npt.NDArray[np.bool_]:
        """Return which actions each group may choose, of shape (n_groups, n_actions)."""
        if log.action_mask is None:
            return np.ones((len(self.first), log.n_actions), dtype=np.bool_)
        return log.action_mask[self.first]


def _shared_contexts(log: BanditLog) -> _SharedContexts:
    group = group_identical_contexts(log.context)
    if log.action_mask is not None:
        by_mask = group_identical_contexts(log.action_mask.astype(np.float32))
        _, group = np.unique(np.stack([group, by_mask]), axis=1, return_inverse=True)
        group = group.reshape(-1)
    alone = np.bincount(group)[group] == 1
    _, first, dense_group = np.unique(group[~alone], return_index=True, return_inverse=True)
    return _SharedContexts(alone, dense_group.reshape(-1), np.flatnonzero(~alone)[first])


def theorem_1_bound(excess_emp_risk_0: float, ensemble_weights: npt.ArrayLike, scale: float) -> float:
    """Return Theorem 1's bound on the excess empirical risk.

    ``ExcessEmpRisk_0 · exp(-C / (4 ExcessEmpRisk_0) · sum_t alpha_t²)``, for predictors rescaled to
    ``mean(|r|/p · ‖f_t(x)‖²) = C``.

    >>> round(theorem_1_bound(1.0, [1.0, 1.0], scale=2.0), 6)
    0.367879
    """
    squares = np.square(np.asarray(ensemble_weights, dtype=np.float64)).sum()
    return excess_risk_after(excess_emp_risk_0, float(scale * squares / 4.0))


def excess_risk_after(excess_risk_0: float, total_decrease: float) -> float:
    """Return ``E_0 · exp(-D / E_0)``: Theorem 1 in terms of the sum D of guaranteed decreases.

    For BOPL ``D = C/4 · sum alpha²``; the same proof holds for the surrogate risk and its decreases.
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
