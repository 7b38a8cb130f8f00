"""What a format hands over: columns by name, and whatever else a file or its metadata says; nothing is checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import quoted
from bopl._typing import AnyArray, BoolArray, ContextMatrix, IntArray
from bopl.log.column import distinct_values
from bopl.log.context import read_context
from bopl.log.schema import LogSchema
from bopl.log.written import Written, description_of


@dataclass(frozen=True)
class SparseContext:
    """Contexts that list only what is there: a sparse matrix and the names of its columns."""

    matrix: ContextMatrix
    names: tuple[str, ...]


@dataclass(frozen=True)
class LogParts:
    """A log as its file has it.

    Attributes
    ----------
    table : pyarrow.Table
        One row per decision.
    roles : mapping of role to column name
        What the format itself calls action, reward, propensity and time; names given by the user come first.
    categorical : sequence of str
        Columns of numbers that are categories.
    sparse : SparseContext or None
        The contexts, where they are not columns of the table.
    actions : list of labels or None
        All actions that can be chosen, where the format lists them.
    action_mask : ndarray of shape (n_samples, n_actions) or None
    action_features : ndarray of shape (n_actions, n_action_features) or None
    names_only_what_is_there : bool
        Whether a column that no decision has a value for is absent from the file.
    format : str
        Name of the format, as people call it.
    written : Written or None
        What a table that was made of a log says of itself.
    """

    table: Any
    roles: Mapping[str, str] = field(default_factory=dict)
    categorical: Sequence[str] = ()
    sparse: SparseContext | None = None
    actions: list[Any] | None = None
    action_mask: BoolArray | None = None
    action_features: AnyArray | None = None
    names_only_what_is_there: bool = False
    format: str = ""
    written: Written | None = None

    def take(self, rows: IntArray) -> LogParts:
        """Return some of the rows, in that order."""
        sparse = None if self.sparse is None else replace(self.sparse, matrix=self.sparse.matrix[rows])
        mask = None if self.action_mask is None else self.action_mask[rows]
        return replace(self, table=self.table.take(rows), sparse=sparse, action_mask=mask)

    def context_for(self, schema: LogSchema) -> Any:
        """Return the contexts as a policy with this schema takes them."""
        if self.sparse is not None:
            return schema.align(self.sparse.matrix, self.sparse.names)
        return read_context(schema.encode(self.table_for(schema)), schema.feature_names)[0]

    def table_for(self, schema: LogSchema) -> Any:
        """Return the table; in a format that names only what is there, with empty columns for what is not."""
        import pyarrow

        table = self.table
        if self.names_only_what_is_there:
            for column in schema.columns:
                if column.name not in table.column_names:
                    table = table.append_column(column.name, pyarrow.nulls(len(table)))
        return table

    def mask_for(self, actions: Sequence[Any] | None) -> BoolArray | None:
        """Return the mask with a column for each of these actions, in their order."""
        if self.action_mask is None or self.actions is None or actions is None:
            return None
        position = {label: idx for idx, label in enumerate(self.actions)}
        mask = np.zeros((len(self.action_mask), len(actions)), dtype=np.bool_)
        for idx, label in enumerate(actions):
            if label in position:
                mask[:, idx] = self.action_mask[:, position[label]]
        return mask

    def features_for(self, actions: Sequence[Any] | None) -> AnyArray | None:
        """Return the features of these actions, in their order; None unless all of them are described."""
        if self.action_features is None or self.actions is None or actions is None:
            return None
        position = {label: idx for idx, label in enumerate(self.actions)}
        rows = [position.get(label, -1) for label in actions]
        return None if min(rows) < 0 else self.action_features[rows]


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
    row, action_idx = _entries(column, written.eligible, written.actions, is_map=False)
    mask[is_listed] = False
    mask[row, action_idx] = True
    return mask


def _sparse_context(column: Any, written: Written) -> SparseContext:
    from scipy.sparse import csr_array

    names = written.reading_schema().feature_names
    row, feature = _entries(column, written.sparse, names, is_map=True)
    value = _flat(column).items.to_numpy(zero_copy_only=False) if len(row) else np.zeros(0, np.float32)
    return SparseContext(csr_array((value, (row, feature)), shape=(len(column), len(names))), names)


def _entries(column: Any, name: str | None, known: Sequence[Any], *, is_map: bool) -> tuple[IntArray, IntArray]:
    """Return the row of each entry of lists or maps, and which of the known labels it is."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    is_right = types.is_map(kind) if is_map else (types.is_list(kind) or types.is_large_list(kind))
    if not is_right:
        raise ValueError(
            f"column {name!r} must hold {'maps' if is_map else 'lists'}, as it was written; it holds {kind}."
        )
    flat = _flat(column)
    labels, position = distinct_values(
        nw.from_native(pyarrow.chunked_array([flat.keys if is_map else flat.flatten()]), series_only=True)
    )
    place = {label: idx for idx, label in enumerate(known)}
    unknown = [label for label in labels if label not in place]
    if unknown or (position < 0).any():
        where = "a feature of the log" if is_map else f"among the {len(known)} actions of the log"
        said = f"{'holds' if is_map else 'lists'} {quoted(unknown or [None])}, which is not {where}"
        raise ValueError(f"column {name!r} {said}.")
    length = np.diff(flat.offsets.to_numpy(zero_copy_only=False))
    found = np.array([place[label] for label in labels], dtype=np.int64)[position]
    return np.repeat(np.arange(len(column)), length), found


def _flat(column: Any) -> Any:
    """Return a column in one piece, whose entries begin at its first row and which has none where it is missing."""
    import pyarrow

    return pyarrow.concat_arrays(column.chunks) if column.num_chunks else pyarrow.array([], column.type)
