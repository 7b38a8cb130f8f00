"""Files to arrow tables, with one clear sentence where a file cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bopl.log.context import quoted


def read_parquet(path: str | Path, *, columns: Sequence[str] | None = None) -> Any:
    """Return a Parquet file as an arrow table."""
    import pyarrow.parquet as pq

    def read(file: Path) -> Any:
        if columns is not None:
            present = pq.read_schema(file).names
            absent = [name for name in columns if name not in present]
            if absent:
                raise ValueError(f"{file} has no column {quoted(absent)}; its columns are {quoted(present)}.")
        return pq.read_table(file, columns=None if columns is None else list(columns))

    return _read(path, "Parquet", read)


def open_parquet(path: str | Path) -> Any:
    """Return an open Parquet file, to be read in batches."""
    import pyarrow.parquet as pq

    return _read(path, "Parquet", pq.ParquetFile)


def read_csv(path: str | Path) -> Any:
    """Return a CSV file with a header line as an arrow table."""
    import pyarrow.csv

    return _read(path, "CSV", pyarrow.csv.read_csv)


def _read(path: str | Path, kind: str, read: Callable[[Path], Any]) -> Any:
    import pyarrow

    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}; check the path.")
    try:
        return read(file)
    except pyarrow.ArrowInvalid as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{str(path)!r} cannot be read as {kind}: {reason}.") from None
