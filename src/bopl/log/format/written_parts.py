"""Tables that were made of a log: their parts, as the table's metadata describes them."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import quoted
from bopl._typing import BoolArray
from bopl.log.column import distinct_values
from bopl.log.format.log_parts import LogParts, SparseContext
from bopl.log.written import Written, description_of


def table_parts(table: Any) -> LogParts:
    """Return the parts of a table; of one that was made of a log, with all that its metadata says."""
    written = description_of(table)
    if written is None:
        return LogParts(table)
    present = table.column_names
    eligible = None if written.eligible not in present else _mask(table[written.eligible], written)
    sparse = None if written.sparse not in present else _sparse_context(table[written.sparse], written)
    hidden = [name for name in (written.eligible, written.sparse) if name in present]
    schema = written.reading_schema()
    return LogParts(
        table.drop_columns(hidden) if hidden else table,
        roles={role: name for role, name in written.roles.items() if name in present},
        categorical=schema.categorical,
        sparse=sparse,
        actions=written.actions,
        action_mask=eligible,
        action_features=written.action_features,
        written=written,
    )


def _mask(column: Any, written: Written) -> BoolArray:
    """Return which actions could be chosen, from lists of them; all where there is no list."""
    mask = np.ones((len(column), len(written.actions)), dtype=np.bool_)
    is_listed = column.is_valid().to_numpy(zero_copy_only=False)
    row, labels, position = _entries(column, written.eligible, is_map=False)
    place = {label: idx for idx, label in enumerate(written.actions)}
    unknown = [label for label in labels if label not in place]
    if unknown or (position < 0).any():
        raise ValueError(
            f"column {written.eligible!r} lists {quoted(unknown or [None])}, which is not among the "
            f"{len(written.actions)} actions of the log."
        )
    mask[is_listed] = False
    if len(row):
        mask[row, np.array([place[label] for label in labels], dtype=np.int64)[position]] = True
    return mask


def _sparse_context(column: Any, written: Written) -> SparseContext:
    from scipy.sparse import csr_array

    names = written.reading_schema().feature_names
    row, labels, position = _entries(column, written.sparse, is_map=True)
    place = {name: idx for idx, name in enumerate(names)}
    unknown = [label for label in labels if label not in place]
    if unknown or (position < 0).any():
        raise ValueError(
            f"column {written.sparse!r} holds {quoted(unknown or [None])}, which is not a feature of the log."
        )
    feature = np.array([place[label] for label in labels], dtype=np.int64)[position] if len(row) else position
    value = _flat(column).items.to_numpy(zero_copy_only=False) if len(row) else np.zeros(0, np.float32)
    return SparseContext(csr_array((value, (row, feature)), shape=(len(column), len(names))), names)


def _entries(column: Any, name: str | None, *, is_map: bool) -> tuple[Any, list[Any], Any]:
    """Return the row of each entry of lists or maps, the distinct labels and which of them each entry is."""
    from pyarrow import types

    kind = column.type
    is_right = types.is_map(kind) if is_map else (types.is_list(kind) or types.is_large_list(kind))
    if not is_right:
        raise ValueError(
            f"column {name!r} must hold {'maps' if is_map else 'lists'}, as it was written; it holds {kind}."
        )
    flat = _flat(column)
    labels, position = distinct_values(
        nw.from_native(_chunked(flat.keys if is_map else flat.flatten()), series_only=True)
    )
    length = np.diff(flat.offsets.to_numpy(zero_copy_only=False))
    return np.repeat(np.arange(len(column)), length), labels, position


def _flat(column: Any) -> Any:
    """Return a column in one piece, whose entries begin at its first row and which has none where it is missing."""
    import pyarrow

    return pyarrow.concat_arrays(column.chunks) if column.num_chunks else pyarrow.array([], column.type)


def _chunked(array: Any) -> Any:
    import pyarrow

    return pyarrow.chunked_array([array])
