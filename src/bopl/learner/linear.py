"""Linear functions of contexts and actions as predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bopl._archive import Packed, check_array
from bopl._typing import AnyArray, ContextMatrix, FloatArray


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """A linear function of the expanded columns; an ensemble of these is linear too, and no better than one."""

    kind: ClassVar[str] = "linear"

    coef: FloatArray  # (n_features + n_action_columns,)
    intercept: float
    by_action: FloatArray

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions)."""
        n_features = context.shape[1]
        shared: FloatArray = np.asarray(context @ self.coef[:n_features])  # (n_samples,)
        return shared[:, None] + self.by_action @ self.coef[n_features:] + self.intercept

    def gain_by_column(self) -> AnyArray | None:
        """Return None: a linear function has no splits."""
        return None


def pack_linear(predictors: Sequence[LinearPredictor]) -> Packed:
    """Return what a file stores of linear functions."""
    return {}, {
        "coef": np.array([predictor.coef for predictor in predictors]),
        "intercept": np.array([predictor.intercept for predictor in predictors]),
    }


def unpack_linear(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[LinearPredictor]:
    """Return the functions of `pack_linear`."""
    n_predictors = len(arrays["intercept"])
    coef = check_array(arrays, "coef", (n_predictors, n_features + by_action.shape[1]))
    intercept = check_array(arrays, "intercept", (n_predictors,))
    return [LinearPredictor(row, float(value), by_action) for row, value in zip(coef, intercept, strict=True)]
