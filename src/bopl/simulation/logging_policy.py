"""Logging policies for simulations: a weak multinomial-logistic softmax of a chosen strength."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.log.context import read_context
from bopl.objective.softmax import both_classes, softmax
from bopl.policy.policy import Policy

REWARD_TOLERANCE = 5e-4  # tolerance of the logging reward around its target
MAX_MISS = 0.02  # a larger miss is an error, a smaller one a warning
WEAKEST, STRONGEST = -9.0, 3.0  # powers of ten of the inverse penalty


def one_blas_thread() -> Any:
    """Return a context in which matrix products use one thread.

    With more threads, sums run in another order: the last digits of a propensity, and occasionally a drawn action,
    would depend on the machine.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


@dataclass(frozen=True, eq=False)
class LinearLoggingPolicy(Policy):
    """Softmax of linear scores, mixed with uniform exploration.

    ``pi(a | x) = (1 - epsilon) · softmax(x·coef + intercept) + epsilon / n_actions``
    """

    actions_: AnyArray
    coef: FloatArray  # (n_features, n_actions)
    intercept: FloatArray  # (n_actions,)
    epsilon: float = 0.0

    def predict_proba(self, context: Any) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""
        matrix, _ = read_context(context)
        with one_blas_thread():
            score = np.asarray(matrix @ self.coef, dtype=np.float64) + self.intercept
        action_prob = softmax(score)
        return (1.0 - self.epsilon) * action_prob + self.epsilon / len(self.actions_)


def fit_logging_policy(
    context: Any,
    reward: FloatArray,
    *,
    actions: AnyArray,
    target_reward: float,
    epsilon: float = 0.0,
    evaluation: tuple[Any, FloatArray] | None = None,
) -> LinearLoggingPolicy:
    """Fit a logging policy with the expected reward ``target_reward``, by solving for its ridge penalty.

    Parameters
    ----------
    context : array-like of shape (n_samples, n_features)
        Contexts of the training part.
    reward : ndarray of shape (n_samples, n_actions)
        Reward of every action; the policy learns to imitate the best actions of each row.
    actions : ndarray of shape (n_actions,)
        Labels that can be chosen.
    target_reward : float
        Must lie between the uniform policy's reward and that of the least penalised fit. A policy that misses it by
        more than 0.0005 causes a warning, and by more than 0.02 an error.
    epsilon : float in [0, 1], default=0
        Share of uniform exploration.
    evaluation : (context, reward), optional
        Where to measure the expected reward; on the training part by default.
    """
    check_number("epsilon", epsilon, low=0.0, high=1.0)
    matrix, _ = read_context(context)
    on_context, on_reward = (matrix, reward) if evaluation is None else (read_context(evaluation[0])[0], evaluation[1])

    def value(policy: LinearLoggingPolicy) -> float:
        return float((policy.predict_proba(on_context) * on_reward).sum(axis=1).mean())

    low, high = WEAKEST, STRONGEST  # the reward increases from one to the other
    for _ in range(30):
        middle = (low + high) / 2.0
        policy = _fit_ridge(matrix, reward, actions, C=10.0**middle, epsilon=epsilon)
        reached = value(policy)
        if abs(reached - target_reward) < REWARD_TOLERANCE:
            break
        low, high = (middle, high) if reached < target_reward else (low, middle)
    miss = abs(reached - target_reward)
    if miss > MAX_MISS:
        ends = [
            value(_fit_ridge(matrix, reward, actions, C=10.0**power, epsilon=epsilon)) for power in (WEAKEST, STRONGEST)
        ]
        raise ValueError(
            f"no penalty gives a logging policy with reward {target_reward:g}: the weakest earns {ends[0]:.4f}, the "
            f"strongest {ends[1]:.4f}. Choose a target between the two."
        )
    if miss >= REWARD_TOLERANCE:
        warnings.warn(
            f"the logging policy earns {reached:.4f}, {miss:.4f} off the requested {target_reward:g}: no penalty comes "
            "nearer.",
            stacklevel=2,
        )
    return policy


def _fit_ridge(
    context: ContextMatrix, reward: FloatArray, actions: AnyArray, *, C: float, epsilon: float
) -> LinearLoggingPolicy:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler()
    row, label = np.nonzero(reward == reward.max(axis=1, keepdims=True))  # all best actions of a row, equally
    if len(np.unique(label)) < 2:
        raise ValueError(
            f"action {actions[label[0]]} is the best of every row the logging policy is fitted on; it needs rows with "
            "different best actions, more of them or others."
        )
    weight = 1.0 / np.bincount(row)[row]
    model = LogisticRegression(C=C, tol=1e-5, max_iter=200)
    with warnings.catch_warnings():  # stopping early helps to keep the policy weak
        warnings.simplefilter("ignore", ConvergenceWarning)
        with one_blas_thread():
            model.fit(scaler.fit_transform(context)[row], label, sample_weight=weight)
    coef = np.zeros((context.shape[1], len(actions)))
    intercept = np.full(len(actions), -20.0)  # an action that was never best is hardly ever taken
    weights, bias = both_classes(model.coef_, model.intercept_)
    coef[:, model.classes_] = weights.T / scaler.scale_[:, None]
    intercept[model.classes_] = bias
    return LinearLoggingPolicy(actions, coef, intercept, epsilon)
