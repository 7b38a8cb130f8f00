"""Your own doubly robust objective: samples with an improbable action use the reward model alone.

Run it with `python examples/custom_dr.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bopl
from bopl.objective import RewardTerms, register_objective


# --8<-- [start:dr]
@register_objective
@dataclass(frozen=True)
class SwitchObjective:
    """``Gamma = q̂ + 1{a = a_i, p >= threshold} · (r - q̂)/p``: no weight is above ``1/threshold``."""

    threshold: float = 0.05
    name: ClassVar[str] = "switch"
    title: ClassVar[str] = "switch risk"
    needs_reward_model: ClassVar[bool] = True  # cross-fitted before `bind` is called

    def bind(self, data):
        estimate = data.require_reward_estimate("the switch objective")  # (n_samples, n_actions)
        residual = data.log.reward - data.logged(estimate)
        correction = np.where(data.log.propensity >= self.threshold, residual / data.log.propensity, 0.0)
        if data.sample_weight is not None:
            correction, estimate = correction * data.sample_weight, estimate * data.sample_weight[:, None]
        spread = np.ptp(estimate, axis=1) + np.abs(correction)  # not below the range of Gamma
        return RewardTerms(
            data,
            linear=correction,
            log=np.zeros_like(correction),
            dense=estimate,
            weight=spread,
            curvature=spread * np.sqrt(3.0) / 9.0,
        )


# --8<-- [end:dr]

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    for objective in ("dr", SwitchObjective()):
        policy = bopl.BoostedPolicy(objective, n_rounds=40, random_state=0).fit(problem.train)
        print(f"{policy.history_.objective:7s} true reward {problem.true_value(policy):.3f}")
