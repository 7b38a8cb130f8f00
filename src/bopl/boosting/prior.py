"""Rewards as predicted by the logging policy's probabilities: least squares of r on 1, ln p and p."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._exact import Limbs, limbs_of
from bopl._typing import FloatArray
from bopl.reward.logging_model import LoggingModel, LoggingTerm

MIN_SPREAD = 1e-3  # of ln p: a logging policy closer to uniform carries no information, its slope is pure noise
_MIN_PART = 1e-12  # of the largest eigenvalue: anything smaller is indistinguishable from rounding


@dataclass(frozen=True, eq=False)
class Prior:
    """Rewards as predicted by the logging policy's probabilities: a constant and one term for each of these."""

    constant: float
    term: LoggingTerm

    def of(self, log_prob: FloatArray) -> FloatArray:
        """Return the predicted rewards of actions with these log-probabilities."""
        return self.constant + self.term.of(log_prob)


@dataclass(frozen=True, eq=False)
class PriorSums:
    """The sums for least squares over some samples: ``Σ w·c·c'`` and ``Σ w·c·r`` of the columns 1, ln p, p.

    Attributes
    ----------
    logged : ndarray of shape (n_samples,)
        Log-probabilities of the logged actions.
    reward : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,), optional
    """

    logged: FloatArray
    reward: FloatArray
    weight: FloatArray | None

    def limbs(self) -> Limbs:
        """Return them as exact sums, which can be added over several parts: six products of columns, three with r."""
        columns = [np.ones_like(self.logged), self.logged, np.exp(self.logged)]
        products = [columns[i] * columns[j] for i in range(3) for j in range(i, 3)]
        products += [column * self.reward for column in columns]
        return np.stack([limbs_of(one if self.weight is None else one * self.weight) for one in products])


def has_spread(variance: float) -> bool:
    """Return whether log-probabilities of this variance carry information."""
    return float(np.sqrt(variance)) >= MIN_SPREAD


def find_prior(model: LoggingModel, sums: FloatArray, is_spread: bool) -> Prior:
    """Return the prior from the values of `PriorSums.limbs`; without a spread it is the mean reward."""
    if not is_spread:
        return Prior(float(sums[6] / sums[0]), LoggingTerm(model, 0.0))
    # ln p and p are nearly collinear where propensities are nearly constant: directions that rounding cannot tell from
    # zero are left out, which gives the least-norm solution, the same on every machine.
    gram = np.array([[sums[0], sums[1], sums[2]], [sums[1], sums[3], sums[4]], [sums[2], sums[4], sums[5]]])
    size, direction = np.linalg.eigh(gram)
    kept = size > _MIN_PART * size[-1]
    moved = direction[:, kept].T @ sums[6:]
    constant, log_factor, prob_factor = (direction[:, kept] @ (moved / size[kept])).tolist()
    return Prior(constant, LoggingTerm(model, log_factor, prob_factor))
