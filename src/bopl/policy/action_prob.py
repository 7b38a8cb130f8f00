"""How boosted and blended policies decide: the same code for estimators and for what a server loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl._archive import Packed
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl.boosting import Ensemble
from bopl.objective.softmax import softmax
from bopl.policy.records import RecordPolicy

MIN_PROB = 1e-300  # whose logarithm is finite


class EnsembleDeciding(RecordPolicy):
    """A policy whose probabilities are the softmax of the scores of ``ensemble_``."""

    ensemble_: Ensemble

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the other rows."""
        return self.ensemble_.has_exact_rows

    def content(self) -> Packed:
        """Return the predictors with their coefficients."""
        from bopl.learner.store import pack_predictors  # with the compiled engine, which other policies do without

        facts, arrays = pack_predictors(self.ensemble_.predictors)
        return {"predictors": facts}, arrays | {"coefficients": np.array(self.ensemble_.coefficients)}

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        return self._softmax(self.ensemble_.score(matrix), mask)


class BlendDeciding(RecordPolicy):
    """A policy whose probabilities are the mean of those of ``policies_``, in shares ``weights_``, sharpened."""

    policies_: Sequence[RecordPolicy]
    weights_: FloatArray

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the other rows."""
        return all(policy.has_exact_rows for policy in self.policies_)

    def content(self) -> Packed:
        """Return the parts' ids and their shares."""
        return {"parts": [policy.policy_id for policy in self.policies_], "weights": self.weights_.tolist()}, {}

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        return self._sharp_mean(matrix, mask, float(self.trained_inverse_temperature))

    def _sharp_mean(self, matrix: ContextMatrix, mask: BoolArray | None, inverse_temperature: float) -> FloatArray:
        """Return the mean of the parts' probabilities at an inverse temperature."""
        mean = self._mean(matrix, mask)
        if inverse_temperature == 1.0:
            return mean
        return softmax(np.log(np.maximum(mean, MIN_PROB)), inverse_temperature=inverse_temperature, action_mask=mask)

    def _mean(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        """Return the mean of the parts' probabilities, of shape (n_samples, n_actions)."""
        mixed = np.zeros((matrix.shape[0], len(self.policies_[0].actions_)))
        for policy, share in zip(self.policies_, self.weights_, strict=True):
            mixed += share * policy._prob(matrix, mask)
        return mixed


def shares_of(weights: Any, n_policies: int) -> FloatArray:
    """Return the policies' shares, which sum to one, from weights; equal ones if there are none."""
    share = np.ones(n_policies) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (n_policies,) or not (share > 0.0).all() or not np.isfinite(share).all():
        raise ValueError(f"weights must hold one positive number per policy; got {weights!r}.")
    total = float(share.sum())
    # Shares that sum to one, as those of a file do, keep their bits.
    return share if abs(total - 1.0) < 1e-12 else share / total
