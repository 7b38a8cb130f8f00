"""What rounded propensities can do to an estimate: weights are then known up to limits, and so are value and uplift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bopl._typing import FloatArray
from bopl._weight import mean_weight_gap
from bopl.evaluation.diagnosis import WeightFacts
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.interval import Bounds
from bopl.evaluation.sample_terms import Terms
from bopl.log import BanditLog
from bopl.log.propensity_grid import Grid, find_grid


@dataclass(frozen=True)
class Rounding:
    """How the propensities of a log were rounded."""

    grid: Grid | None = None  # None if they were not, as far as one sees

    @classmethod
    def of(cls, log: BanditLog, propensities: Iterable[FloatArray]) -> Rounding:
        """Return how the propensities of all parts of a log were rounded; no part is read after one that was not.

        Only logged propensities are looked at, for others were computed, and those that nobody has called exact.
        ``log`` is the first part, ``propensities`` are those of every part.
        """
        if log.propensity_source != "logged" or log.exact_propensity:
            return cls()
        found = np.zeros(0)
        for values in propensities:
            if find_grid(values) is None:
                return cls()
            found = np.union1d(found, values)
        grid = find_grid(found)
        return cls() if grid is None or not grid.may_be_rounded(log.n_actions) else cls(grid)

    def error(self, propensity: FloatArray) -> FloatArray | None:
        """Return by which share rounding can have moved each propensity; None if they are not rounded."""
        return None if self.grid is None else np.minimum(self.grid.half_unit(propensity) / propensity, 0.5)


MAX_EXCUSED = 0.05  # of a mean weight: rounding errs to both sides, and what is farther off has another cause


class RoundingTotals:
    """Sums of the least and the largest that rounding can add to value and uplift, for one policy.

    Every weight may lie between ``w / (1 + e)`` and ``w / (1 - e)``, e being the relative error of the propensity. With
    the gradient of the estimate at the means so far, each sample adds the least and the largest of its two ends.
    """

    def __init__(self, n_estimators: int) -> None:
        self.total = np.zeros((n_estimators, 2, 2))  # least and largest, of value and uplift
        self.fall = self.rise = 0.0  # by how much the sum of the weights can be lower, and higher, than it seems

    def add(
        self,
        position: int,  # of the estimator
        estimator: Estimator,
        # of the policy, or of two that are compared: one propensity moves the weights of both alike
        terms: Sequence[Terms],
        moments: Callable[..., FloatArray],  # from terms to moments
        mean: FloatArray,  # (n_moments,): their means, as far as they are known
    ) -> None:
        """Add some rows under one estimator."""
        error = terms[0].error
        if error is None:
            return
        gradient = np.column_stack([estimator.value_gradient(mean), estimator.uplift_gradient(mean)])
        ends = [1.0 / (1.0 + error), 1.0 / (1.0 - error)]
        here = moments(*terms)
        moved = [(moments(*(one.scaled(end) for one in terms)) - here) @ gradient for end in ends]
        self.total[position, 0] += np.minimum(np.minimum(*moved), 0.0).sum(axis=0)
        self.total[position, 1] += np.maximum(np.maximum(*moved), 0.0).sum(axis=0)
        if position == 0:
            weight = terms[0].importance_weight
            self.fall += float((weight * (1.0 - ends[0])).sum())
            self.rise += float((weight * (ends[1] - 1.0)).sum())

    def merge(self, other: RoundingTotals) -> None:
        """Add the sums of another shard."""
        self.total += other.total
        self.fall += other.fall
        self.rise += other.rise

    def widened(
        self, position: int, which: int, bounds: Bounds, n_samples: int, limits: Bounds = (-np.inf, np.inf)
    ) -> Bounds:
        """Return the interval of the value (``which=0``) or the uplift (1), with what rounding can add at its ends.

        Rounding takes no end beyond ``limits``, between which the truth lies whatever the propensities are.
        """
        least, largest = self.total[position, :, which] / n_samples
        lower = max(bounds[0] + float(least), min(bounds[0], limits[0]))
        return lower, min(bounds[1] + float(largest), max(bounds[1], limits[1]))

    def allowed(self, facts: WeightFacts) -> WeightFacts:
        """Return the facts with the z-score of what rounding does not explain of the mean weight."""
        gap = abs(mean_weight_gap(facts.mean, facts.unsupported_mass))
        slack = min((self.fall if facts.mean > 1.0 else self.rise) / facts.n_samples, MAX_EXCUSED)
        return (
            facts if slack == 0.0 or gap == 0.0 else replace(facts, mean_z=facts.mean_z * max(1.0 - slack / gap, 0.0))
        )

    def describe(self, position: int, n_samples: int, unit: float = 1.0) -> str:
        """Return by how much the uplift was widened, as a sentence; empty if by nothing."""
        widest = float(np.abs(self.total[position, :, 1]).max()) / n_samples * unit
        if widest == 0.0:
            return ""
        allowed = f" The propensities look rounded: the interval allows for {widest:.2g} from that."
        return f"{allowed} If they are exact, say so with exact_propensity."
