"""Products of rows with a matrix whose digits do not depend on the other rows.

A library for linear algebra multiplies several rows at once, and those at the end of a block in another way than the
others: a row then has other last digits in another block. Here every row is added up in the order of its columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from bopl._kernel import njit


def row_products(rows: Any, matrix: Any) -> NDArray[np.float64]:
    """Return ``rows @ matrix`` in float64; rows are dense or CSR."""
    matrix = np.require(matrix, np.float64, ["C", "W"])
    if issparse(rows):
        return np.asarray(rows @ matrix, dtype=np.float64)  # row by row already
    out = np.zeros((rows.shape[0], matrix.shape[1]))
    _multiply(np.require(rows, np.float32, ["C", "W"]), matrix, out)
    return out


@njit(nogil=True, cache=True)
def _multiply(rows, matrix, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        for k in range(matrix.shape[0]):
            x = np.float64(rows[i, k])
            for a in range(matrix.shape[1]):
                out[i, a] += x * matrix[k, a]
