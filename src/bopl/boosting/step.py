"""The step size and what it guarantees: one closed form for every objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bopl.boosting.ascent import Sums


@dataclass(frozen=True)
class StepRule:
    """How far to go along a predictor.

    Attributes
    ----------
    ensemble_weight_penalty : float, default=0
        ``lambda`` of the paper's regularisation appendix: ``lambda · alpha²`` is added to the risk.
    scale : float, optional
        C of Algorithms 1 and 2: predictors are first rescaled to ``mean(w · ‖f‖²) = C``. By default they are left as
        the learner made them; without a penalty the policy is the same.
    learning_rate : float in (0, 1], default=1
        Share of the certified step to take.
    """

    ensemble_weight_penalty: float = 0.0
    scale: float | None = None
    learning_rate: float = 1.0

    def __call__(self, sums: Sums) -> Step:
        """Return the step that minimises the smoothness bound of the penalised risk, or its share.

        The bound is ``risk - alpha·g + alpha²·s/2 + lambda·alpha²`` with ``g = mean(G·f)`` and
        ``s = mean(curvature·‖f‖²)`` (Eq. "emp_risk_quad_upper_bound" and its surrogate form), so
        ``alpha = g / (s + 2·lambda)``.
        """
        # Eq. "optimal_ensemble_weight" and Eq. "surrogate_optimal_ensemble_weight" in one: the 2 of the first is 1/s
        # with the paper's s = 1/2. A factor of f scales g once and s twice, so that alpha·factor does not depend on it
        # without a penalty.
        factor = self._factor(sums.weighted_norm)
        slope, bend = sums.slope * factor, sums.bend * factor**2
        divisor = bend + 2.0 * self.ensemble_weight_penalty
        # Without weight or penalty the bound is flat, or linear with slope zero: any step is as good as none.
        alpha = self.learning_rate * slope / divisor if divisor > 0.0 else 0.0
        # The bound's own decrease at this alpha, whatever share of the best step it is; without the penalty's part.
        return Step(alpha=alpha, factor=factor, guaranteed_decrease=alpha * slope - alpha**2 * bend / 2.0)

    def _factor(self, mean_square_norm: float) -> float:
        if self.scale is None or mean_square_norm <= 0.0:
            return 1.0
        return float(np.sqrt(self.scale / mean_square_norm))


@dataclass(frozen=True)
class Step:
    """One step: ``score += alpha · factor · prediction``.

    Attributes
    ----------
    alpha : float
        The ensemble weight.
    factor : float
        Factor that gives the predictor the scale C; 1 without one.
    guaranteed_decrease : float
        The risk falls by at least this much (Eq. "emp_risk_quad_upper_bound_decrease"). At the unpenalised alpha it is
        ``(mean G·f)² / (2 · mean curvature·‖f‖²)``.
    """

    alpha: float
    factor: float
    guaranteed_decrease: float

    @property
    def size(self) -> float:
        """The coefficient of the raw prediction."""
        return self.alpha * self.factor
