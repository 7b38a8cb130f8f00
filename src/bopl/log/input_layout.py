"""What linear models and networks are given of a context: numbers without gaps, and categories as indicators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._archive import check_array
from bopl._exact import Limbs, add_by_group, limbs_of, no_limbs, values_of
from bopl._typing import AnyArray, ContextMatrix, FloatArray, IntArray
from bopl.log.context import CONTEXT_DTYPE, is_sparse

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

_POSITIONS = ("number", "gap", "category", "n_categories")


@dataclass(frozen=True, eq=False)
class InputLayout:
    """Columns of inputs: the numbers, an indicator for each column with gaps, an indicator for each category.

    A missing number is the column's mean, a missing category has no indicator. Contexts without gaps and categories are
    their own inputs.
    """

    number: IntArray  # columns that are numbers
    fill: FloatArray  # of the same length: what stands for a missing one
    gap: IntArray  # columns of numbers that had gaps in the training log
    category: IntArray  # columns that are positions of categories
    n_categories: IntArray  # how many categories each of these has

    @property
    def n_inputs(self) -> int:
        """How many columns the inputs have."""
        return len(self.number) + len(self.gap) + int(self.n_categories.sum())

    def __call__(self, context: ContextMatrix) -> ContextMatrix:
        """Return the inputs of some contexts, of shape (n_samples, n_inputs); sparse where there are categories."""
        if len(self.gap) == len(self.category) == 0 and not _has_nan(context):
            return context
        if is_sparse(context):
            return self._sparse_inputs(context)
        number = context[:, self.number]
        filled = np.where(np.isnan(number), self.fill, number)
        dense = np.hstack([filled, np.isnan(context[:, self.gap])], dtype=CONTEXT_DTYPE)
        if len(self.category) == 0:
            return dense
        from scipy.sparse import csr_array, hstack  # single records are scored without indicators

        indicators = (
            _indicators(context[:, column], size) for column, size in zip(self.category, self.n_categories, strict=True)
        )
        return hstack([csr_array(dense), *indicators], format="csr", dtype=CONTEXT_DTYPE)

    def _sparse_inputs(self, context: Any) -> Any:
        """Return the inputs of sparse contexts, whose columns are all numbers."""
        from scipy.sparse import csr_array, hstack

        is_missing = np.isnan(context.data)
        filled = context.copy()
        filled.data[is_missing] = self.fill[context.indices[is_missing]]
        place = np.full(context.shape[1], -1)
        place[self.gap] = np.arange(len(self.gap))
        row = np.repeat(np.arange(context.shape[0]), np.diff(context.indptr))[is_missing]
        column = place[context.indices[is_missing]]
        marks = np.ones(np.count_nonzero(column >= 0), dtype=CONTEXT_DTYPE)
        shape = (context.shape[0], len(self.gap))
        return hstack([filled, csr_array((marks, (row[column >= 0], column[column >= 0])), shape=shape)], format="csr")

    def pack(self) -> dict[str, AnyArray]:
        """Return the layout as arrays for a model file."""
        return {f"layout/{name}": getattr(self, name) for name in (*_POSITIONS, "fill")}


def fit_layout(context: ContextMatrix, sizes: Mapping[int, int] | None = None) -> InputLayout:
    """Return the layout of a training log's contexts.

    ``sizes`` says how many categories there are in the columns that hold positions of some.
    """
    return layout_from(ColumnTotals.of(context), sizes)


@dataclass(frozen=True, eq=False)
class ColumnTotals:
    """What a layout is made from; those of several parts of the rows are added."""

    n_samples: int
    n_missing: IntArray  # (n_features,)
    limbs: Limbs  # (n_features, N_LIMBS): exact sums of the columns

    @classmethod
    def of(cls, context: ContextMatrix) -> ColumnTotals:
        """Return the totals of some contexts."""
        n_samples, n_features = context.shape
        limbs = no_limbs(n_features)
        if is_sparse(context):
            is_missing = np.isnan(context.data)
            n_missing = np.bincount(context.indices[is_missing], minlength=n_features)
            values = np.where(is_missing, 0.0, context.data).astype(np.float64)
            add_by_group(values, context.indices.astype(np.int64), limbs)
            return cls(n_samples, n_missing, limbs)
        n_missing = np.zeros(n_features, np.int64)
        for column in range(n_features):
            values = np.asarray(context[:, column], dtype=np.float64)
            is_missing = np.isnan(values)
            n_missing[column] = np.count_nonzero(is_missing)
            limbs[column] = limbs_of(np.where(is_missing, 0.0, values))
        return cls(n_samples, n_missing, limbs)

    def __add__(self, other: ColumnTotals) -> ColumnTotals:
        return ColumnTotals(
            self.n_samples + other.n_samples, self.n_missing + other.n_missing, self.limbs + other.limbs
        )


def layout_from(totals: ColumnTotals, sizes: Mapping[int, int] | None = None) -> InputLayout:
    """Return the layout of contexts with these totals; see `fit_layout`."""
    known, n_missing = {} if sizes is None else sizes, totals.n_missing
    number = np.array([column for column in range(len(n_missing)) if column not in known], dtype=np.int64)
    mean = values_of(totals.limbs) / np.maximum(totals.n_samples - n_missing, 1)
    has_gap = n_missing > 0
    return InputLayout(
        number,
        mean[number].astype(CONTEXT_DTYPE),
        number[has_gap[number]],
        np.array(sorted(known), dtype=np.int64),
        np.array([known[column] for column in sorted(known)], dtype=np.int64),
    )


def category_sizes(log: BanditLog) -> dict[int, int]:
    """Return how many categories there are in each column of a log's contexts that holds positions of some."""
    if log.schema is None:
        return {}
    return {place.start: len(column.texts) for column, place in log.schema.places() if column.kind == "category"}


def unpack_layout(arrays: Mapping[str, AnyArray], n_features: int) -> InputLayout:
    """Return the layout of `InputLayout.pack`, after checking that it fits the contexts."""
    if "layout/number" not in arrays:
        raise ValueError("it was written before missing values and categories were supported; fit the policy again")
    number, gap, category, n_categories = (arrays[f"layout/{name}"] for name in _POSITIONS)
    named = np.sort(np.concatenate([number, category]))
    is_sound = (
        all(part.dtype.kind == "i" and part.ndim == 1 for part in (number, gap, category, n_categories))
        and np.array_equal(named, np.arange(n_features))
        and bool(np.isin(gap, number).all())
        and len(np.unique(gap)) == len(gap)
        and len(n_categories) == len(category)
        and bool(((n_categories >= 0) & (n_categories <= np.iinfo(np.int32).max)).all())
    )
    if not is_sound:
        raise ValueError(f"the layout of the inputs does not fit {n_features} columns")
    fill = check_array(arrays, "layout/fill", (len(number),))
    return InputLayout(number, fill, gap, category, n_categories)


def _indicators(code: FloatArray, size: int) -> Any:
    """Return an indicator for each category, of shape (n_samples, size); a missing or unknown one has none."""
    from scipy.sparse import csr_array

    row = np.flatnonzero((code >= 0) & (code < size))  # which NaN is not
    return csr_array((np.ones(len(row), CONTEXT_DTYPE), (row, code[row].astype(np.int64))), shape=(len(code), size))


def _has_nan(context: ContextMatrix) -> bool:
    return bool(np.isnan(context.data if is_sparse(context) else context).any())
