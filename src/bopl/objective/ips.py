"""BOPL: boosting the inverse-propensity estimate of the policy's reward (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bopl import theory
from bopl.objective.base import RowWise, check_options, weighted_rewards
from bopl.objective.terms import RewardTerms
from bopl.objective.training_data import TrainingData
from bopl.objective.weight import Plain, Weight


@dataclass(frozen=True)
class IPS(RowWise):
    """Empirical risk ``mean(-v · pi(a_i | x_i))`` with ``v = r/p`` (Eq. "ips_estimator"), not convex but unbiased.

    Parameters
    ----------
    weight : Weight, default=Plain()
        How rewards are weighted by their propensities.
    smoothness : {"sharp", "paper"}, default="sharp"
        Curvature ``|v|·√3/9``, or the paper's ``|v|/2``.
    """

    name: ClassVar[str] = "ips"
    title: ClassVar[str] = "inverse-propensity risk"
    needs_reward_model: ClassVar[bool] = False

    weight: Weight = field(default_factory=Plain)
    smoothness: str = "sharp"

    def __post_init__(self) -> None:
        check_options(self.weight, self.smoothness)

    def bind(self, data: TrainingData) -> RewardTerms:
        """Return the terms of a log: ``linear = v``, weight ``|v|``."""
        value = weighted_rewards(data, self.weight)
        curvature = theory.loss_smoothness(value, smoothness=self.smoothness)
        return RewardTerms(data, value, np.zeros_like(value), None, np.abs(value), curvature)
