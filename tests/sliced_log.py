"""A log in memory that is handed out in slices, as a log in pieces is: what the engine asks of one, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bopl.log import BanditLog


@dataclass(frozen=True)
class Slice:
    """Consecutive samples."""

    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Slicer:
    """Loads slices."""

    log: BanditLog

    def load(self, piece: Slice) -> BanditLog:
        return self.log.subset(slice(piece.start, piece.stop))

    def place_of(self, piece: Slice, row: int) -> str:
        return f"row {piece.start + row}"


class SlicedLog:
    """A log cut at some rows; cuts may coincide, which makes empty pieces."""

    def __init__(self, log: BanditLog, cuts: Any) -> None:
        self.log, self.spec = log, Slicer(log)
        self.pieces = [Slice(int(a), int(b)) for a, b in pairwise([0, *sorted(cuts), log.n_samples])]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def subset(self, rows: Any) -> SlicedLog:
        """Return some samples, each in its piece."""
        kept = np.zeros(self.log.n_samples, bool)
        kept[rows] = True
        before = np.concatenate([[0], np.cumsum(kept)])
        return SlicedLog(self.log.subset(rows), [int(before[piece.stop]) for piece in self.pieces[:-1]])

    @property
    def has_action_mask(self) -> bool:
        return self.log.action_mask is not None


def cuts_of(n_samples: int, n_pieces: int) -> list[int]:
    """Return where a log is cut into equal pieces."""
    return [n_samples * k // n_pieces for k in range(1, n_pieces)]
