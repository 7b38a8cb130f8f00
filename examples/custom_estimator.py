"""Your own estimator: IPS of the rewards minus a baseline, which is added back afterwards.

Run it with `python examples/custom_estimator.py`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import bopl


# --8<-- [start:estimator]
@dataclass(frozen=True)
class BaselineIPS(bopl.evaluation.MeanEstimator):
    """``b + mean(w · (r - b))``: weights multiply only the difference between reward and baseline b."""

    baseline: float | None = None
    name: ClassVar[str] = "baseline_ips"
    is_unbiased: ClassVar[bool] = False  # to order 1/n, unless the baseline is given
    needs_pilot: ClassVar[bool] = True  # `tuned` looks at the samples

    def tuned(self, pilot):
        """Take the mean reward if no baseline is given; it then stays fixed in the bootstrap."""
        if self.baseline is not None:
            return self
        return replace(self, baseline=float(pilot.terms.reward.mean()))

    def moments(self, terms):
        """One row per sample: its term of the value, and of the uplift (the log itself has w = 1)."""
        weight, above = terms.importance_weight, terms.reward - self.baseline
        return np.column_stack([self.baseline + weight * above, (weight - 1.0) * above])


# --8<-- [end:estimator]

if __name__ == "__main__":
    world = bopl.simulation.make_world("plain", n_samples=4000)
    sample = world.sample(random_state=0)
    evaluation = bopl.evaluate(
        sample.log, {"new": sample.policy_prob}, estimators=["ips", "snips", BaselineIPS()], interval="bootstrap"
    )
    print(evaluation)
    print(f"The truth is {world.value:.4f}, its uplift {world.value - world.logging_value:+.4f}.")
