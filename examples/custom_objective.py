"""Your own objective: IPS with clipped inverse propensities, so that no sample drowns out the others.

Run it with `python examples/custom_objective.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bopl
from bopl.objective import RewardTerms, register_objective


# --8<-- [start:objective]
@dataclass(frozen=True)
class ClippedObjective:
    """Risk ``mean(-r · min(1/p, clip) · pi(a_i | x_i))``: less variance than IPS, some bias."""

    clip: float = 20.0
    name: ClassVar[str] = "clipped"
    title: ClassVar[str] = "clipped risk"
    needs_reward_model: ClassVar[bool] = False

    def bind(self, data):
        value = data.log.reward * np.minimum(1.0 / data.log.propensity, self.clip)
        value = value if data.sample_weight is None else value * data.sample_weight
        return RewardTerms(
            data,
            linear=value,  # times pi(a_i)
            log=np.zeros_like(value),  # times ln pi(a_i) + 1
            dense=None,  # times the probabilities of all actions
            weight=np.abs(value),
            curvature=np.abs(value) * np.sqrt(3.0) / 9.0,  # a softmax probability is √3/9-smooth in the scores
        )


# --8<-- [end:objective]

register_objective(ClippedObjective)  # so that a saved policy is loaded with it

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    learner = bopl.HistTree(max_depth=14, min_child_weight=20.0)
    for objective in ("ips", ClippedObjective(clip=20.0)):
        policy = bopl.BoostedPolicy(objective, learner, n_rounds=60, reward_translation=-0.2, random_state=0)
        policy.fit(problem.train)
        history = policy.history_
        assert (history.objective_risk <= history["recursive_bound"] + 1e-9).all()  # the certificate holds for both
        print(f"{history.objective:8s} true reward {problem.true_value(policy):.3f}")
