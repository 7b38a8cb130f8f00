"""Frames that come one after the other, written to Parquet files so that they can be read again."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw

from bopl._errors import UsageError
from bopl._settings import check_number

PIECE_ROWS = 1 << 18


class Spill:
    """A folder of Parquet files, removed with the last log that needs it if it is a temporary one.

    A copy in another process only knows the folder, and removes nothing.

    Parameters
    ----------
    folder : str or Path, optional
        A folder that is kept; a temporary one by default.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bopl-log-") if folder is None else folder)
        self._finalizer: Any = None
        if folder is None:
            self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.glob("*.parquet")):
                raise UsageError(f"the folder {str(folder)!r} already contains Parquet files: name an empty one.")

    def close(self) -> None:
        """Remove the folder if it is a temporary one."""
        if self._finalizer is not None:
            self._finalizer()

    def __reduce__(self) -> tuple[Any, ...]:
        return _known_folder, (self.folder,)


def _known_folder(folder: Path) -> Spill:
    known = object.__new__(Spill)
    known.folder, known._finalizer = folder, None
    return known


def spill(frames: Iterable[Any], folder: str | Path | None, piece_rows: int) -> Spill:
    """Write frames to a folder, in order: a file for each run of frames, with row groups of so many rows at most.

    The folder is kept if it is named; by default it is a temporary one.
    """
    import pyarrow.parquet as pq

    check_number("piece_rows", piece_rows, low=1, integer=True)
    kept = Spill(folder)
    try:
        for number, table in enumerate(_large_tables(frames, piece_rows)):
            pq.write_table(table, kept.folder / f"part-{number:06}.parquet", row_group_size=piece_rows)
    except BaseException:
        kept.close()
        raise
    return kept


def _large_tables(frames: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Join small frames of one schema until they have enough rows; at least one table comes, if there is a frame."""
    import pyarrow

    waiting: list[Any] = []
    has_come = False
    for number, frame in enumerate(frames):
        try:
            table = _as_arrow(frame)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise ValueError(f"batch {number} cannot be stored as Parquet: {' '.join(map(str, error.args))}.") from None
        if len(table) and not any(map(len, waiting)):
            waiting = []  # what is empty may have other types
        if waiting and (table.schema != waiting[0].schema or sum(map(len, waiting)) >= n_rows):
            yield pyarrow.concat_tables(waiting)
            has_come, waiting = True, []
        if len(table) or not has_come:
            waiting.append(table)
    if waiting:
        yield pyarrow.concat_tables(waiting)
    elif not has_come:
        raise ValueError("there is no batch to make a log of: the iterable is empty.")


def _as_arrow(frame: Any) -> Any:
    import pyarrow

    if isinstance(frame, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([frame])
    if isinstance(frame, pyarrow.Table):
        return frame
    if hasattr(frame, "set_axis"):  # pandas: its index is not a column
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        raise TypeError(f"batches must be Arrow batches, tables or frames; got {type(frame).__name__}.") from None
