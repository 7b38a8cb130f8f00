"""BOPL: boosting the inverse-propensity estimate of the policy's reward (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl import theory
from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.objective.base import StepTarget
from bopl.objective.softmax import log_softmax


@dataclass(frozen=True)
class IPSObjective:
    """Empirical risk ``mean(-r/p · pi(a_i | x_i))`` (Eq. "ips_estimator"), not convex but unbiased."""

    name: str = "ips"

    def step_target(self, log: BanditLog, score: FloatArray) -> StepTarget:
        """Return ``G = r/p · pi(a_i) · (1{a = a_i} - pi(a))``, ``w = |r|/p`` and ``s = |r|/(2p)``."""
        log_prob = log_softmax(score, log.action_mask)
        logged_log_prob = log_prob[np.arange(log.n_samples), log.action_idx]
        pull = log.reward / log.propensity * np.exp(logged_log_prob)
        return StepTarget(
            gradient=pull_towards_logged(log, log_prob, pull),
            weight=np.abs(log.reward) / log.propensity,
            curvature=theory.loss_smoothness(log.reward, log.propensity),
            log_prob=logged_log_prob,
        )

    def risk(self, log: BanditLog, log_prob: FloatArray) -> float:
        """Return ``mean(-r/p · pi(a_i | x_i))``."""
        return float(np.mean(-log.reward / log.propensity * np.exp(log_prob)))

    def optimal_risk(self, log: BanditLog) -> float:
        """Return OptEmpRisk of Theorem 1."""
        return theory.opt_emp_risk(log)


def pull_towards_logged(log: BanditLog, log_prob: FloatArray, pull: FloatArray) -> FloatArray:
    """Return ``pull[i] · (1{a = a_i} - pi(a | x_i))``: the shape all gradients of a softmax policy share."""
    gradient = np.exp(log_prob)
    gradient *= -pull[:, None]
    gradient[np.arange(log.n_samples), log.action_idx] += pull
    return gradient
