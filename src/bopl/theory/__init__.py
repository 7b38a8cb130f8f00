"""The paper's theory as functions of a log: smoothness, weak learning, Theorem 1, the excess-risk bound.

Every formula names its place in *Boosted Off-Policy Learning* (London, Lu, Sandler, Joachims, AISTATS 2023). Rewards
are used as they are: pass ``log.translated(…)`` if the reward is translated.
"""

from bopl.theory.excess_risk import (
    ExcessRiskBound,
    error_rate,
    excess_risk_after,
    excess_risk_bound,
    theorem_1_bound,
    weak_learning_edge,
)
from bopl.theory.optimal_risk import (
    emp_risk_uniform,
    excess_emp_risk_0,
    n_eligible,
    opt_emp_risk,
    opt_emp_total,
    opt_risk_of,
    opt_surrogate_risk,
    opt_surrogate_total,
    opt_total_of,
)
from bopl.theory.smoothness import (
    expected_reward_smoothness,
    log_softmax_smoothness,
    loss_smoothness,
    softmax_smoothness,
    surrogate_loss_smoothness,
)

__all__ = [
    "ExcessRiskBound",
    "emp_risk_uniform",
    "error_rate",
    "excess_emp_risk_0",
    "excess_risk_after",
    "excess_risk_bound",
    "expected_reward_smoothness",
    "log_softmax_smoothness",
    "loss_smoothness",
    "n_eligible",
    "opt_emp_risk",
    "opt_emp_total",
    "opt_risk_of",
    "opt_surrogate_risk",
    "opt_surrogate_total",
    "opt_total_of",
    "softmax_smoothness",
    "surrogate_loss_smoothness",
    "theorem_1_bound",
    "weak_learning_edge",
]
