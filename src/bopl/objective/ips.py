"""BOPL: boosting the inverse-propensity estimate of the policy's reward (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bopl import theory
from bopl.objective.protocol import OfWeightedReward
from bopl.objective.terms import RewardTerms
from bopl.objective.training_data import TrainingData


@dataclass(frozen=True)
class IPS(OfWeightedReward):
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

    def bind(self, data: TrainingData) -> RewardTerms:
        """Return the terms of a log: ``linear = v``, weight ``|v|``."""
        value = self.value(data)
        # Prop. "loss_function_smooth": each loss is (|v| · smoothness of the softmax)-smooth in its scores.
        curvature = theory.loss_smoothness(value, smoothness=self.smoothness)
        return RewardTerms(data, value, np.zeros_like(value), None, np.abs(value), curvature)
