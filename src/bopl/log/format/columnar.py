"""Parquet, CSV, Arrow and JSON lines: files that are tables already."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from csv import Error as CSVError
from csv import reader
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, did_you_mean
from bopl.log.context import check_unique_names
from bopl.log.format.files import PACKED, suffix_of
from bopl.log.format.ids import with_exact_ids, with_exact_json_ids
from bopl.log.frame import cast_to_times, usual_kind, with_usual_kinds
from bopl.log.written import further_columns

_INDEX_COLUMN = re.compile(r"__index_level_\d+__|Unnamed: \d+|")  # what pandas leaves behind; no decision has such
_BLOCK_BYTES = 1 << 24  # types of text files are told from the first block
_MAX_BLOCK_BYTES = (1 << 31) - 1
_NO_OBJECT = re.compile(rb"\n[ \t\r]*([^{\s])")
_BLANK = b" \t\r"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_HEAD_BYTES = 1 << 20  # of the file, that it is told from
_SAMPLE_ROWS = 50
_SEPARATORS = ",;\t|"
_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "a ZIP archive", b"\x1f\x8b": "packed with gzip"}
_UNEVEN = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+): (.*)")
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Wanted:
    """Which columns of a file are wanted: those listed, or all but some.

    Those of ``text`` are text, whatever they look like; those of ``ids`` are where numbers would merge labels. Of
    several files, ``seen`` collects all columns, as one to ignore need not be in each.
    """

    columns: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    text: Sequence[str] = ()
    ids: Sequence[str] = ()
    seen: set[str] | None = None

    def without(self, names: Collection[str]) -> Wanted:
        """Return what is wanted of a file if these columns come from elsewhere."""
        columns = None if self.columns is None else [name for name in self.columns if name not in names]
        return replace(self, columns=columns, ignore=[name for name in self.ignore if name not in names])

    def of(self, present: Sequence[str]) -> list[str]:
        """Return the wanted ones of the columns that a file has; all of them if some wanted one is absent."""
        check_unique_names(present, "the file")
        if self.seen is None:
            self.check_ignored(present)
        else:
            self.seen.update(present)
        if self.columns is None:
            return [name for name in present if name not in self.ignore and not _INDEX_COLUMN.fullmatch(name)]
        is_complete = set(self.columns) <= set(present)  # if not, who asked finds out, and can name all there are
        return list(dict.fromkeys(self.columns)) if is_complete else list(present)

    def check_ignored(self, present: Collection[str]) -> None:
        """Raise if a column to ignore is none of those that are there."""
        unknown = [name for name in self.ignore if name not in present]
        if unknown:
            raise UsageError(f"there is no column {unknown[0]!r} to ignore.{did_you_mean(unknown[0], sorted(present))}")


def read_parquet(file: Path, wanted: Wanted) -> Any:
    """Return a Parquet file as an arrow table, text as positions in a dictionary."""
    import pyarrow.parquet as pq

    def read(source: Path) -> Any:
        schema = pq.read_schema(source)
        columns = wanted.of(schema.names)
        columns += further_columns(schema, columns, wanted.ignore)
        return validated(pq.ParquetFile(source, read_dictionary=text_columns(schema, columns)).read(columns=columns))

    return checked(file, "Parquet", read)


def text_columns(schema: Any, columns: Sequence[str]) -> list[str]:
    """Return which columns hold text, in whatever form arrow has for it."""
    from pyarrow import types

    kinds = {name: usual_kind(schema.field(name).type) for name in columns}
    return [name for name, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]


def read_csv(file: Path, wanted: Wanted) -> Any:
    """Return a CSV or TSV file with a header line as an arrow table; empty fields are missing."""
    from pyarrow import csv, string, types

    def parse(source: Path, block_bytes: int, text: Sequence[str], only: Sequence[str] | None = None) -> Any:
        separator, decimal_mark = csv_dialect(source)
        return csv.read_csv(
            source,
            read_options=csv.ReadOptions(block_size=block_bytes),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=decimal_mark,
                column_types=dict.fromkeys(text, string()),
                include_columns=only,
            ),
        )

    def read(source: Path, block_bytes: int) -> Any:
        table = parse(source, block_bytes, wanted.text)
        table = table.select(wanted.of(table.column_names))
        table = with_exact_ids(table, wanted.ids, lambda name: parse(source, block_bytes, [name], [name])[name])
        no_text = [field.name for field in table.schema if types.is_binary(field.type)]
        if no_text:
            raise ValueError(f"{str(file)!r} is not in UTF-8, see column {no_text[0]!r}; save it in UTF-8.")
        return with_usual_kinds(table)

    return checked(file, "CSV", _with_growing_blocks(read))


def read_json_lines(file: Path, wanted: Wanted) -> Any:
    """Return a file with one JSON object per line as an arrow table; nested objects become columns ``outer.inner``."""
    from pyarrow import json, types

    def read(source: Path, block_bytes: int) -> Any:
        check_objects(source)
        table = json.read_json(source, read_options=json.ReadOptions(block_size=block_bytes))
        table.validate(full=True)  # arrow takes text from JSON as it is, in whatever encoding
        while any(types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        table = with_exact_json_ids(table.select(wanted.of(table.column_names)), wanted.ids, source)
        for place, field in enumerate(table.schema):
            if types.is_string(field.type) and field.name not in wanted.text:
                table = table.set_column(place, field.name, as_times(table[field.name]))
        return with_usual_kinds(table)

    return checked(file, "JSON lines", _with_growing_blocks(read))


def check_objects(file: Path) -> None:
    """Raise if a line of a file is not a JSON object: arrow's reader dies of a ``null`` that stands first."""
    import pyarrow

    n_lines, tail = 0, b"\n"
    with pyarrow.input_stream(str(file), compression="detect") as stream:
        while block := stream.read(_BLOCK_BYTES):
            text = tail + block
            if found := _NO_OBJECT.search(text):
                number = n_lines + text.count(b"\n", 0, found.start(1))
                start = text[found.start(1) : found.start(1) + 20].splitlines()[0].decode("utf8", "backslashreplace")
                hint = "; save it without a byte-order mark" if start.startswith("\ufeff") else ""
                raise ValueError(
                    f"line {number} of {str(file)!r} is not a JSON object, it begins with {start!r}: write one object, "
                    f"{{…}}, per line{hint}."
                )
            tail = b"\n" if text.rstrip(_BLANK).endswith(b"\n") else b""
            n_lines += text.count(b"\n") - len(tail)


def as_times(column: Any) -> Any:
    """Return a column of text as times if that is what it holds, in UTC where they have zones.

    Arrow's reader knows neither fractions of seconds nor zones other than Z.
    """
    first = next((value for value in column if value.is_valid), None)
    if first is None or not _MOMENT.match(first.as_py()):
        return column
    moments = cast_to_times(column)
    return column if moments is None else moments


def read_arrow(file: Path, wanted: Wanted) -> Any:
    """Return an Arrow (Feather) file or stream as an arrow table."""
    import pyarrow
    from pyarrow import ipc

    def read(source: Path) -> Any:
        content = pyarrow.py_buffer(source.read_bytes())  # not mapped: another program may change the file meanwhile
        try:
            table = ipc.open_file(content).read_all()
        except pyarrow.ArrowInvalid:
            table = ipc.open_stream(content).read_all()
        columns = wanted.of(table.column_names)
        return validated(table.select([*columns, *further_columns(table.schema, columns, wanted.ignore)]))

    return checked(file, "Arrow", read)


def _with_growing_blocks(read: Callable[[Path, int], Any]) -> Callable[[Path], Any]:
    """Read with types from the first block, and where a later value does not fit them, with types from all of it."""
    import pyarrow

    def attempt(source: Path) -> Any:
        try:
            return read(source, _BLOCK_BYTES)
        except pyarrow.ArrowInvalid:
            size = source.stat().st_size * (20 if source.suffix in PACKED else 1)
            if size <= _BLOCK_BYTES:
                raise
            return read(source, min(size, _MAX_BLOCK_BYTES))

    return attempt


def validated(table: Any) -> Any:
    """Return a table or batch of a file that anybody may have written, after checking that no position leaves it.

    Its columns are of usual kinds then: see `with_usual_kinds`.
    Arrow takes offsets, lengths and positions in dictionaries from the file as they are, and follows them anywhere.
    """
    table.validate(full=True)
    return with_usual_kinds(table)


def checked(file: str | Path, kind: str, read: Callable[[Path], Any]) -> Any:
    """Read a file; what its library says of a bad one becomes one sentence."""
    source = Path(file)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {str(file)!r}; check the path.")
    if source.stat().st_size == 0:
        raise ValueError(f"{str(file)!r} is empty: it has no bytes.")
    with reading(file, kind):
        return read(source)


def open_parquet(path: str | Path) -> Any:
    """Return an open Parquet file, to be read in batches."""
    import pyarrow.parquet as pq

    return checked(path, "Parquet", pq.ParquetFile)


@contextmanager
def reading(file: str | Path, kind: str) -> Iterator[None]:
    """Turn what a library says of a file that it cannot read into one sentence; those of bopl stay as they are."""
    import pyarrow

    try:
        yield
    except (
        pyarrow.ArrowException,
        UnicodeError,
        OverflowError,
        SystemError,
        RecursionError,
        MemoryError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the file system's, not the content's
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        said, uneven = _UNEVEN.subn(r"the first line has \1 fields, and a row has \2: \3", lines[0])
        hint = " Repair that row, or remove what stands above the header." if uneven else ""
        raise ValueError(f"{str(file)!r} cannot be read as {kind}: {said.rstrip('.')[:300]}.{hint}") from error


def csv_dialect(file: Path) -> tuple[str, str]:
    """Return what separates the fields of a CSV file, and its decimal mark, by how it begins."""
    import pyarrow

    with pyarrow.input_stream(str(file), compression="detect") as stream:
        start = stream.read(_HEAD_BYTES)
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise ValueError(f"{str(file)!r} is in UTF-16; save it in UTF-8.")
    if (other := next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)) is not None:
        raise ValueError(f"{str(file)!r} is not CSV but {other}, by its first bytes; name its format, or rename it.")
    head = start.decode("utf8", "replace")
    if len(start) == _HEAD_BYTES:
        head = head.rpartition("\n")[0]  # the last line is cut
    separator = "\t" if suffix_of(file) == ".tsv" else _separator(_QUOTED.sub("", head).splitlines())
    return separator, "." if separator == "," else _decimal_mark(head, separator)


def _separator(lines: Sequence[str]) -> str:
    """Return the separator that is as frequent in the header as in every row after it, else the header's commonest."""
    header, rows = "".join(lines[:1]), lines[1:_SAMPLE_ROWS]
    steady = [
        mark
        for mark in _SEPARATORS
        if header.count(mark) and all(row.count(mark) == header.count(mark) for row in rows)
    ]
    return max(steady or _SEPARATORS, key=header.count)


def _decimal_mark(head: str, separator: str) -> str:
    """Return a comma if some column is made of numbers with commas, and none of numbers with points."""
    try:
        rows = list(reader(head.splitlines(), delimiter=separator))
    except CSVError:  # a field that is larger than Python takes; arrow may read it
        return "."
    columns = list(zip(*(row for row in rows[1:] if len(row) == len(rows[0])), strict=True))
    comma, point = (any(_is_fractional(column, mark) for column in columns) for mark in ",.")
    return "," if comma and not point else "."


def _is_fractional(column: Sequence[str], mark: str) -> bool:
    number = re.compile(rf"[+-]?\d*({re.escape(mark)}\d+)?(e[+-]?\d+)?", re.I)
    return any(mark in value for value in column) and all(number.fullmatch(value.strip()) for value in column)
