"""How a CSV file is written: what separates its fields, and its decimal mark."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from csv import Error as CSVError
from csv import reader
from pathlib import Path

from bopl.log.format.files import suffix_of

_HEAD_BYTES = 1 << 20  # of the file, that it is told from
_SAMPLE_ROWS = 50
_SEPARATORS = ",;\t|"
_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "a ZIP archive", b"\x1f\x8b": "packed with gzip"}
_QUOTED = re.compile(r'"[^"]*"')


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
