"""Linear scores of contexts, added up in a fixed order, so that a row has the same bits alone and among a million."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl._typing import ContextMatrix, FloatArray
from bopl.log.context import is_sparse
from bopl.log.input_layout import InputLayout


def linear_score(context: ContextMatrix, layout: InputLayout, coef: FloatArray, intercept: FloatArray) -> FloatArray:
    """Return ``inputs(context) · coef + intercept``, of shape (n_samples, n_actions).

    A BLAS matrix product adds up in an order that depends on the number of rows: propensities that were logged
    one by one could not be reproduced to the last bit in a batch.
    """
    if is_sparse(context):
        return np.asarray(layout(context) @ coef, dtype=np.float64) + intercept
    score = np.zeros((context.shape[0], len(intercept)))
    add_linear(
        np.ascontiguousarray(context, dtype=np.float32),
        layout.number,
        layout.fill,
        layout.gap,
        layout.category,
        layout.n_categories,
        np.ascontiguousarray(coef, dtype=np.float64),
        score,
    )
    score += intercept
    return score


@njit(nogil=True, cache=True)
def add_linear(context, number, fill, gap, category, n_categories, coef, score_out):  # type: ignore[no-untyped-def]
    """Add the inputs of `InputLayout` times their coefficients: numbers, missing indicators, category indicators."""
    # context (n_samples, n_features); coef (n_inputs, n_actions): numbers, then gaps, then the indicators of each
    # category. Row by row, inputs in their order: the sum of a row does not know how many rows there are. Actions are
    # innermost, independent of each other, so that they compile to vector code without changing an order.
    for i in range(context.shape[0]):
        for k in range(len(number)):
            x = context[i, number[k]]
            value = np.float64(fill[k] if np.isnan(x) else x)
            if value != 0.0:
                for a in range(score_out.shape[1]):
                    score_out[i, a] += value * coef[k, a]
        at = len(number)
        for k in range(len(gap)):
            if np.isnan(context[i, gap[k]]):
                for a in range(score_out.shape[1]):
                    score_out[i, a] += coef[at + k, a]
        at += len(gap)
        for k in range(len(category)):
            code = context[i, category[k]]
            if 0 <= code < n_categories[k]:  # which NaN is not
                row = at + np.int64(code)
                for a in range(score_out.shape[1]):
                    score_out[i, a] += coef[row, a]
            at += n_categories[k]
