"""The step size and what it guarantees: one closed form for every objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import FloatArray
from bopl.objective import StepTarget


@dataclass(frozen=True)
class StepRule:
    """How far to go along a predictor.

    Attributes
    ----------
    ensemble_weight_penalty : float, default=0
        ``lambda`` of the paper's regularisation appendix: ``lambda · alpha²`` is added to the risk.
    scale : float, optional
        C of Algorithms 1 and 2: predictors are rescaled to ``mean(w · ‖f‖²) = C`` first. By default they are left as
        the learner made them; without a penalty the policy is the same.
    """

    ensemble_weight_penalty: float = 0.0
    scale: float | None = None

    def __call__(self, target: StepTarget, prediction: FloatArray) -> Step:
        """Return the step that minimises the smoothness bound of the penalised risk.

        The bound is ``risk - alpha·g + alpha²·s/2 + lambda·alpha²`` with ``g = mean(G·f)`` and
        ``s = mean(curvature·‖f‖²)`` (Eq. "emp_risk_quad_upper_bound" and its surrogate form), so
        ``alpha = g / (s + 2·lambda)``.
        """
        n_samples = len(prediction)
        square_norm = np.einsum("ia,ia->i", prediction, prediction)  # (n_samples,)
        factor = self._factor(inner(target.weight, square_norm) / n_samples)
        slope = inner(by_column(target.gradient), by_column(prediction)) / n_samples * factor
        bend = inner(target.curvature, square_norm) / n_samples * factor**2
        divisor = bend + 2.0 * self.ensemble_weight_penalty
        alpha = slope / divisor if divisor > 0.0 else 0.0
        return Step(alpha=alpha, factor=factor, guaranteed_decrease=alpha * slope - alpha**2 * bend / 2.0)

    def _factor(self, mean_square_norm: float) -> float:
        if self.scale is None or mean_square_norm <= 0.0:
            return 1.0
        return float(np.sqrt(self.scale / mean_square_norm))


def inner(left: FloatArray, right: FloatArray) -> float:
    """Return the inner product of two vectors, summed in one order.

    Not by BLAS: its sums depend on its number of threads, and those go on spinning for tens of milliseconds after the
    call, on the processors that the next tree needs.
    """
    return float(np.einsum("i,i->", left, right))


def by_column(matrix: FloatArray) -> FloatArray:
    """Return the matrix as one vector, column by column: a view where scores are stored that way, as in training."""
    return matrix.T.ravel()


@dataclass(frozen=True)
class Step:
    """One step: ``score += alpha · factor · prediction``.

    Attributes
    ----------
    alpha : float
        The ensemble weight.
    factor : float
        What the predictor is multiplied by to have the scale C; 1 without one.
    guaranteed_decrease : float
        The risk falls by at least this much (Eq. "emp_risk_quad_upper_bound_decrease"). At the unpenalised alpha it is
        ``(mean G·f)² / (2 · mean curvature·‖f‖²)``.
    """

    alpha: float
    factor: float
    guaranteed_decrease: float

    @property
    def size(self) -> float:
        """What the raw prediction is multiplied by."""
        return self.alpha * self.factor
