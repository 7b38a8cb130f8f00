"""What a format hands over: columns by name, and whatever else a file says; nothing is checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bopl._typing import AnyArray, BoolArray, ContextMatrix, IntArray
from bopl.log.context import read_context
from bopl.log.schema import LogSchema
from bopl.log.written import Written


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
