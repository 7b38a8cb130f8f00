"""BOPL-S: boosting a surrogate that is convex where the reward is not negative (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bopl import theory
from bopl.objective.protocol import OfWeightedReward
from bopl.objective.terms import RewardTerms
from bopl.objective.training_data import TrainingData


@dataclass(frozen=True)
class Surrogate(OfWeightedReward):
    """Surrogate risk (Eq. "surrogate_objective"): ``-v · pi`` where v < 0, ``-v · (ln pi + 1)`` where v >= 0.

    It bounds the empirical risk from above. With no negative reward (``reward_translation = 0`` on non-negative
    rewards) it is convex in the scores: that is BOPL-CS. With ``weight=ExponentialSmoothing(0)`` it is the likelihood
    of the logged actions, weighted by their rewards.

    Parameters
    ----------
    weight : Weight, default=Plain()
        How rewards are weighted by their propensities.
    smoothness : {"sharp", "paper"}, default="sharp"
        Curvature ``|v|·√3/9`` where v < 0, else ``v/2``; or the paper's ``|v|/2`` and ``v``.
    """

    name: ClassVar[str] = "surrogate"
    title: ClassVar[str] = "surrogate risk"

    def bind(self, data: TrainingData) -> RewardTerms:
        """Return the terms of a log: ``linear = v`` where v < 0, ``log = v`` elsewhere; weight ``|v|`` where v >= 0."""
        value = self.value(data)
        curvature = theory.surrogate_loss_smoothness(value, smoothness=self.smoothness)
        # Algorithm 2 constrains mean(|v|·s·‖f‖²) with s = 1/2 where v < 0 and 1 elsewhere. The sharp constants are
        # smaller; doubled they are 1 where v >= 0, so that min_child_weight means what it means there.
        weight = curvature if self.smoothness == "paper" else 2.0 * curvature
        return RewardTerms(data, np.minimum(value, 0.0), np.maximum(value, 0.0), None, weight, curvature)
