"""`Piece`: the rows of a log that stand in one row group of a Parquet file, and what all pieces have in common."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bopl._errors import UsageError
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.check import check_rows
from bopl.log.schema import LogSchema

# A row number in a message; what stands in quotes is somebody's data, and stays as it is.
_ROW = re.compile(r"""'[^']*'|"[^"]*"|\brow (\d+)""")


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of a log in pieces: those of one row group, or some of them.

    Attributes
    ----------
    file : str
        Path of the Parquet file.
    row_group : int
        Number of the row group in the file, from 0.
    file_row : int
        Number, in the file, of the row group's first row.
    offset : int
        Number, in the log, of the piece's first sample.
    n_rows : int
        Samples of the piece; never 0.
    n_available : int
        Samples that the row group has, of which ``selection`` takes ``n_rows``.
    stamp : str
        Fingerprint of the file when it was scanned.
    partition : tuple of (name, value)
        Columns that the file's folders stand for, such as ``("day", "2024-05-01")``.
    selection : bytes or None
        One bit for each available sample, as `numpy.packbits` writes them; None takes all.
    """

    file: str
    row_group: int
    file_row: int
    offset: int
    n_rows: int
    n_available: int
    stamp: str
    partition: tuple[tuple[str, str], ...] = ()
    selection: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """A hash that changes with the file, the row group and the selection; not with the place in the log."""
        said = f"{self.stamp}:{self.row_group}:{self.n_available}:{self.partition!r}".encode()
        return hashlib.sha256(said + (self.selection or b"all")).hexdigest()[:32]

    @property
    def rows(self) -> slice:
        """Numbers of its samples in the log."""
        return slice(self.offset, self.offset + self.n_rows)

    def selected(self) -> IntArray | None:
        """Return which of the available samples it takes, in order; None for all."""
        if self.selection is None:
            return None
        bits = np.unpackbits(np.frombuffer(self.selection, dtype=np.uint8), count=self.n_available)
        return np.flatnonzero(bits)

    def taking(self, is_taken: BoolArray, offset: int) -> Piece | None:
        """Return the piece with some of its samples, at another place of a log; None if there are none.

        Parameters
        ----------
        is_taken : ndarray of bool, shape (n_rows,)
            Which of its rows to keep.
        offset : int
            Number of its first row in the log that is left.
        """
        n_rows = int(np.count_nonzero(is_taken))
        if n_rows == 0:
            return None
        if n_rows == self.n_rows:
            return replace(self, offset=offset)
        bits = np.zeros(self.n_available, dtype=np.bool_)
        before = self.selected()
        bits[np.flatnonzero(is_taken) if before is None else before[is_taken]] = True
        return replace(self, offset=offset, n_rows=n_rows, selection=np.packbits(bits).tobytes())


def rows_taken(rows: object, n_samples: int) -> BoolArray:
    """Return which samples a slice, a mask or a sequence of row numbers selects, each at most once."""
    if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.shape == (n_samples,):
        return rows
    is_taken = np.zeros(n_samples, dtype=np.bool_)
    index = check_rows(rows, n_samples)
    is_taken[index] = True
    if np.count_nonzero(is_taken) != len(index):
        raise ValueError("a row is selected more than once: a log in pieces takes each row at most once.")
    return is_taken


def taking(pieces: Sequence[Piece], is_taken: BoolArray) -> tuple[Piece, ...]:
    """Return the pieces of a log with some of its samples, renumbered."""
    taken: list[Piece] = []
    offset = 0
    for piece in pieces:
        part = piece.taking(is_taken[piece.rows], offset)
        if part is not None:
            taken.append(part)
            offset += part.n_rows
    if not taken:
        raise ValueError("the subset is empty: no row was selected.")
    return tuple(taken)


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What all pieces of a log have in common; the fields are those of `BanditLog`."""

    actions: AnyArray
    feature_names: tuple[str, ...] | None
    n_features: int
    schema: LogSchema | None
    action_features: FloatArray | None
    has_action_mask: bool
    propensity_source: str


@contextmanager
def naming_rows(piece: Piece, rows: IntArray | None) -> Iterator[None]:
    """Turn what a check says of the rows of a piece into a sentence about the rows of its file.

    ``rows`` says where the checked rows stand in the row group; None if all of it is checked.
    """
    try:
        yield
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        raise type(error)(_said(piece, rows, str(error))) from error


def _said(piece: Piece, rows: IntArray | None, message: str) -> str:
    def in_file(found: re.Match[str]) -> str:
        if found.group(1) is None:
            return found.group(0)
        row = int(found.group(1))
        return f"row {piece.file_row + (row if rows is None else int(rows[row]))}"

    return f"{piece.file!r}, row group {piece.row_group} from row {piece.file_row} on: {_ROW.sub(in_file, message)}"
