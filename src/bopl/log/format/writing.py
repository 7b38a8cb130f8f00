"""Tables to files, in the format that the extension tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl._files import replaced_file

EXTENSIONS = (".parquet", ".csv", ".arrow", ".feather", ".jsonl")


def check_extension(path: str | Path) -> None:
    """Raise if no format belongs to the extension."""
    if Path(path).suffix.lower() not in EXTENSIONS:
        raise UsageError(f"{str(path)!r} has an extension that tells no format; use {', '.join(EXTENSIONS)}.")


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a file."""
    import pyarrow

    check_extension(path)
    table = pyarrow.table(dict(columns))
    with replaced_file(path) as temporary:
        _write(table, temporary, Path(path).suffix.lower())


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
