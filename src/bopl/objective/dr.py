"""Doubly robust: boosting a reward model's estimate of the policy's reward, corrected by the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bopl import theory
from bopl._exact import Limbs, add_by_group, limbs_of, no_limbs, values_of
from bopl._typing import FloatArray
from bopl.objective.protocol import RowWise, check_options
from bopl.objective.terms import RewardTerms
from bopl.objective.training_data import TrainingData
from bopl.objective.weight import Plain, Weight


@dataclass(frozen=True)
class DR(RowWise):
    """Risk ``mean(-sum_a pi(a) · Gamma[i, a])`` with ``Gamma = q̂ + 1{a = a_i} · (r - q̂)/p`` (Dudík et al., 2011).

    With q̂ = 0 it is `IPS`. The better the reward model, the less the propensities matter.

    Parameters
    ----------
    weight : Weight, default=Plain()
        How the propensity weights the residuals of the reward model.
    self_normalised : bool, default=False
        Scale the weights ``1/p`` of every action's samples to their expected mean, one per sample of the log: less
        variance if an action was logged more or less often than its propensities said.
    smoothness : {"sharp", "paper"}, default="sharp"
        Curvature ``range(Gamma)·√3/9``, or with the paper's constant ``range(Gamma)/2``.
    """

    name: ClassVar[str] = "dr"
    title: ClassVar[str] = "doubly robust risk"
    needs_reward_model: ClassVar[bool] = True

    weight: Weight = field(default_factory=Plain)
    self_normalised: bool = False
    smoothness: str = "sharp"

    def __post_init__(self) -> None:
        check_options(self.weight, self.smoothness)

    def bind(self, data: TrainingData) -> RewardTerms:
        """Return the terms of a log: ``dense = q̂``, ``linear = (r - q̂)/p``, weight ``range(Gamma)``."""
        return self.for_parts(self.sums_of(data)).bind(data)

    def sums_of(self, data: TrainingData) -> Limbs | None:
        """Return the actual and the expected sum of every action's weights, of shape (2, n_actions), in limbs.

        The expected sum counts the samples in which the action is eligible. Sample weights count on both sides.
        """
        if not self.self_normalised:
            return None
        weight = np.ones(data.n_samples) if data.sample_weight is None else data.sample_weight
        sums = no_limbs(2, data.n_actions)
        add_by_group(weight / data.log.propensity, data.action_idx, sums[0])
        for action in range(data.n_actions):
            sums[1, action] = limbs_of(weight if data.action_mask is None else weight[data.action_mask[:, action]])
        return sums

    def for_parts(self, sums: Limbs | None) -> PartDR:
        """Return what binds the parts of a log, given the sums over all of it."""
        if sums is None:
            return PartDR(self, None)
        # From exact sums, so that a log in pieces gets the factors of the log in memory, to the last bit. An action
        # that was never logged has nothing to scale.
        total, expected = values_of(sums[0]), values_of(sums[1])
        return PartDR(self, np.divide(expected, total, out=np.ones_like(total), where=total > 0.0))


@dataclass(frozen=True, eq=False)
class PartDR:
    """`DR` of a part of a log."""

    settings: DR
    factor: FloatArray | None  # (n_actions,): multiplies each action's weights, so that they average one

    def bind(self, data: TrainingData) -> RewardTerms:
        """Return the terms of some samples."""
        estimate = np.asfortranarray(data.require_reward_estimate("the doubly robust objective"))
        linear = self.settings.weight(data.log.reward - data.logged(estimate), data.log.propensity)
        if self.factor is not None:
            linear = linear * self.factor[data.action_idx]
        if data.sample_weight is not None:  # every term of a sample is linear in its weight
            linear, estimate = linear * data.sample_weight, estimate * data.sample_weight[:, None]
        # sum_a pi(a)·Gamma(a) does not change where all Gamma of a sample move together, so it bends with their range,
        # not their size: the paper's |r|/p (Prop. "loss_function_smooth") is the range with q̂ = 0.
        spread = _range_of(estimate, linear, data)
        curvature = spread * theory.softmax_smoothness(smoothness=self.settings.smoothness)
        return RewardTerms(data, linear, np.zeros_like(linear), estimate, spread, curvature)


def _range_of(dense: FloatArray, linear: FloatArray, data: TrainingData) -> FloatArray:
    """Return ``range(Gamma_i)`` over eligible actions, without building Gamma."""
    rows, logged = np.arange(data.n_samples), data.action_idx
    value = dense[rows, logged] + linear
    low, high = value.copy(), value.copy()
    for action in range(data.n_actions):  # column by column: (n_samples,) at a time
        column = dense[:, action]
        counts = logged != action
        if data.action_mask is not None:
            counts = counts & data.action_mask[:, action]
        np.minimum(low, column, out=low, where=counts)
        np.maximum(high, column, out=high, where=counts)
    return high - low
