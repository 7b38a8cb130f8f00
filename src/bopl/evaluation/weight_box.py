"""The least and the largest uplift if every weight may lie anywhere between two limits of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.sample_terms import Terms

MAX_STEPS = 50


@dataclass(frozen=True, eq=False)
class WeightBox:
    """Samples whose importance weights are known to lie within limits."""

    terms: Terms  # with the weights as they were estimated
    # (n_rows,): limits of the weights
    low: FloatArray
    high: FloatArray

    def extreme(self, estimator: Estimator, *, largest: bool) -> Terms:
        """Return the terms with the weights within their limits that make the uplift smallest, or largest.

        An uplift that is linear in the weights is extreme where every weight is at one of its limits. One that is a
        ratio of linear functions is, too: which limit a sample takes follows from the gradient at the extreme, and
        Dinkelbach's (1967) iteration finds it: take the gradient at the present means, move every weight to the
        limit that it asks for, and again until nothing moves.
        """
        sign = 1.0 if largest else -1.0
        at_low = estimator.moments(replace(self.terms, importance_weight=self.low))
        at_high = estimator.moments(replace(self.terms, importance_weight=self.high))
        best, best_uplift = np.zeros(len(self.low), dtype=np.bool_), -np.inf
        mean = estimator.moments(self.terms).mean(axis=0)
        for _ in range(MAX_STEPS):
            takes_high = (at_high - at_low) @ (sign * estimator.uplift_gradient(mean)) > 0.0
            mean = np.where(takes_high[:, None], at_high, at_low).mean(axis=0)
            uplift = sign * float(estimator.uplift(mean))
            if not uplift > best_uplift:
                break
            best, best_uplift = takes_high, uplift
        return replace(self.terms, importance_weight=np.where(best, self.high, self.low))
