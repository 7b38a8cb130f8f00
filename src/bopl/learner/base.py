"""What a base learner is: something that fits one predictor per round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray

if TYPE_CHECKING:
    from bopl.log import BanditLog
    from bopl.objective import StepTarget


class Predictor(Protocol):
    """A fitted ``f(x, a)`` for all actions at once.

    A class whose rows have the same bits alone and in a batch may declare ``has_exact_rows = True``.
    """

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions)."""
        ...

    def gain_by_column(self) -> AnyArray | None:
        """Return the gain of all splits by column of ``[x; onehot(a)]``, or None where the idea does not apply."""
        return None


@dataclass(frozen=True)
class FittedStep:
    """A predictor together with its output on the contexts it was fitted on.

    Attributes
    ----------
    predictor : Predictor
    prediction : ndarray of shape (n_samples, n_actions)
        In the order of the target. Equal to ``predictor.predict(context)`` of those contexts to the last bit; most
        learners know it from the fit itself.
    """

    predictor: Predictor
    prediction: FloatArray


def pair_weight(target: StepTarget, action_mask: BoolArray | None) -> FloatArray:
    """Return the weight of every (sample, action) pair: the sample's weight, or zero where the action is ineligible."""
    if action_mask is None:
        return np.repeat(target.weight[:, None], target.gradient.shape[1], axis=1)
    return np.where(action_mask, target.weight[:, None], 0.0)


class BoundLearner(Protocol):
    """A learner that has seen the contexts: whatever can be prepared once per log is prepared.

    Attributes
    ----------
    row_order : ndarray of int, shape (n_samples,), or None
        The log's row at each place of targets and predictions: the order in which the learner keeps the samples. None
        if they are in the order of the log.
    """

    row_order: AnyArray | None = None

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Fit one predictor. Randomness may depend on the seed and ``round_idx`` only, so that a fit can resume."""
        ...


class BaseLearner(Protocol):
    """Settings of a learner: a scikit-learn estimator, which can be searched over, or a dataclass."""

    def bind(self, log: BanditLog, *, seed: int) -> BoundLearner:
        """Check the settings, prepare the contexts, return what fits one predictor per round."""
        ...
