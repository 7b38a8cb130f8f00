"""The paper's expanded matrix: one row ``[x; onehot(a); features of a]`` for each context and action.

Linear functions of it are predictors, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bopl._archive import Packed, check_array
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.log.context import CONTEXT_DTYPE, is_sparse

# Rows of a sparse context that are made dense at a time when a predictor needs dense input.
CHUNK_ROWS = 4096


def action_columns(n_actions: int, action_features: FloatArray | None = None) -> FloatArray:
    """Return what an action adds to a row: its one-hot identity, then its features; (n_actions, n_action_columns)."""
    identity = np.eye(n_actions, dtype=CONTEXT_DTYPE)
    return identity if action_features is None else np.hstack([identity, action_features.astype(CONTEXT_DTYPE)])


def expand(context: ContextMatrix, by_action: FloatArray) -> ContextMatrix:
    """Return the expanded matrix of shape (n_samples · n_actions, n_features + n_action_columns).

    Row ``i · n_actions + a`` is context i with row a of ``by_action``. It is sparse if the context is.
    """
    if is_sparse(context):
        return _expand_sparse(context, by_action)
    n_samples, n_features = context.shape
    n_actions, n_columns = by_action.shape
    expanded = np.empty((n_samples, n_actions, n_features + n_columns), dtype=CONTEXT_DTYPE)
    expanded[:, :, :n_features] = context[:, None, :]
    expanded[:, :, n_features:] = by_action
    return expanded.reshape(n_samples * n_actions, n_features + n_columns)


def predict_expanded(
    predict: Callable[[ContextMatrix], AnyArray],  # takes expanded rows and returns a number for each
    context: ContextMatrix,  # (n_samples, n_features)
    by_action: FloatArray,  # (n_actions, n_action_columns)
    *,
    chunk_rows: int = CHUNK_ROWS,  # contexts to expand at a time
    # what is done to contexts before they are expanded
    prepare: Callable[[ContextMatrix], ContextMatrix] | None = None,
) -> FloatArray:
    """Return predictions for every context and action, of shape (n_samples, n_actions), expanding some at a time."""
    prediction = np.empty((context.shape[0], len(by_action)))
    for start in range(0, context.shape[0], chunk_rows):
        rows = slice(start, start + chunk_rows)
        chunk = context[rows] if prepare is None else prepare(context[rows])
        prediction[rows] = np.asarray(predict(expand(chunk, by_action)), np.float64).reshape(-1, len(by_action))
    return prediction


def _expand_sparse(context: ContextMatrix, by_action: FloatArray) -> ContextMatrix:
    from scipy.sparse import csr_array, hstack

    n_samples, n_actions = context.shape[0], len(by_action)
    if n_actions * context.nnz + n_samples * np.count_nonzero(by_action) > np.iinfo(np.int32).max:
        raise ValueError(
            f"the expanded matrix of {n_samples} sparse contexts and {n_actions} actions has more than 2**31 entries; "
            "use fewer samples or a learner that does not expand."
        )
    # Counted before anything is built: scipy would switch to 64-bit indices, which scikit-learn refuses after the work.
    repeated = context[np.repeat(np.arange(n_samples), n_actions)]
    tiled = csr_array(by_action)[np.tile(np.arange(n_actions), n_samples)]
    expanded = csr_array(hstack([repeated, tiled], format="csr"))
    # scikit-learn takes 32-bit indices only.
    expanded.indices, expanded.indptr = expanded.indices.astype(np.int32), expanded.indptr.astype(np.int32)
    return expanded


def dense_chunks(context: ContextMatrix) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the context in dense pieces with their rows: one piece if it is dense already."""
    if not is_sparse(context):
        yield slice(0, context.shape[0]), context
        return
    for start in range(0, context.shape[0], CHUNK_ROWS):
        rows = slice(start, min(start + CHUNK_ROWS, context.shape[0]))
        yield rows, context[rows].toarray()


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
