"""The result of boosting: its start, its rounds, and the scores that they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from bopl._typing import ContextMatrix, FloatArray
from bopl.boosting.start import Start
from bopl.boosting.step import Step
from bopl.learner.base import Predictor
from bopl.learner.store import Scorer, stack_predictors


@dataclass(frozen=True)
class Round:
    """One predictor with its step: one record instead of two parallel lists."""

    predictor: Predictor
    step: Step


@dataclass(frozen=True)
class Ensemble:
    """``F(x, a) = start(x, a) + Σ_t alpha_t f_t(x, a)`` (Eq. "ensemble", where the start is zero)."""

    rounds: tuple[Round, ...]
    n_actions: int
    start: Start = field(default_factory=Start)

    @property
    def predictors(self) -> list[Predictor]:
        """All summands: the predictors of the start, then those of the rounds."""
        return [*self.start.predictors, *(entry.predictor for entry in self.rounds)]

    @property
    def coefficients(self) -> list[float]:
        """The coefficient of each of the `predictors`."""
        return [*self.start.coefficients, *(entry.step.size for entry in self.rounds)]

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's scores do not depend on the other rows."""
        # A service logs probabilities one record at a time, and an evaluation recomputes them in a batch: they agree to
        # the bit where no matrix product, whose order depends on its size, is involved.
        return all(getattr(one, "has_exact_rows", False) for one in self.predictors)

    def score(self, context: ContextMatrix) -> FloatArray:
        """Return the ensemble's scores of shape (n_samples, n_actions)."""
        if not self.rounds and not self.start.predictors:
            return np.zeros((context.shape[0], self.n_actions))
        return self._scorer(context)

    @cached_property
    def _scorer(self) -> Scorer:
        return stack_predictors(self.predictors, self.coefficients)

    def __getstate__(self) -> dict[str, Any]:
        # The stacked trees are recreated where they are needed: they are functions, which cannot be pickled.
        return {name: value for name, value in vars(self).items() if name != "_scorer"}

    def staged_score(self, context: ContextMatrix) -> Iterator[FloatArray]:
        """Yield the scores after each round, each as a new array."""
        score = self.start.score(context, self.n_actions)
        for entry in self.rounds:
            score += entry.step.size * entry.predictor.predict(context)
            yield score.copy()

    def truncated(self, n_rounds: int) -> Ensemble:
        """Return the ensemble of the first ``n_rounds`` rounds."""
        return replace(self, rounds=self.rounds[:n_rounds])
