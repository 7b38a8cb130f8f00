"""The mean of several policies' probabilities, by which a blend decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl._archive import Packed
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl.objective.softmax import softmax
from bopl.policy.records import RecordPolicy

MIN_PROB = 1e-300  # whose logarithm is finite


def shares_of(weights: Any, n_policies: int) -> FloatArray:
    """Return the policies' shares, which sum to one, from weights; equal ones if there are none."""
    share = np.ones(n_policies) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (n_policies,) or not (share > 0.0).all() or not np.isfinite(share).all():
        raise ValueError(f"weights must hold one positive number per policy; got {weights!r}.")
    total = float(share.sum())
    # Shares that sum to one, as those of a file do, keep their bits.
    return share if abs(total - 1.0) < 1e-12 else share / total


def mean_prob(
    policies: Sequence[RecordPolicy], shares: FloatArray, matrix: ContextMatrix, mask: BoolArray | None
) -> FloatArray:
    """Return the mean of the policies' probabilities, of shape (n_samples, n_actions)."""
    mixed = np.zeros((matrix.shape[0], len(policies[0].actions_)))
    for policy, share in zip(policies, shares, strict=True):
        mixed += share * policy._prob(matrix, mask)
    return mixed


def sharpened_prob(action_prob: FloatArray, mask: BoolArray | None, inverse_temperature: float) -> FloatArray:
    """Return probabilities at an inverse temperature."""
    if inverse_temperature == 1.0:
        return action_prob
    score = np.log(np.maximum(action_prob, MIN_PROB))
    return softmax(score, inverse_temperature=inverse_temperature, action_mask=mask)


def content_of(policies: Sequence[RecordPolicy], shares: FloatArray) -> Packed:
    """Return the policies' ids and their shares, which a blend decides by."""
    return {"parts": [policy.policy_id for policy in policies], "weights": shares.tolist()}, {}
