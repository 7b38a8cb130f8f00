"""What the weights of a policy say about whether the log can answer for it; accumulated block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import BoolArray, FloatArray
from bopl.evaluation.moments import MomentSum
from bopl.log.weight import mean_weight_z, tail_index, top_share

TAIL_ROWS = 100_000  # largest weights that are kept: the top 1% of ten million samples


@dataclass(frozen=True)
class WeightFacts:
    """The weights of one policy, summed up.

    Attributes
    ----------
    n_samples : int
    ess : float
        Effective sample size, ``sum(w)² / sum(w²)``.
    mean, max : float
    mean_z : float
        How many standard errors the mean is from 1.
    tail_index : float
        Hill's estimate; infinite if the largest weights are alike.
    top_share : float
        Part of ``sum(w |r|)`` in the top 1% of the weights.
    single_share : float
        Part of ``sum(w²)`` in the largest weight: what one sample has of the variance.
    unsupported_mass : float
        Mean probability that the policy gives to actions the log never took, or that could not be chosen; NaN if the
        probabilities of all actions are not known.
    """

    n_samples: int
    ess: float
    mean: float
    max: float
    mean_z: float
    tail_index: float
    top_share: float
    single_share: float
    unsupported_mass: float


class WeightTotals:
    """Sums from which `WeightFacts` follow."""

    def __init__(self, n_actions: int) -> None:
        self.weight = MomentSum.empty(1)
        self.max = 0.0
        self.total = 0.0
        self.largest, self.contribution = np.zeros(0), np.zeros(0)
        self.action_mass: FloatArray | None = np.zeros(n_actions)
        self.forbidden_mass = 0.0

    def add(
        self,
        weight: FloatArray,
        reward: FloatArray,
        action_prob: FloatArray | None,
        impossible: BoolArray | None = None,
    ) -> None:
        """Add samples.

        Parameters
        ----------
        weight, reward : ndarray of shape (n_rows,)
        action_prob : ndarray of shape (n_rows, n_actions) or None
        impossible : boolean ndarray of shape (n_rows, n_actions), optional
            Actions that the logging policy could not choose.
        """
        contribution = weight * np.abs(reward)
        self.weight = self.weight + MomentSum.of(weight[:, None])
        self.max = max(self.max, float(weight.max()))
        self.total += float(contribution.sum())
        self._keep(weight, contribution)
        if action_prob is None or self.action_mass is None:
            self.action_mass = None
        elif impossible is None:
            self.action_mass += action_prob.sum(axis=0)
        else:
            self.forbidden_mass += float((action_prob * impossible).sum())
            self.action_mass += np.where(impossible, 0.0, action_prob).sum(axis=0)

    def merge(self, other: WeightTotals) -> None:
        """Add the sums of another shard."""
        self.weight = self.weight + other.weight
        self.max, self.total = max(self.max, other.max), self.total + other.total
        self._keep(other.largest, other.contribution)
        both = self.action_mass is not None and other.action_mass is not None
        self.action_mass = self.action_mass + other.action_mass if both else None  # type: ignore[operator]
        self.forbidden_mass += other.forbidden_mass

    def _keep(self, weight: FloatArray, contribution: FloatArray) -> None:
        full = len(self.largest) == TAIL_ROWS
        large = weight > self.largest.min() if full else np.ones(len(weight), dtype=np.bool_)
        self.largest = np.concatenate([self.largest, weight[large]])
        self.contribution = np.concatenate([self.contribution, contribution[large]])
        if len(self.largest) > TAIL_ROWS:
            top = np.argpartition(self.largest, len(self.largest) - TAIL_ROWS)[-TAIL_ROWS:]
            self.largest, self.contribution = self.largest[top], self.contribution[top]

    def facts(self, action_count: FloatArray) -> WeightFacts:
        """Return what the sums say; ``action_count`` says how often the log took each action."""
        n_samples, mean = self.weight.n_samples, float(self.weight.mean[0])
        scatter = float(self.weight.scatter[0, 0])
        second = scatter + n_samples * mean**2
        std = float(np.sqrt(scatter / max(n_samples - 1, 1)))
        unsupported = float("nan")
        if self.action_mass is not None:
            unsupported = (float(self.action_mass[action_count == 0].sum()) + self.forbidden_mass) / n_samples
        return WeightFacts(
            n_samples=n_samples,
            ess=(n_samples * mean) ** 2 / second if second > 0.0 else 0.0,
            mean=mean,
            max=self.max,
            mean_z=mean_weight_z(n_samples, mean, std),
            tail_index=tail_index(self.largest, n_samples),
            top_share=top_share(self.largest, self.contribution, n_samples, self.total),
            single_share=self.max**2 / second if second > 0.0 else 0.0,
            unsupported_mass=unsupported,
        )
