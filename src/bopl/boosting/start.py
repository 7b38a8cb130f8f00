"""Where boosting starts: at the uniform policy, at a reward model, at the logging policy, or at both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bopl._typing import ContextMatrix, FloatArray
from bopl.learner.base import Predictor
from bopl.learner.store import stack_predictors

#: Values of ``start``: the names of the parts, joined by a plus sign.
STARTS = ("uniform", "reward_model", "logging", "logging+reward_model")


@dataclass(frozen=True, eq=False)
class Start:
    """Initial scores of the ensemble: ``Σ coefficient · predictor``, part of the model like its rounds.

    Attributes
    ----------
    kind : str
        One of `STARTS`.
    predictors : tuple of Predictor
    coefficients : tuple of float
    """

    kind: str = "uniform"
    predictors: tuple[Predictor, ...] = ()
    coefficients: tuple[float, ...] = ()

    def score(self, context: ContextMatrix, n_actions: int) -> FloatArray:
        """Return the scores of contexts, of shape (n_samples, n_actions)."""
        if not self.predictors:
            return np.zeros((context.shape[0], n_actions))
        return stack_predictors(self.predictors, self.coefficients)(context)

    def __add__(self, other: Start) -> Start:
        kinds = [kind for kind in (self.kind, other.kind) if kind != "uniform"]
        return Start(
            "+".join(kinds) or "uniform",
            self.predictors + other.predictors,
            self.coefficients + other.coefficients,
        )


def mean_of(kind: str, predictors: Sequence[Sequence[Predictor]], coefficients: Sequence[Sequence[float]]) -> Start:
    """Return the mean of several sums of predictors as one start."""
    share = 1.0 / len(predictors)
    return Start(
        kind,
        tuple(one for model in predictors for one in model),
        tuple(share * factor for model in coefficients for factor in model),
    )
