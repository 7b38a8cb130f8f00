"""What has been accumulated of one policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation.diagnosis import TrainedRows, WeightTotals
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import primary_position
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.rounding import RoundingTotals
from bopl.evaluation.sample_terms import Terms


class PolicyTotals:
    """What has been accumulated of one policy."""

    def __init__(self, name: str, estimators: Sequence[Estimator], n_actions: int) -> None:
        self.name = name
        self.estimators = list(estimators)
        self.primary = primary_position(self.estimators)
        self.sums = [SampleSums() for _ in self.estimators]
        self.n_clipped = np.zeros(len(self.estimators))
        self.lost_weight = np.zeros(len(self.estimators))  # sum of w - v(w)
        self.square_left = np.zeros(len(self.estimators))  # sum of squares of what weights are to tell: r, or r - q
        self.weights = WeightTotals(n_actions)
        self.trained = TrainedRows()
        self.rounding = RoundingTotals(len(self.estimators))
        self.kept_weight: list[FloatArray] = []

    def add(self, terms: Terms, group: Any, *, keep: bool) -> FloatArray:
        """Add some rows; return the moments of all estimators side by side."""
        columns = [estimator.moments(terms) for estimator in self.estimators]
        weight = terms.importance_weight
        for position, moments in enumerate(columns):
            estimator, sums = self.estimators[position], self.sums[position]
            sums.add(moments, group)
            self.rounding.add(position, estimator, [terms], estimator.moments, sums.mean)
            self.n_clipped[position] += estimator.is_clipped(weight).sum()
            used = estimator.modified(weight)
            if used is not weight:  # most estimators use the weights as they are
                self.lost_weight[position] += (weight - used).sum()
                left = terms.modelled[1] if estimator.needs_model else terms.reward
                self.square_left[position] += (left**2).sum()
        if keep:
            self.kept_weight.append(weight)
        return np.hstack(columns)

    def merge(self, other: PolicyTotals) -> None:
        """Add the sums of another shard with the same estimators."""
        for mine, yours in zip(self.sums, other.sums, strict=True):
            mine.merge(yours)
        self.n_clipped += other.n_clipped
        self.lost_weight += other.lost_weight
        self.square_left += other.square_left
        self.weights.merge(other.weights)
        self.trained.merge(other.trained)
        self.rounding.merge(other.rounding)
        self.kept_weight += other.kept_weight
