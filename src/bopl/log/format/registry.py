"""From a path to what its files hold: the format is told by the extension, or named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import error as zlib_error

from bopl._errors import UsageError
from bopl.log.context import quoted
from bopl.log.format.columnar import Wanted, read_arrow, read_csv, read_json_lines, read_parquet
from bopl.log.format.dsjson import looks_like_dsjson, read_dsjson
from bopl.log.format.files import LogFile, find_files, suffix_of
from bopl.log.format.ids import with_ids_of_one_kind
from bopl.log.format.open_bandit import ITEM_FILE, looks_like_open_bandit, open_bandit_parts
from bopl.log.format.parts import LogParts
from bopl.log.format.vowpal import open_text, read_vowpal
from bopl.log.format.written import table_parts
from bopl.log.written import with_one_description

_MAX_FIRST_LINE = 1 << 20  # characters


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
LOGS: dict[str, Callable[[Sequence[Path]], LogParts]] = {"vw": read_vowpal, "dsjson": read_dsjson}
OPEN_BANDIT = "obd"
TITLES = {
    "parquet": "Parquet",
    "csv": "CSV",
    "arrow": "Arrow",
    "jsonl": "JSON lines",
    "vw": "Vowpal Wabbit text",
    "dsjson": "Vowpal Wabbit dsjson",
    OPEN_BANDIT: "Open Bandit Dataset",
}
EXTENSIONS = {extension: name for name, table in TABLES.items() for extension in table.extensions}
EXTENSIONS |= {".vw": "vw", ".dsjson": "dsjson"}
FORMATS = (*TABLES, *LOGS, OPEN_BANDIT)


def read_parts(
    path: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    text: Sequence[str] = (),
    ids: Sequence[str] = (),
) -> LogParts:
    """Return what the files of a path hold.

    Parameters
    ----------
    path : str or Path
        A file, a folder or a pattern such as ``logs/*.parquet``.
    format : str, optional
        One of `FORMATS`; by default told by the extension, and where several formats share one by the first line.
    columns : sequence of str, optional
        Columns that are needed; all by default.
    ignore : sequence of str
        Columns that are not wanted.
    text : sequence of str
        Columns that are text, also where a CSV file makes them look like numbers or times.
    ids : sequence of str
        Columns of labels: they are text where ``01`` and ``1``, or whole numbers beyond 64 bits, would become one.
    """
    files = [file for file in find_files(path) if file.path.name != ITEM_FILE] or find_files(path)
    name = format_of(files, format)
    paths = [file.path for file in files]
    wanted = Wanted(columns, ignore, text, ids)
    if name in LOGS:
        parts = _without(LOGS[name](paths), ignore)
    elif name == OPEN_BANDIT:
        parts = open_bandit_parts(read_tables(files, read_csv, wanted), paths)
    else:
        parts = table_parts(read_tables(files, TABLES[name].read, wanted))
    return replace(parts, format=TITLES[name])


def _without(parts: LogParts, ignore: Sequence[str]) -> LogParts:
    """Return a log without columns; those of sparse contexts are not in the table, and left out later."""
    if parts.sparse is not None:
        return parts
    return replace(parts, table=parts.table.select(Wanted(ignore=ignore).of(parts.table.column_names)))


def read_table(path: str | Path, *, format: str | None = None, columns: Sequence[str] | None = None) -> Any:
    """Return the files of a path as one arrow table."""
    return read_parts(path, format=format, columns=columns).table


def format_of(files: Sequence[LogFile], given: str | None) -> str:
    """Return the name of the format: the one given, or the one that all files' extensions tell."""
    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"format must be one of {quoted(FORMATS)}; got {given!r}.")
        return given
    found = {file.path: EXTENSIONS.get(suffix_of(file.path)) for file in files}
    unknown = [file for file, name in found.items() if name is None]
    if unknown:
        raise UsageError(
            f"{unknown[0].name!r} has an extension that tells no format; known are {', '.join(EXTENSIONS)}. Name the "
            "format, such as format='csv' (--format csv)."
        )
    names = {name for name in found.values() if name is not None}
    if len(names) > 1:
        raise UsageError(f"the files are of several formats ({', '.join(sorted(names))}); read them one by one.")
    return _told_by_first_line(names.pop(), files[0].path)


def _told_by_first_line(name: str, file: Path) -> str:
    """Return the more special format where the first line says so."""
    if name not in ("csv", "jsonl"):
        return name
    try:
        with open_text(file) as lines:
            first = lines.readline(_MAX_FIRST_LINE)
    except (OSError, EOFError, UnicodeDecodeError, zlib_error):  # whoever reads it in full says what is wrong
        return name
    if name == "csv":
        return OPEN_BANDIT if looks_like_open_bandit(first) else name
    if first.lstrip().startswith("["):
        raise ValueError(f"{str(file)!r} is one JSON array; write one object per line, without brackets and commas.")
    return "dsjson" if looks_like_dsjson(first) else name


def read_tables(files: Sequence[LogFile], read: Callable[[Path, Wanted], Any], wanted: Wanted) -> Any:
    """Return files of one kind as one table, with the columns that folders such as ``day=…`` stand for."""
    import pyarrow

    tables = [_read_one(file, read, wanted) for file in files]
    if len(tables) == 1:
        return tables[0]
    tables = with_ids_of_one_kind(with_one_description(tables), wanted.ids)
    if read is read_json_lines:
        tables = _times_as_text(tables)
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive")
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"the {len(files)} files do not fit together: {reason}.") from None


def _times_as_text(tables: Sequence[Any]) -> list[Any]:
    """Return tables whose times are text again where another file has text that is no time."""
    from pyarrow import schema, string, types

    fields = [field for table in tables for field in table.schema]
    text = {field.name for field in fields if types.is_string(field.type)}
    mixed = {field.name for field in fields if types.is_timestamp(field.type)} & text
    return [
        table.cast(schema([field.with_type(string()) if field.name in mixed else field for field in table.schema]))
        for table in tables
    ]


def _read_one(file: LogFile, read: Callable[[Path, Wanted], Any], wanted: Wanted) -> Any:
    import pyarrow

    table = read(file.path, wanted.without(file.partition))
    for name, value in file.partition.items():
        if name not in wanted.ignore and (wanted.columns is None or name in wanted.columns):
            table = table.append_column(name, pyarrow.repeat(value, len(table)))
    return table
