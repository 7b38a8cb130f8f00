"""From a path to what its files hold: the format is told by the extension, or named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl.log.context import quoted
from bopl.log.format.columnar import Wanted, read_arrow, read_csv, read_json_lines, read_parquet
from bopl.log.format.files import LogFile, find_files, suffix_of
from bopl.log.format.parts import LogParts


@dataclass(frozen=True)
class TableFormat:
    """A format whose files are tables."""

    extensions: tuple[str, ...]
    read: Callable[[Path, Wanted], Any]


TABLES = {
    "parquet": TableFormat((".parquet", ".pq"), read_parquet),
    "csv": TableFormat((".csv", ".tsv"), read_csv),
    "arrow": TableFormat((".arrow", ".feather", ".ipc"), read_arrow),
    "jsonl": TableFormat((".jsonl", ".ndjson", ".json"), read_json_lines),
}
FORMATS = tuple(TABLES)


def read_parts(
    path: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> LogParts:
    """Return what the files of a path hold.

    Parameters
    ----------
    path : str or Path
        A file, a folder or a pattern such as ``logs/*.parquet``.
    format : str, optional
        One of `FORMATS`; by default told by the extension.
    columns : sequence of str, optional
        Columns that are needed; all by default.
    ignore : sequence of str
        Columns that are not wanted.
    """
    files = find_files(path)
    name = format_of(files, format)
    return LogParts(read_tables(files, TABLES[name].read, Wanted(columns, ignore)))


def read_table(path: str | Path, *, format: str | None = None, columns: Sequence[str] | None = None) -> Any:
    """Return the files of a path as one arrow table."""
    return read_parts(path, format=format, columns=columns).table


def format_of(files: Sequence[LogFile], given: str | None) -> str:
    """Return the name of the format: the one given, or the one that all files' extensions tell."""
    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"format must be one of {quoted(FORMATS)}; got {given!r}.")
        return given
    found = {file.path: _by_extension(suffix_of(file.path)) for file in files}
    unknown = [file for file, name in found.items() if name is None]
    if unknown:
        known = ", ".join(extension for table in TABLES.values() for extension in table.extensions)
        raise UsageError(
            f"{unknown[0].name!r} has an extension that tells no format; known are {known}. Name the format, such as "
            "format='csv' (--format csv)."
        )
    names = {name for name in found.values() if name is not None}
    if len(names) > 1:
        raise UsageError(f"the files are of several formats ({', '.join(sorted(names))}); read them one by one.")
    return names.pop()


def _by_extension(extension: str) -> str | None:
    return next((name for name, table in TABLES.items() if extension in table.extensions), None)


def read_tables(files: Sequence[LogFile], read: Callable[[Path, Wanted], Any], wanted: Wanted) -> Any:
    """Return files of one kind as one table, with the columns that folders such as ``day=…`` stand for."""
    import pyarrow

    tables = [_read_one(file, read, wanted) for file in files]
    if len(tables) == 1:
        return tables[0]
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive")
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"the {len(files)} files do not fit together: {reason}.") from None


def _read_one(file: LogFile, read: Callable[[Path, Wanted], Any], wanted: Wanted) -> Any:
    import pyarrow

    table = read(file.path, wanted.without(file.partition))
    for name, value in file.partition.items():
        if name not in wanted.ignore and (wanted.columns is None or name in wanted.columns):
            table = table.append_column(name, pyarrow.repeat(value, len(table)))
    return table
