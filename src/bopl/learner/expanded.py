"""The paper's expanded matrix: one row ``[x; onehot(a)]`` for every context and action."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bopl._typing import ContextMatrix, FloatArray
from bopl.log.context import CONTEXT_DTYPE, is_sparse

# Rows of a sparse context that are made dense at a time when a predictor needs dense input.
CHUNK_ROWS = 4096


def expand(context: ContextMatrix, n_actions: int) -> ContextMatrix:
    """Return the expanded matrix of shape (n_samples · n_actions, n_features + n_actions), sparse for a sparse context.

    Row ``i · n_actions + a`` is context i with action a.
    """
    if is_sparse(context):
        return _expand_sparse(context, n_actions)
    n_samples, n_features = context.shape
    expanded = np.zeros((n_samples, n_actions, n_features + n_actions), dtype=CONTEXT_DTYPE)
    expanded[:, :, :n_features] = context[:, None, :]
    action = np.arange(n_actions)
    expanded[:, action, n_features + action] = 1.0
    return expanded.reshape(n_samples * n_actions, n_features + n_actions)


def _expand_sparse(context: ContextMatrix, n_actions: int) -> ContextMatrix:
    from scipy.sparse import csr_array, hstack

    n_samples = context.shape[0]
    if n_actions * (context.nnz + n_samples) > np.iinfo(np.int32).max:
        raise ValueError(
            f"the expanded matrix of {n_samples} sparse contexts and {n_actions} actions has more than 2**31 entries; "
            "use fewer samples or a learner that does not expand."
        )
    repeated = context[np.repeat(np.arange(n_samples), n_actions)]
    one_hot = csr_array(
        (
            np.ones(n_samples * n_actions, dtype=CONTEXT_DTYPE),
            np.tile(np.arange(n_actions, dtype=np.int32), n_samples),  # scikit-learn takes 32-bit indices only
            np.arange(n_samples * n_actions + 1, dtype=np.int32),
        ),
        shape=(n_samples * n_actions, n_actions),
    )
    return csr_array(hstack([repeated, one_hot], format="csr"))


def dense_chunks(context: ContextMatrix) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the context in dense pieces with their rows: one piece if it is dense already."""
    if not is_sparse(context):
        yield slice(0, context.shape[0]), context
        return
    for start in range(0, context.shape[0], CHUNK_ROWS):
        rows = slice(start, min(start + CHUNK_ROWS, context.shape[0]))
        yield rows, context[rows].toarray()
