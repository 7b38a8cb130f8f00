"""Bounds on the excess risk: Theorem 1 for the log, the appendix "Excess Population Risk Bound" beyond it.

Weak learning: Eq. "weak_learning_condition", and the appendix "Boosting via Binary Classification".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.theory.smoothness import softmax_smoothness


def theorem_1_bound(
    excess_emp_risk_0: float, ensemble_weights: npt.ArrayLike, scale: float, *, smoothness: str = "sharp"
) -> float:
    """Return Theorem 1's bound on the excess empirical risk.

    ``ExcessEmpRisk_0 · exp(-C s / (2 ExcessEmpRisk_0) · sum_t alpha_t²)``, for predictors rescaled to
    ``mean(|r|/p · ‖f_t(x)‖²) = C`` and ensemble weights computed with the smoothness ``s`` of the softmax.

    Parameters
    ----------
    excess_emp_risk_0 : float
        Empirical risk of the start above OptEmpRisk; see `excess_emp_risk_0`.
    ensemble_weights : array-like of shape (n_rounds,)
        The alphas.
    scale : float
        C.
    smoothness : {"sharp", "paper"}, default="sharp"
        The one that training used. With the paper's, ``C s / 2 = C / 4``; the formula with ``C / 4`` does not hold for
        the longer sharp steps.

    Examples
    --------
    >>> round(theorem_1_bound(1.0, [1.0, 1.0], scale=2.0, smoothness="paper"), 6)
    0.367879
    """
    # Eq. "exp_emp_risk_bound": every round lowers the risk by at least C s alpha²/2, and 1 - x <= exp(-x).
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


@dataclass(frozen=True)
class ExcessRiskBound:
    """The three parts of Eq. "full_excess_risk_bound"; valid together with probability at least ``1 - delta``."""

    excess_empirical_risk: float
    generalization_error: float
    estimation_error: float

    @property
    def total(self) -> float:
        """Bound on the policy's risk above that of the best policy."""
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
        Samples of the log.
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
    # Eq. "rademacher_risk_bound_final" holds for all norms at once, by a union over norms 1, 2, 4, …: hence at least 1.
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


def weak_learning_edge(log: BanditLog, action_prob: FloatArray, prediction: FloatArray) -> float:
    """Return how much better a predictor does on the logged actions than on the current policy's own.

    ``sum_i omega_i sgn(r_i) (f(x_i, a_i) - E_{a ~ pi}[f(x_i, a)])`` with ``omega_i ∝ |r_i|/p_i · pi(a_i | x_i)``
    summing to one. Boosting goes on as long as it is not zero.

    Parameters
    ----------
    log : BanditLog
        Samples of the round.
    action_prob : ndarray of shape (n_samples, n_actions)
        The ensemble policy before the round.
    prediction : ndarray of shape (n_samples, n_actions)
        The round's predictor on the same contexts.
    """
    # (onehot(a_i) - pi)' f is the difference to the policy's mean: the edge is the slope of the risk along f,
    # normalised.
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
