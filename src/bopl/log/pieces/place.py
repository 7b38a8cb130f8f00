"""Which row of which file an error is about: checks count the rows that they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from bopl._errors import UsageError
from bopl._typing import IntArray
from bopl.log.pieces.piece import Piece

# A row number in a message; what stands in quotes is somebody's data, and stays as it is.
_ROW = re.compile(r"""'[^']*'|"[^"]*"|\brow (\d+)""")


@contextmanager
def naming_rows(piece: Piece, rows: IntArray | None) -> Iterator[None]:
    """Turn what a check says of the rows of a piece into a sentence about the rows of its file.

    Parameters
    ----------
    piece : Piece
    rows : ndarray of int or None
        Where the checked rows stand in the row group; None if all of it is checked.
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
