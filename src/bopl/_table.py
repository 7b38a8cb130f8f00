"""Results as users hold them: rows with fields that are mappings, too, frames, and a small table without pandas."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, get_type_hints

import numpy as np

from bopl._html import card
from bopl._html import table as html_table
from bopl._typing import AnyArray


def to_table(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas frame if pandas is installed, otherwise as a `Table`."""
    return to_frame(columns, "pandas") if is_installed("pandas") else Table(columns)


class Tabular(ABC):
    """Rows that can be had as a frame: pandas, polars, pyarrow, or whatever else reads Arrow."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Any]:
        """Return the columns by name, all of one length."""

    @property
    def table(self) -> Any:
        """The rows: a pandas frame if pandas is installed, else a small table that is read in the same way."""
        return to_table(self._columns())

    def to_arrow(self) -> Any:
        """Return the rows as a pyarrow table."""
        return to_arrow(self._columns())

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the rows as a frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default pandas if it is installed, else polars, else pyarrow.
        """
        return to_frame(self._columns(), backend)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Table:
    """Named columns of one length, which answer to the few things that one does with a short table.

    ``table["value"]`` is an array, ``table[["policy", "value"]]`` a table; ``round``, ``columns`` and ``shape`` are as
    in a pandas frame. Whatever reads Arrow, such as ``polars.DataFrame(table)``, takes it as it is.

    Parameters
    ----------
    columns : mapping of str to sequence of length n_rows

    Examples
    --------
    >>> print(Table({"policy": ["old", "new"], "value": [0.1, 0.25]})[["policy", "value"]].round(1))
       policy  value
    0     old    0.1
    1     new    0.2
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns: dict[str, AnyArray] = {name: _as_array(values) for name, values in columns.items()}

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), len(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, names: str | list[str]) -> Any:
        absent = [name for name in ([names] if isinstance(names, str) else names) if name not in self._columns]
        if absent:
            raise KeyError(f"there is no column {absent[0]!r}; there are {', '.join(self._columns)}.")
        if isinstance(names, str):
            return self._columns[names]
        return Table({name: self._columns[name] for name in names})

    def __iter__(self) -> Iterator[str]:  # names, as a frame's
        return iter(self._columns)

    def round(self, decimals: int = 0) -> Table:
        """Return the table with its numbers rounded."""
        is_number = {name: values.dtype.kind == "f" for name, values in self._columns.items()}
        return Table({n: one.round(decimals) if is_number[n] else one for n, one in self._columns.items()})

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one mapping per row."""
        lists = [values.tolist() for values in self._columns.values()]
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return to_arrow({name: values.tolist() for name, values in self._columns.items()}).__arrow_c_stream__(
            requested_schema
        )

    def _cells(self) -> list[list[str]]:
        texts = [_texts(values) for values in self._columns.values()]
        return [list(row) for row in zip(*texts, strict=True)]

    def __repr__(self) -> str:
        rows = [["", *self.columns], *([str(number), *cells] for number, cells in enumerate(self._cells()))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        numbers = [position for position, one in enumerate(self._columns.values()) if one.dtype.kind in "if"]
        return card("Table", f"{len(self)} rows", html_table(self.columns, self._cells(), numeric=numbers))


def _as_array(values: Any) -> AnyArray:
    found = np.asarray(values)
    return found if found.dtype.kind in "biuf" else np.array(list(values), dtype=object)


def _texts(values: AnyArray) -> list[str]:
    """Return a column as text; numbers have as many decimals as the one that needs most."""
    if values.dtype.kind != "f":
        return [str(value) for value in values.tolist()]
    shortest = [np.format_float_positional(value, precision=6, trim="-") for value in values]
    n_decimals = max((len(text.partition(".")[2]) for text in shortest), default=0)
    return [f"{value:.{max(n_decimals, 1)}f}" if np.isfinite(value) else str(value) for value in values.tolist()]


def is_installed(backend: str) -> bool:
    """Return whether a library of frames can be imported."""
    return find_spec(backend) is not None


def to_arrow(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pyarrow table."""
    import pyarrow

    return pyarrow.table(dict(columns))


def to_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return columns as a frame.

    Parameters
    ----------
    columns : mapping of str to sequence of length n_rows
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default pandas if it is installed, else polars, else pyarrow.
    """
    if backend is None:
        backend = next((name for name in ("pandas", "polars") if is_installed(name)), "pyarrow")
    if backend == "pandas":
        return to_arrow(columns).to_pandas()
    if backend == "polars":
        import polars

        return polars.from_arrow(to_arrow(columns))
    if backend == "pyarrow":
        return to_arrow(columns)
    raise ValueError(f"backend must be 'pandas', 'polars' or 'pyarrow'; got {backend!r}.")


class Record(Mapping[str, Any]):
    """Base of the rows of a result: fields for code, names for users, frames and JSON.

    Subclasses are ``@dataclass(frozen=True, eq=False)``, so that two records are compared as mappings are, and a record
    equals a dict of the same values.
    """

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(f"there is no {name!r}; there are {', '.join(self)}.")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))  # type: ignore[arg-type]  # subclasses are dataclasses

    def __len__(self) -> int:
        return len(fields(self))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that JSON can hold; a number that is not finite becomes None."""
        return {name: None if is_missing(value) else value for name, value in self.items()}


def is_missing(value: object) -> bool:
    """Return whether a value is a number that JSON cannot hold."""
    return isinstance(value, float) and not math.isfinite(value)


def column_texts(kind: type) -> dict[str, str]:
    """Return what the columns of a record are, by name: the texts of its ``Annotated`` fields."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}
