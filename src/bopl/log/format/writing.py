"""Tables to files, in the format that the extension tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl._files import replaced_file

EXTENSIONS = (".parquet", ".csv", ".arrow", ".feather", ".jsonl")


def check_extension(path: str | Path) -> None:
    """Raise if no format belongs to the extension."""
    if Path(path).suffix.lower() not in EXTENSIONS:
        raise UsageError(f"{str(path)!r} has an unknown extension; use {', '.join(EXTENSIONS)}.")


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a file."""
    import pyarrow

    check_extension(path)
    table = pyarrow.table(dict(columns))
    with replaced_file(path) as temporary:
        _write(table, temporary, Path(path).suffix.lower())


@contextmanager
def writing_parts(path: str | Path) -> Iterator[Callable[[Any], None]]:
    """Yield a function that takes the tables of one file, in order; the file is there, whole, only at the end.

    A Parquet file is written as tables come; other formats wait for the last of them.
    """
    import pyarrow
    from pyarrow import parquet

    check_extension(path)
    extension = Path(path).suffix.lower()
    with replaced_file(path) as temporary:
        if extension != ".parquet":
            tables: list[Any] = []
            yield tables.append
            _write(pyarrow.concat_tables(tables, promote_options="permissive"), temporary, extension)
            return
        with ExitStack() as stack:
            writers: list[Any] = []

            def write(table: Any) -> None:
                if not writers:
                    writers.append(stack.enter_context(parquet.ParquetWriter(temporary, table.schema)))
                writers[0].write_table(table.cast(writers[0].schema))

            yield write


def _write(table: Any, path: Path, extension: str) -> None:
    from pyarrow import csv, feather, parquet

    if extension == ".parquet":
        parquet.write_table(table, path)
    elif extension == ".csv":
        csv.write_csv(table, path)
    elif extension == ".jsonl":
        with path.open("w", encoding="utf8") as file:
            for batch in table.to_batches(max_chunksize=65_536):
                file.writelines(json.dumps(row, default=str, ensure_ascii=False) + "\n" for row in batch.to_pylist())
    else:
        feather.write_feather(table, str(path), compression="uncompressed")
