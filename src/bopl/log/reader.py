"""Parquet files opened to be read in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bopl.log.format.columnar import checked


def open_parquet(path: str | Path) -> Any:
    """Return an open Parquet file, to be read in batches."""
    import pyarrow.parquet as pq

    return checked(path, "Parquet", pq.ParquetFile)
