"""Labels in text files that only look like numbers: ``01`` is not ``1``, and whole numbers beyond 64 bits are text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MAX_EXACT = 2.0**53  # integers beyond it may share a float with their neighbours
_ZEROS = r"^\s*[+-]?0[\dxX]"  # before other digits, or of a hexadecimal number
_INEXACT = r"^\s*[+-]?(0\d|\d{16})|\.\d*[1-9]0+\s*$"  # such zeros, more digits than a float holds, 1.10 beside 1.1


def with_exact_ids(table: Any, ids: Sequence[str], as_text: Callable[[str], Any]) -> Any:
    """Return a table whose labels are text where numbers would merge some of them or lose digits.

    ``ids`` names columns that hold labels, whether they are there or not; ``as_text`` reads one of them again as it is
    written, as an arrow column of text.
    """
    from pyarrow import compute, types

    for name in dict.fromkeys(ids):
        if name not in table.column_names:
            continue
        kind = table.schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind)):
            continue
        written = as_text(name)
        pattern = _ZEROS if types.is_integer(kind) else _INEXACT
        if compute.any(compute.match_substring_regex(written, pattern)).as_py() or _merges(table[name], written):
            table = table.set_column(table.column_names.index(name), name, written)
    return table


def _merges(values: Any, written: Any) -> bool:
    """Return whether labels that are written in different ways, but for spaces and zeros after a point, are one number.

    ``1e5`` is not ``100000``, and ``+1`` is not ``1``.
    """
    from pyarrow import compute

    texts = compute.unique(written).cast("string")
    texts = compute.replace_substring_regex(compute.utf8_trim_whitespace(texts), r"\.0*$", "")
    return bool(compute.count_distinct(texts).as_py() > compute.count_distinct(values).as_py())


def with_exact_json_ids(table: Any, ids: Sequence[str], file: Path) -> Any:
    """Return a table whose labels are text where a file of JSON lines has whole numbers that are no longer exact."""
    from pyarrow import compute, types

    for name in dict.fromkeys(ids):
        if name not in table.column_names or not types.is_floating(table.schema.field(name).type):
            continue
        largest = compute.max(compute.abs(table[name])).as_py()
        if largest is not None and largest >= MAX_EXACT:
            table = table.set_column(table.column_names.index(name), name, _json_texts(file, name))
    return table


def _json_texts(file: Path, name: str) -> Any:
    """Return the numbers of a column as they are written; a column of a nested object is called ``outer.inner``."""
    import pyarrow

    def value(row: Any, path: str) -> Any:
        if not isinstance(row, dict):
            return None
        if path in row:
            return row[path]
        outer = next((key for key in row if path.startswith(f"{key}.")), None)
        return None if outer is None else value(row[outer], path[len(outer) + 1 :])

    with pyarrow.input_stream(str(file)) as stream, io.TextIOWrapper(stream, encoding="utf8") as lines:
        rows = [json.loads(line, parse_int=str, parse_float=str) for line in lines if line.strip()]
    return pyarrow.chunked_array([pyarrow.array([value(row, name) for row in rows], pyarrow.string())])


def with_ids_of_one_kind(tables: Sequence[Any], ids: Sequence[str]) -> list[Any]:
    """Return tables whose labels are text in all of them where they are text in some and whole numbers in others."""
    from pyarrow import string, types

    tables = list(tables)
    for name in dict.fromkeys(ids):
        kinds = [table.schema.field(name).type for table in tables if name in table.column_names]
        if not any(map(types.is_string, kinds)):
            continue
        for place, table in enumerate(tables):
            if name in table.column_names and types.is_integer(table.schema.field(name).type):
                column = table.column_names.index(name)
                tables[place] = table.set_column(column, name, table[name].cast(string()))
    return tables
