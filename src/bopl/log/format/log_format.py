"""From a path to the contents of its files: the format is determined by the extension, or given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import error as zlib_error

from bopl._errors import UsageError, did_you_mean, quoted
from bopl._registry import Registry
from bopl.log.format.columnar import Wanted, read_arrow, read_csv, read_json_lines, read_parquet
from bopl.log.format.dsjson import looks_like_dsjson, read_dsjson
from bopl.log.format.files import LogFile, check_same_columns, find_files, suffix_of
from bopl.log.format.ids import with_ids_of_one_kind
from bopl.log.format.log_parts import LogParts, table_parts
from bopl.log.format.open_bandit import ITEM_FILE, looks_like_open_bandit, open_bandit_parts
from bopl.log.format.vowpal import open_text, read_vowpal
from bopl.log.written import is_raw, with_one_description

_MAX_FIRST_LINE = 1 << 20  # characters


@dataclass(frozen=True)
class LogFormat:
    """A format of log files: how it is recognised and read. Either ``read_table`` or ``read_log`` is given.

    Attributes
    ----------
    name, title : str
        Name in code and commands, and what reports call it.
    extensions : tuple of str
        Extensions of the format, in lower case and with the dot.
    read_table : callable, optional
        From the path of one file and what is wanted of it (`Wanted`) to an arrow table. Tables of several files are
        joined, and columns from folder names such as ``day=…`` are added. The user gives the roles of the columns.
    read_log : callable, optional
        From the paths of all files to `LogParts`, for formats that define action, reward and propensity themselves.
    """

    name: str
    title: str
    extensions: tuple[str, ...] = ()
    read_table: Callable[[Path, Wanted], Any] | None = None
    read_log: Callable[[Sequence[Path]], LogParts] | None = None

    def read(self, files: Sequence[LogFile], wanted: Wanted) -> LogParts:
        """Return what the files hold."""
        paths = [file.path for file in files]
        if self.read_log is not None:
            return _without(self.read_log(paths), wanted.ignore)
        assert self.read_table is not None
        table = read_tables(files, self.read_table, wanted)
        return open_bandit_parts(table, paths) if self is OPEN_BANDIT else table_parts(table)


PARQUET = LogFormat("parquet", "Parquet", (".parquet", ".pq"), read_parquet)
OPEN_BANDIT = LogFormat("obd", "Open Bandit Dataset", read_table=read_csv)
_OWN = (
    PARQUET,
    LogFormat("csv", "CSV", (".csv", ".tsv"), read_csv),
    LogFormat("arrow", "Arrow", (".arrow", ".feather", ".ipc"), read_arrow),
    LogFormat("jsonl", "JSON lines", (".jsonl", ".ndjson", ".json"), read_json_lines),
    LogFormat("vw", "Vowpal Wabbit text", (".vw",), read_log=read_vowpal),
    LogFormat("dsjson", "Vowpal Wabbit dsjson", (".dsjson",), read_log=read_dsjson),
    OPEN_BANDIT,
)
_OWN_EXTENSIONS = {extension: one.name for one in _OWN for extension in one.extensions}
FORMATS: Registry[LogFormat] = Registry("bopl.formats", {one.name: one for one in _OWN})


def register_format(one: LogFormat) -> LogFormat:
    """Register your own log format, which is recognised by its extension or by its name."""
    if (one.read_table is None) == (one.read_log is None):
        raise TypeError(f"the format {one.name!r} needs either read_table or read_log, not both.")
    FORMATS[one.name] = one
    return one


def _extensions() -> dict[str, str]:
    """Return the format that each extension tells; ours come first."""
    found = dict(_OWN_EXTENSIONS)
    for name, one in FORMATS.usable():
        for extension in one.extensions:
            found.setdefault(extension, name)
    return found


def read_parts(
    path: str | Path | Sequence[str | Path],
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
    path : str or Path, or a sequence of them
        A file, a folder or a pattern such as ``logs/*.parquet``; several are one log, in their order.
    format : str, optional
        One of `FORMATS`; by default determined by the extension, and by the first line if several formats share it.
    columns : sequence of str, optional
        Columns that are needed; all by default.
    ignore : sequence of str
        Columns to leave out.
    text : sequence of str
        Columns that are text, also where a CSV file makes them look like numbers or times.
    ids : sequence of str
        Columns of labels: they are text where ``01`` and ``1``, or whole numbers beyond 64 bits, would become one.
    """
    files = [file for file in find_files(path) if file.path.name != ITEM_FILE] or find_files(path)
    chosen = FORMATS[format_of(files, format)]
    return replace(chosen.read(files, Wanted(columns, ignore, text, ids)), format=chosen.title)


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
            hint = did_you_mean(given, tuple(FORMATS))
            raise UsageError(f"format must be one of {quoted(tuple(FORMATS))}; got {given!r}.{hint}")
        return given
    if not files:
        raise UsageError("there is no file to read: path is an empty list.")
    known = _OWN_EXTENSIONS
    if any(suffix_of(file.path) not in known for file in files):
        known = _extensions()
    found = {file.path: known.get(suffix_of(file.path)) for file in files}
    unknown = [file for file, name in found.items() if name is None]
    if unknown:
        if suffix_of(unknown[0]) == ".bopl":
            raise UsageError(f"{unknown[0].name!r} is a policy file, not a log; name the log first, then the policy.")
        raise UsageError(
            f"{unknown[0].name!r} has an unknown extension; known are {', '.join(known)}. Name the "
            "format, such as format='csv'."
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
        return OPEN_BANDIT.name if looks_like_open_bandit(first) else name
    if first.lstrip().startswith("["):
        raise ValueError(f"{str(file)!r} is one JSON array; write one object per line, without brackets and commas.")
    return "dsjson" if looks_like_dsjson(first) else name


def read_tables(files: Sequence[LogFile], read: Callable[[Path, Wanted], Any], wanted: Wanted) -> Any:
    """Return files of one kind as one table, with the columns that folders such as ``day=…`` stand for."""
    import pyarrow

    if len(files) == 1:
        return _read_one(files[0], read, wanted)
    seen: set[str] = {name for file in files for name in file.partition}
    wanted = replace(wanted, seen=seen)
    tables = [_read_one(file, read, wanted) for file in files]
    wanted.check_ignored(seen)
    tables = with_ids_of_one_kind(with_one_description(tables), wanted.ids)
    if read is read_json_lines:
        tables = _times_as_text(tables)
    elif not is_raw(tables[0]):
        found = {str(file.path): table.column_names for file, table in zip(files, tables, strict=True)}
        check_same_columns(found, wanted.columns)  # records, in files of lines or of a loop, name only what they have
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive")
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        reason = _differing_column(files, tables) or str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"the {len(files)} files do not match: {reason}.") from None


def _differing_column(files: Sequence[LogFile], tables: Sequence[Any]) -> str | None:
    """Return the first column that is of one kind in a file and of another in a later one, and what to do."""
    import pyarrow

    first: dict[str, tuple[LogFile, Any]] = {}
    for file, table in zip(files, tables, strict=True):
        for field in table.schema:
            is_text = pyarrow.types.is_dictionary(field.type)
            kind = field.type.value_type if is_text else field.type
            owner, known = first.setdefault(field.name, (file, kind))
            if pyarrow.types.is_null(known):
                first[field.name] = (file, kind)
                continue
            pair = [pyarrow.schema([(field.name, one)]) for one in (known, kind)]
            try:
                pyarrow.unify_schemas(pair, promote_options="permissive")
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                return (
                    f"column {field.name!r} holds {known} in {str(owner.path)!r} and {kind} in {str(file.path)!r}. "
                    "Exclude it with ignore, or rewrite one of the files"
                )
    return None


def _times_as_text(tables: Sequence[Any]) -> list[Any]:
    """Return tables whose times are text again where another file has text that is not a time."""
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
