"""Entries of a matrix over actions at the actions that were logged."""

from __future__ import annotations

import numpy as np

from bopl._typing import AnyArray, IntArray


def logged_entries(matrix: AnyArray, action_idx: IntArray) -> AnyArray:
    """Return each row's entry at its action, ``matrix[i, action_idx[i]]``, of shape (n_samples,).

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_actions)
        Probabilities, scores, predicted rewards or a mask.
    action_idx : ndarray of shape (n_samples,)
        Position of each sample's action.
    """
    return matrix[np.arange(len(action_idx)), action_idx]
