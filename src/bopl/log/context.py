"""Contexts: from any input to one float32 matrix with column names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import quoted, shortened
from bopl._native import column_names, is_frame, object_to_float, unmasked
from bopl._typing import AnyArray, BoolArray, ContextMatrix
from bopl.log.frame import as_table

# float32 halves the memory of a log, and every tree learner compares in float32 anyway.
CONTEXT_DTYPE = np.float32
MANY = 40  # names that a message may list where the right one is looked for


def is_sparse(value: object) -> bool:
    """Return whether ``value`` is a scipy sparse matrix or array."""
    return hasattr(value, "tocsr") and hasattr(type(value), "nnz")  # of a damaged one the number itself fails


def check_unique_names(names: Sequence[str], what: str) -> None:
    """Raise if a column name occurs twice: a name must say which column is meant."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{what} has duplicated column names: {quoted(repeated)}. Rename them so that each name occurs once."
        )


def read_context(
    context: object,
    feature_names: Sequence[str] | None = None,
    *,
    allow_infinite: bool = False,
    what: str = "context",
) -> tuple[ContextMatrix, tuple[str, ...] | None]:
    """Return contexts as a checked float32 matrix (dense or CSR) and their column names, if they have any.

    ``feature_names`` is what messages call the columns of contexts that have no names of their own, and ``what`` is
    what they call the matrix: action features are read here as well.
    Missing values (NaN, null) are kept: learners that cannot use them say so. Infinite values are refused, unless the
    caller leaves out their rows (``allow_infinite``).
    """
    names: tuple[str, ...] | None = None
    if is_frame(context):
        matrix, names = _frame_to_matrix(context, what)
    elif is_sparse(context):
        matrix = _sparse_to_csr(context, what)
    else:
        matrix = _array_to_matrix(context, what)
    _check_shape(matrix, what)
    if not allow_infinite:
        check_values(matrix, names or feature_names, what)
    return matrix, names


def _frame_to_matrix(native: object, what: str) -> tuple[AnyArray, tuple[str, ...]]:
    check_frame_names(native)
    frame = as_table(native)
    names = tuple(frame.columns)
    _check_numeric_columns(frame, what)
    matrix = np.empty((len(frame), len(names)), dtype=CONTEXT_DTYPE)
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused with its value below
        for column_idx, name in enumerate(frame.columns):
            matrix[:, column_idx] = column_to_float(frame[name])
    return matrix, names


def column_to_float(column: nw.Series[Any]) -> AnyArray:
    """Return a numeric or boolean column as floats, nulls as NaN."""
    if column.dtype == nw.Boolean:
        column = column.cast(nw.Int8)
    if column.dtype in (nw.Int128, nw.UInt128):  # numpy has no such integers
        column = column.cast(nw.Float64)
    if column.null_count() > 0:
        if column.dtype.is_integer():  # no cast: Arrow refuses integers beyond 2^53
            return np.where(column.is_null().to_numpy(), np.nan, column.fill_null(0).to_numpy()).astype(np.float64)
        column = column.cast(nw.Float64)
    values: AnyArray = np.asarray(column.to_numpy())
    return object_to_float(values) if values.dtype == object else values  # nullable extension types hand over objects


def check_frame_names(native: object) -> None:
    """Raise if a frame holds one name twice, as pandas and arrow allow; narwhals has a message of its own."""
    check_unique_names([str(name) for name in column_names(native)], "the frame")


def _check_numeric_columns(frame: nw.DataFrame[Any], what: str) -> None:
    bad = [(name, dtype) for name, dtype in frame.schema.items() if not (dtype.is_numeric() or dtype == nw.Boolean)]
    if bad:
        listed = ", ".join(f"{name!r} ({dtype})" for name, dtype in bad[:8])
        raise TypeError(
            f"{what} columns must be numeric or boolean; {len(bad)} of {len(frame.columns)} are not: {listed}. "
            "Encode them as numbers, leave them out, or read the frame with BanditLog.from_frame, which encodes them."
        )


def _sparse_to_csr(context: Any, what: str) -> ContextMatrix:
    from scipy.sparse import csr_array

    if context.ndim != 2:
        raise ValueError(f"{what} must have two dimensions (n_samples, n_features); it has {context.ndim}.")
    if context.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} must be real numbers.")
    if not (np.issubdtype(context.dtype, np.number) or context.dtype == np.bool_):
        raise TypeError(f"{what} must be numeric; the sparse matrix holds {context.dtype}.")
    if not _has_sound_positions(context):
        raise ValueError(
            f"the sparse {what} of shape {context.shape} is damaged: its indices or index pointers point outside it. "
            "Build it again from rows, columns and values; check_format(full_check=True) of scipy says what is wrong."
        )
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused with its place
        matrix = csr_array(context, dtype=CONTEXT_DTYPE, copy=True)  # tidying up must not change the caller's matrix
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _has_sound_positions(matrix: Any) -> bool:
    """Return whether all positions in a sparse matrix lie inside it.

    scipy checks them only if it is asked to, and otherwise reads and writes wherever they point.
    """
    form = getattr(matrix, "format", None)
    if form == "coo":
        places = [np.asarray(places) for places in (matrix.row, matrix.col)]
        return all(len(place) == len(matrix.data) for place in places) and all(
            _are_within(place, size) for place, size in zip(places, matrix.shape, strict=True)
        )
    if form == "lil":
        return len(matrix.rows) == len(matrix.data) == matrix.shape[0] and all(
            len(row) == len(values) and _are_within(np.asarray(row, dtype=np.int64), matrix.shape[1])
            for row, values in zip(matrix.rows, matrix.data, strict=True)
        )
    if form == "dok":
        return all(0 <= place < size for key in matrix.keys() for place, size in zip(key, matrix.shape, strict=True))  # noqa: SIM118
    if form == "dia":
        return _has_sound_diagonals(matrix)
    indptr, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    n_blocks = [size // block for size, block in zip(matrix.shape, getattr(matrix, "blocksize", (1, 1)), strict=True)]
    n_outer, n_inner = n_blocks[::-1] if matrix.format == "csc" else n_blocks
    return (
        indptr.shape == (n_outer + 1,)
        and indices.ndim == 1
        and indptr.dtype.kind == indices.dtype.kind == "i"
        and indptr[0] == 0
        and bool((indptr[:-1] <= indptr[1:]).all())
        and bool(indptr[-1] <= len(indices) == len(matrix.data))
        and _are_within(indices[: indptr[-1]], n_inner)
    )


def _has_sound_diagonals(matrix: Any) -> bool:
    """Return whether the diagonals are distinct, and far from overflow where scipy adds to their offsets."""
    offsets, values = np.asarray(matrix.offsets), np.asarray(matrix.data)
    return (
        values.ndim == 2
        and offsets.shape == values.shape[:1]
        and _are_within(np.abs(offsets), np.iinfo(np.int32).max - max(*matrix.shape, *values.shape))
        and len(np.unique(offsets)) == len(offsets)
    )


def _are_within(places: AnyArray, size: int) -> bool:
    """Return whether positions are integers between 0 and a size."""
    return len(places) == 0 or (places.dtype.kind in "iu" and int(places.min()) >= 0 and int(places.max()) < size)


def _array_to_matrix(context: object, what: str) -> AnyArray:
    try:
        array = np.asarray(unmasked(context))
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths; every row needs a value in each column.") from None
    if np.iscomplexobj(array):
        raise ValueError(f"Complex data not supported: {what} must be real numbers.")
    if array.ndim == 0 and not isinstance(context, Number | np.ndarray):
        hint = "; collect() it first" if hasattr(context, "collect") else ""
        raise TypeError(f"{what} must be an array, a sparse matrix or a frame; got {type(context).__name__}{hint}.")
    if array.dtype.names or (array.ndim == 1 and len(array) and isinstance(array[0], Mapping)):
        raise TypeError(f"{what} holds records; make a frame of them, such as pandas.DataFrame(records).")
    if array.ndim != 2:
        # "Reshape your data" is the phrase scikit-learn's users know.
        raise ValueError(
            f"{what} must have two dimensions (n_samples, n_features); it has shape {array.shape}. Reshape your data "
            f"with {what}.reshape(-1, 1) if it has a single feature, or {what}.reshape(1, -1) if it is one sample."
        )
    if array.dtype.kind not in "biuf":
        array = _objects_to_float(array, what)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=CONTEXT_DTYPE)


def _objects_to_float(array: AnyArray, what: str) -> AnyArray:
    try:
        return object_to_float(array)
    except (TypeError, ValueError, OverflowError):
        pass
    for column_idx in range(array.shape[1]):
        for row, value in enumerate(array[:, column_idx].tolist()):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                raise TypeError(
                    f"{what} must be numeric; column {column_idx} holds {shortened(value)} at row {row} (argument "
                    "must be a string or a number). Encode it as numbers, or pass a frame and leave the column out."
                ) from None
    raise TypeError(f"{what} must be numeric; its dtype is {array.dtype}.")  # pragma: no cover


def _check_shape(matrix: ContextMatrix, what: str) -> None:
    n_samples, n_features = matrix.shape
    check_not_empty(n_samples, what)
    if n_features == 0:
        raise ValueError(
            f"{what} has no columns: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required. "
            "For a policy that ignores the context pass one constant column."
        )


def check_not_empty(n_samples: int, what: str = "context") -> None:
    """Raise if there is no sample."""
    if n_samples == 0:
        raise ValueError(f"the log is empty: {what} has 0 sample(s), a minimum of 1 is required.")


def check_values(matrix: ContextMatrix, names: Sequence[str] | None, what: str = "context") -> None:
    """Raise if a context holds infinity, naming the first."""
    n_samples, n_features = matrix.shape
    values = matrix.data if is_sparse(matrix) else matrix
    with np.errstate(invalid="ignore"):  # both infinities
        total = values.sum(dtype=np.float64)  # one pass without a temporary: infinite or NaN if any value is
    if np.isfinite(total):
        return
    infinite: BoolArray = np.isinf(values)
    if not infinite.any():
        return
    if is_sparse(matrix):
        entry = int(np.flatnonzero(infinite)[0])
        row, column_idx = int(np.searchsorted(matrix.indptr, entry, side="right") - 1), int(matrix.indices[entry])
        n_bad = len(np.unique(np.searchsorted(matrix.indptr, np.flatnonzero(infinite), side="right")))
    else:
        n_bad = int(infinite.any(axis=1).sum())
        row, column_idx = (int(position) for position in np.argwhere(infinite)[0])
    name = repr(names[column_idx]) if names and len(names) == n_features else str(column_idx)
    raise ValueError(
        f"{what} must be finite or missing (NaN) in float32; {n_bad} of {n_samples} rows hold infinity or a value "
        f"beyond 3.4e38, the first at row {row}, column {name}. Replace it by NaN if it means missing, or rescale."
    )


def with_columns(context: ContextMatrix, columns: AnyArray) -> ContextMatrix:
    """Return contexts with further columns on their right; sparse if the contexts are."""
    if is_sparse(context):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([context, csr_array(columns)], format="csr"))
    return np.hstack([context, columns])


def read_only(array: Any) -> Any:
    """Return an array that cannot be written to, without touching the flags of the caller's own array."""
    if is_sparse(array):
        for part in (array.data, array.indices, array.indptr):
            part.flags.writeable = False
        return array
    view = array.view()
    view.flags.writeable = False
    return view
