"""An objective of your own: IPS whose inverse propensities are cut, so that no sample shouts the others down.

Run it with `python examples/custom_objective.py`.
"""

from dataclasses import dataclass

import numpy as np

import bopl
from bopl import theory
from bopl.objective import StepTarget
from bopl.objective.ips import pull_towards_logged
from bopl.objective.softmax import log_softmax


# --8<-- [start:objective]
@dataclass(frozen=True)
class ClippedObjective:
    """Risk ``mean(-r · min(1/p, cut) · pi(a_i | x_i))``: less variance than IPS, some bias."""

    cut: float = 20.0
    name: str = "clipped"

    def gain(self, log):
        return log.reward * np.minimum(1.0 / log.propensity, self.cut)

    def step_target(self, log, score):
        log_prob = log_softmax(score, log.action_mask)
        logged, gain = log_prob[np.arange(log.n_samples), log.action_idx], self.gain(log)
        return StepTarget(
            gradient=pull_towards_logged(log, log_prob, gain * np.exp(logged)),
            weight=np.abs(gain),
            curvature=np.abs(gain) / 2.0,  # a softmax probability is 1/2-smooth in the scores
            log_prob=logged,
        )

    def risk(self, log, log_prob):
        return float(np.mean(-self.gain(log) * np.exp(log_prob)))

    def optimal_risk(self, log):
        return theory.opt_emp_risk(log.with_propensity(np.maximum(log.propensity, 1.0 / self.cut)))


# --8<-- [end:objective]

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    learner = bopl.HistTree(max_depth=14, min_child_weight=20.0)
    for objective in ("ips", ClippedObjective(cut=20.0)):
        policy = bopl.BoostedPolicy(objective, learner, n_rounds=60, reward_translation=-0.2, random_state=0)
        policy.fit(problem.train)
        history = policy.history_
        assert (history.objective_risk <= history["recursive_bound"] + 1e-9).all()  # the certificate holds for both
        print(f"{history.objective:8s} true reward {problem.true_value(policy):.3f}")
