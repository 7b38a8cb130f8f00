"""Your own clipped estimator. It declares that it clips, so the verdict treats it like the built-in one.

Run it with `python examples/custom_clip.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bopl
from bopl.evaluation import MeanEstimator, register_estimator


# --8<-- [start:clip]
@register_estimator
@dataclass(frozen=True)
class TrimmedIPS(MeanEstimator):
    """``mean(min(w, most) · r)``."""

    most: float = 10.0
    name: ClassVar[str] = "trimmed_ips"
    title: ClassVar[str] = "Trimmed IPS"
    about: ClassVar[str] = "As IPS with weights of at most ten."
    is_unbiased: ClassVar[bool] = False
    clips_weights: ClassVar[bool] = True  # so that the verdict checks how much is lost

    def modified(self, importance_weight):
        return np.minimum(importance_weight, self.most)

    def is_clipped(self, importance_weight):
        return importance_weight > self.most

    def moments(self, terms):
        weight = self.modified(terms.importance_weight)
        return np.column_stack([weight * terms.reward, (weight - 1.0) * terms.reward])


# --8<-- [end:clip]

if __name__ == "__main__":
    sample = bopl.simulation.make_world("plain", n_samples=4000).sample(random_state=0)
    ours = bopl.evaluation.ClippedIPS(max_importance_weight=10.0)
    evaluation = bopl.evaluate(sample.log, {"new": sample.policy_prob}, estimators=[ours, "trimmed_ips"])
    print(evaluation)
