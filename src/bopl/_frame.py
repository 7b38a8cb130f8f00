"""Columns to whatever frame is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any


def is_installed(backend: str) -> bool:
    """Return whether a library of frames can be imported."""
    return find_spec(backend) is not None


def to_arrow(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pyarrow table."""
    import pyarrow

    return pyarrow.table(dict(columns))


def to_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return columns as a frame.

    Parameters
    ----------
    columns : mapping of str to sequence of length n_rows
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default pandas if it is installed, else polars, else pyarrow.
    """
    if backend is None:
        backend = next((name for name in ("pandas", "polars") if is_installed(name)), "pyarrow")
    if backend == "pandas":
        return to_arrow(columns).to_pandas()
    if backend == "polars":
        import polars

        return polars.from_arrow(to_arrow(columns))
    if backend == "pyarrow":
        return to_arrow(columns)
    raise ValueError(f"backend must be 'pandas', 'polars' or 'pyarrow'; got {backend!r}.")
