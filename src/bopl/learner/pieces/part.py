"""What a fit needs of a log in pieces: how a piece is loaded, and which samples it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.cluster import Cluster, Placement
from bopl.log import BanditLog
from bopl.log.schema import LogSchema


class Loader(Protocol):
    """Loads a piece, on any machine."""

    def load(self, piece: Any) -> BanditLog:
        """Return the samples of a piece."""
        ...

    def place_of(self, piece: Any, row: int) -> str:
        """Return where a sample of a piece stands, for a message."""
        ...


class PiecesLog(Protocol):
    """A log in pieces, such as `bopl.PartitionedLog`."""

    @property
    def pieces(self) -> Sequence[Any]:
        """The pieces, in order; each has ``n_rows``."""
        ...

    @property
    def spec(self) -> Loader:
        """How a piece becomes a log."""
        ...

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        ...

    @property
    def n_features(self) -> int:
        """Number of context columns."""
        ...

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        ...

    @property
    def actions(self) -> AnyArray:
        """All actions."""
        ...

    @property
    def action_features(self) -> FloatArray | None:
        """Features of the actions."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the context columns."""
        ...

    @property
    def schema(self) -> LogSchema | None:
        """How columns became contexts."""
        ...


@dataclass(frozen=True)
class Part:
    """A piece with what belongs to its samples besides the log."""

    piece: Any  # Piece
    first: int  # number of its first sample
    n_rows: int
    sample_weight: FloatArray | None = None  # (n_rows,)
    fold: IntArray | None = None  # (n_rows,), of cross-fitting

    @property
    def rows(self) -> slice:
        """Numbers of its samples."""
        return slice(self.first, self.first + self.n_rows)

    def take(self, row: AnyArray) -> Part:
        """Return the piece with its samples in another order; ``row`` is the one at each place."""
        weight, fold = self.sample_weight, self.fold
        return replace(
            self,
            sample_weight=None if weight is None else weight[row],
            fold=None if fold is None else fold[row],
        )


def place_parts(cluster: Cluster, parts: Sequence[Part], build: Any, settled: Iterable[Any] = ()) -> Placement:
    """Return pieces on a cluster, shared out by their rows."""
    return cluster.place(parts, build, settled, rows=[part.n_rows for part in parts])


def parts_of(log: PiecesLog, *, sample_weight: FloatArray | None = None, fold: IntArray | None = None) -> list[Part]:
    """Return the pieces of a log with their share of what is given for all samples."""
    parts, first = [], 0
    for piece in log.pieces:
        rows = slice(first, first + piece.n_rows)
        parts.append(
            Part(
                piece,
                first,
                piece.n_rows,
                None if sample_weight is None else sample_weight[rows].copy(),
                None if fold is None else fold[rows].copy(),
            )
        )
        first += piece.n_rows
    return parts


def place_of(log: PiecesLog, sample: int) -> str:
    """Return where a sample of a log stands, for a message."""
    part = next(part for part in parts_of(log) if part.first <= sample < part.first + part.n_rows)
    return log.spec.place_of(part.piece, sample - part.first)
