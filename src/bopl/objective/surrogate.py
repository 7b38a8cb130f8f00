"""BOPL-S: boosting a surrogate that is convex where the reward is not negative (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl import theory
from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.objective.base import StepTarget
from bopl.objective.ips import pull_towards_logged
from bopl.objective.softmax import log_softmax


@dataclass(frozen=True)
class SurrogateObjective:
    """Surrogate risk (Eq. "surrogate_objective"): ``-r/p · pi`` where r < 0, ``-r/p · (ln pi + 1)`` where r >= 0.

    It bounds the empirical risk from above. With no negative reward (``reward_translation = 0`` on non-negative
    rewards) it is convex in the scores: that is BOPL-CS.
    """

    name: str = "surrogate"

    def step_target(self, log: BanditLog, score: FloatArray) -> StepTarget:
        """Return BOPL's gradient where r < 0, the same without the factor ``pi(a_i)`` where r >= 0.

        Weight and curvature are both ``|r|·b/p`` with b = 1/2 where r < 0, else 1.
        """
        log_prob = log_softmax(score, log.action_mask)
        logged_log_prob = log_prob[np.arange(log.n_samples), log.action_idx]
        # GradSwitch of Algorithm 2: pi(a_i) if r < 0, else 1.
        grad_switch = np.where(log.reward < 0.0, np.exp(logged_log_prob), 1.0)
        smoothness = theory.surrogate_loss_smoothness(log.reward, log.propensity)
        return StepTarget(
            gradient=pull_towards_logged(log, log_prob, log.reward / log.propensity * grad_switch),
            weight=smoothness,
            curvature=smoothness,
            log_prob=logged_log_prob,
        )

    def risk(self, log: BanditLog, log_prob: FloatArray) -> float:
        """Return the surrogate risk, an upper bound of the empirical risk."""
        per_sample = np.where(log.reward < 0.0, np.exp(log_prob), log_prob + 1.0)
        return float(np.mean(-log.reward / log.propensity * per_sample))

    def optimal_risk(self, log: BanditLog) -> float:
        """Return a lower bound of the surrogate risk of every policy, tight up to rounding."""
        return theory.opt_surrogate_risk(log)
