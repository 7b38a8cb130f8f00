"""What boosting hands on: rounds, and the scores they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bopl._typing import ContextMatrix, FloatArray
from bopl.boosting.step import Step
from bopl.learner import Predictor


@dataclass(frozen=True)
class Round:
    """One predictor with its step: a single record, not two lists kept in step."""

    predictor: Predictor
    step: Step


@dataclass(frozen=True)
class Ensemble:
    """``F(x, a) = Σ_t alpha_t f_t(x, a)`` (Eq. "ensemble")."""

    rounds: tuple[Round, ...]
    n_actions: int

    def score(self, context: ContextMatrix) -> FloatArray:
        """Return the ensemble's scores of shape (n_samples, n_actions)."""
        score = np.zeros((context.shape[0], self.n_actions))
        for _ in self._add_rounds(context, score):
            pass
        return score

    def staged_score(self, context: ContextMatrix) -> Iterator[FloatArray]:
        """Yield the scores after each round, each in an array of its own."""
        score = np.zeros((context.shape[0], self.n_actions))
        for _ in self._add_rounds(context, score):
            yield score.copy()

    def _add_rounds(self, context: ContextMatrix, score_out: FloatArray) -> Iterator[None]:
        for entry in self.rounds:
            score_out += entry.step.size * entry.predictor.predict(context)
            yield

    def truncated(self, n_rounds: int) -> Ensemble:
        """Return the ensemble of the first ``n_rounds`` rounds."""
        return Ensemble(self.rounds[:n_rounds], self.n_actions)
