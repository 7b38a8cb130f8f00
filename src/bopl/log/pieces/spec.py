"""`PieceSpec`: all that turns a row group into a part of a log, small enough to be sent to another machine."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log.bandit_log import BanditLog, replaced
from bopl.log.check import check_reward, float_column, number_groups
from bopl.log.cleaning import ChosenRows, RowChoice, choose_rows
from bopl.log.context import read_only
from bopl.log.format.columnar import checked, text_columns, validated
from bopl.log.format.log_format import PARQUET
from bopl.log.format.log_parts import LogParts, table_parts
from bopl.log.instant import from_epoch, read_times
from bopl.log.pieces.footer import check_unchanged, plain_type
from bopl.log.pieces.piece import Piece, naming_rows
from bopl.log.read import log_of_parts, sparse_rows
from bopl.log.request import LogRequest
from bopl.log.schema import LogSchema


@dataclass(frozen=True)
class Step:
    """A method of `BanditLog` that is called on each piece once it is read; can be sent elsewhere and compared."""

    method: str
    given: tuple[Any, ...]

    def __call__(self, log: BanditLog) -> BanditLog:
        """Return what the method makes of a piece."""
        made: BanditLog = getattr(log, self.method)(*self.given)
        return made


@dataclass(frozen=True)
class TimeReading:
    """How all times of a log are read, whatever those of one piece look like."""

    dtype: str | None  # of times that are dates; None for numbers
    unit: str | None = None  # what numbers count in from 1970; None if they only count

    def read(self, column: Any) -> AnyArray:
        """Return a column of times."""
        values = read_times(column)
        if self.dtype is not None:
            return values.astype(self.dtype)
        return values if self.unit is None else from_epoch(values, self.unit)


@dataclass(frozen=True, eq=False)
class RowColumns:
    """What a split looks at: times and groups of samples, where they have such."""

    n_samples: int
    time: AnyArray | None = None
    group: IntArray | None = None

    @classmethod
    def joined(cls, parts: Sequence[RowColumns]) -> RowColumns:
        """Return the columns of several parts, in their order."""
        time = [part.time for part in parts if part.time is not None]
        group = [part.group for part in parts if part.group is not None]
        return cls(
            sum(part.n_samples for part in parts),
            np.concatenate(time) if time else None,
            np.concatenate(group) if group else None,
        )


@dataclass(frozen=True, eq=False)
class PieceSpec:
    """How a row group becomes a part of a log."""

    request: LogRequest  # what the columns are, and which rows are asked for
    roles: Mapping[str, str]  # role to column name
    columns: tuple[str, ...]  # columns to read
    types: Mapping[str, Any]  # name to pyarrow.DataType: what the columns hold, for all files together
    context: tuple[str, ...]  # columns whose infinite entries make a row invalid
    actions: list[Any] | None = None  # None if they are not known yet
    schema: LogSchema | None = None  # how columns become contexts; None if the files say so themselves
    groups: AnyArray | None = None  # labels of all groups, in the order of their numbers
    time: TimeReading | None = None
    steps: tuple[Step, ...] = ()  # what is done with each part once it is read, such as filling in propensities

    def load(self, piece: Piece) -> BanditLog:
        """Return the samples of a piece as a checked log, encoded as the whole log is."""
        parts, rows = self.chosen_parts(piece, self.columns)
        with naming_rows(piece, rows):
            request = replace(self.request, rows=RowChoice())
            log = log_of_parts(request, parts, actions=self.actions, schema=self.schema)
            log = replaced(log, **self._as_in_whole_log(log, parts), origin=None)
        for step in self.steps:
            log = step(log)
        return log

    def chosen_parts(self, piece: Piece, columns: tuple[str, ...]) -> tuple[LogParts, IntArray | None]:
        """Return some columns of a piece's samples, and where they stand in the row group, None for all of its rows.

        There may be more columns: all are read if the choice of rows looks at them.
        """
        rows = None
        if self.request.rows.is_any:
            parts = read_piece(piece, self.columns, self.types)
            chosen = self.choose(piece, parts)
            parts, rows = self.taken(parts, chosen), chosen.rows
        else:
            parts = read_piece(piece, columns, self.types)
        if (selected := piece.selected()) is not None:
            parts, rows = parts.take(selected), selected if rows is None else rows[selected]
        return parts, rows

    def taken(self, parts: LogParts, chosen: ChosenRows) -> LogParts:
        """Return the chosen rows, with the numbers that they had to be turned into."""
        parts = parts.take(chosen.rows)
        for role, numbers in chosen.numbers.items():
            parts = _with_column(parts, self.roles[role], numbers)
        return parts

    def choose(self, piece: Piece, parts: LogParts) -> ChosenRows:
        """Return which rows of a row group are asked for and can be used; there may be none."""
        choice = self.request.rows
        with naming_rows(piece, None):
            if parts.sparse is not None:
                return sparse_rows(choice, parts.sparse, parts, self.roles, self.actions, is_part=True)
            table = nw.from_native(parts.table, eager_only=True)
            columns = {name: table[name] for name in table.columns}
            return choose_rows(choice, columns, self.roles, self.context, self.actions, is_part=True)

    def _as_in_whole_log(self, log: BanditLog, parts: LogParts) -> dict[str, Any]:
        """Return the columns of a part that can only be told from the whole log."""
        found: dict[str, Any] = {}
        if self.time is not None:
            found["time"] = read_only(self.time.read(parts.table[self.roles["time"]]))
        if self.groups is not None and log.group is not None and log.group_labels is not None:
            found["group"] = read_only(positions_of(log.group_labels, self.groups)[log.group])
            found["group_labels"] = self.groups
        return found

    def rows_of(self, piece: Piece) -> RowColumns:
        """Return times and groups of a piece's samples, without reading more than has to be."""
        named = {role: self.roles[role] for role in ("time", "group") if role in self.roles}
        if not named:
            return RowColumns(piece.n_rows)
        parts, rows = self.chosen_parts(piece, tuple(named.values()))
        with naming_rows(piece, rows):
            time = None if self.time is None else self.time.read(parts.table[named["time"]])
            if self.groups is None:
                return RowColumns(piece.n_rows, time)
            codes, labels = number_groups(parts.table[named["group"]])
            return RowColumns(piece.n_rows, time, positions_of(labels, self.groups)[codes])

    def rewards_of(self, piece: Piece) -> FloatArray:
        """Return the rewards of a piece's samples as the files have them, without reading more than has to be."""
        return self._numbers_of(piece, "reward", check_reward)

    def propensities_of(self, piece: Piece) -> FloatArray:
        """Return the propensities of a piece's samples as the files have them, not checked further."""
        return self._numbers_of(piece, "propensity", lambda column: float_column(column, "propensity"))

    def _numbers_of(self, piece: Piece, role: str, read: Callable[[Any], FloatArray]) -> FloatArray:
        name = self.roles[role]
        parts, rows = self.chosen_parts(piece, (name,))
        with naming_rows(piece, rows):
            return read(parts.table[name])

    def place_of(self, piece: Piece, row: int) -> str:
        """Return where a sample of a piece stands, for a message."""
        _, rows = self.chosen_parts(piece, (self.roles["reward"],))
        return f"row {piece.file_row + (row if rows is None else int(rows[row]))} of {piece.file!r}"

    @property
    def fingerprint(self) -> str:
        """A hash of all that decides what a row group becomes."""
        schema = None if self.schema is None else self.schema.to_json()
        rows = self.request.rows.parameters
        said = repr((dict(self.roles), self.columns, self.types, self.actions, schema, self.time, rows, self.request))
        groups = b"" if self.groups is None else pickle.dumps(self.groups.tolist())
        steps = pickle.dumps(self.steps)
        return hashlib.sha256(said.encode() + groups + steps).hexdigest()[:32]


def read_piece(piece: Piece, columns: tuple[str, ...], types: Mapping[str, Any]) -> LogParts:
    """Return the columns of a row group; raise if its file is gone or has changed."""
    check_unchanged(piece.file, piece.stamp)
    table = checked(piece.file, "Parquet", lambda source: _row_group(source, piece, columns))
    return replace(table_parts(_cast(table, types, piece)), format=PARQUET.title)


def positions_of(labels: AnyArray, known: AnyArray) -> IntArray:
    """Return the position of each label among those known; numbers and text are sorted, other labels are not."""
    if known.dtype != object:
        return np.searchsorted(known, labels).astype(np.int64)
    place = {label: idx for idx, label in enumerate(known.tolist())}
    return np.array([place[label] for label in labels.tolist()], dtype=np.int64)


def _row_group(source: Path, piece: Piece, columns: tuple[str, ...]) -> Any:
    import pyarrow
    import pyarrow.parquet as pq

    schema = pq.read_schema(source)
    present = [name for name in columns if name in schema.names]
    with pq.ParquetFile(source, read_dictionary=text_columns(schema, present)) as file:
        table = validated(file.read_row_group(piece.row_group, columns=present))
    for name, value in piece.partition:
        if name in columns:
            table = table.append_column(name, pyarrow.repeat(value, len(table)))
    return table.select(list(columns))


def _cast(table: Any, types: Mapping[str, Any], piece: Piece) -> Any:
    """Return a table with the types that all files have in common."""
    import pyarrow

    for place, field in enumerate(table.schema):
        wanted = types[field.name]
        if plain_type(field.type) != wanted:
            column = table[field.name]
            plain = column.cast(plain_type(field.type)) if field.type != plain_type(field.type) else column
            try:
                table = table.set_column(place, field.with_type(wanted), plain.cast(wanted))
            except pyarrow.ArrowInvalid as error:
                raise ValueError(
                    f"column {field.name!r} holds {wanted} in another file, which does not suit that of "
                    f"{piece.file!r}: {str(error).rstrip('.')}. Exclude it with ignore, or give it one type in all "
                    "files."
                ) from None
    return table


def _with_column(parts: LogParts, name: str, numbers: AnyArray) -> LogParts:
    import pyarrow

    place = parts.table.column_names.index(name)
    return replace(parts, table=parts.table.set_column(place, name, pyarrow.array(numbers)))
