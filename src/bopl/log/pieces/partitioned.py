"""`PartitionedLog`: a log that stays in its files, and is read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bopl._typing import AnyArray, BoolArray, FloatArray
from bopl.log.bandit_log import BanditLog
from bopl.log.check import check_rows
from bopl.log.origin import LogOrigin
from bopl.log.pieces.join import join_parts
from bopl.log.pieces.piece import Piece
from bopl.log.pieces.spec import PieceSpec
from bopl.log.schema import LogSchema


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


@dataclass(frozen=True, eq=False, repr=False)
class PartitionedLog:
    """A log in pieces: the row groups of Parquet files, read and checked when they are needed.

    `BanditLog.scan_parquet` makes one. Samples are numbered through all pieces, in their order; a piece is loaded as
    the `BanditLog` of its samples, encoded as the whole log would be.

    Attributes
    ----------
    pieces : tuple of Piece
        In order; none of them is empty.
    spec : PieceSpec
        How a piece becomes a log: with a piece, all that another process needs.
    facts : LogFacts
    origin : LogOrigin
        The rows that were read, asked for and left out.

    Examples
    --------
    >>> import bopl
    >>> log = bopl.BanditLog.scan_parquet("days/*.parquet", action="item", reward="click")  # doctest: +SKIP
    >>> policy = bopl.BoostedPolicy().fit(log)  # doctest: +SKIP
    """

    pieces: tuple[Piece, ...]
    spec: PieceSpec
    facts: LogFacts
    origin: LogOrigin

    @property
    def n_samples(self) -> int:
        """Number of logged interactions."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def n_features(self) -> int:
        """Number of context columns."""
        return self.facts.n_features

    @property
    def n_actions(self) -> int:
        """Number of actions that can be chosen, logged or not."""
        return len(self.facts.actions)

    @property
    def actions(self) -> AnyArray:
        """All actions, in order."""
        return self.facts.actions

    @property
    def action_features(self) -> FloatArray | None:
        """What is known of the actions themselves."""
        return self.facts.action_features

    @property
    def schema(self) -> LogSchema | None:
        """How the columns of the files become numbers."""
        return self.facts.schema

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the context columns."""
        return self.facts.feature_names

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the context columns that hold categories."""
        schema = self.schema
        return () if schema is None else tuple(schema.feature_names.index(name) for name in schema.categorical)

    @property
    def propensity_source(self) -> str:
        """Where the propensities come from; see `BanditLog`."""
        return self.facts.propensity_source

    @property
    def has_propensity(self) -> bool:
        """Whether propensities are there, logged or filled in."""
        return self.propensity_source != "unknown"

    @property
    def has_action_mask(self) -> bool:
        """Whether the files say which actions could be chosen."""
        return self.facts.has_action_mask

    @property
    def group_labels(self) -> AnyArray | None:
        """Labels of all groups, in the order of their numbers; None for a log without groups."""
        return self.spec.groups

    @property
    def has_time(self) -> bool:
        """Whether each sample has a time."""
        return self.spec.time is not None

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        return (
            f"PartitionedLog(n_samples={self.n_samples}, n_features={self.n_features}, n_actions={self.n_actions}, "
            f"n_pieces={len(self.pieces)})"
        )

    # -- Reading ----------------------------------------------------------------------------------------------------

    def load(self, piece: Piece) -> BanditLog:
        """Return the samples of a piece as a checked log.

        What it holds depends on the piece and on ``spec`` alone: ``log.spec.load(piece)`` is the same on any machine
        that sees the files. An error names the file and the row.
        """
        return self.spec.load(piece)

    def __iter__(self) -> Iterator[BanditLog]:
        """Load the pieces one after the other."""
        return map(self.load, self.pieces)

    def to_log(self) -> BanditLog:
        """Return the whole log in memory."""
        return join_parts([self.load(piece) for piece in self.pieces]).with_origin(self.origin)

    def fingerprint(self) -> str:
        """Return a hash that changes if a file, the selected rows or what becomes of them change."""
        digest = hashlib.sha256(self.spec.fingerprint.encode())
        for piece in self.pieces:
            digest.update(piece.fingerprint.encode())
        return digest.hexdigest()

    # -- New logs from this one -------------------------------------------------------------------------------------

    def subset(self, rows: object) -> PartitionedLog:
        """Return the log of some samples, in their order, with all actions kept.

        Parameters
        ----------
        rows : slice, boolean mask of shape (n_samples,), or sequence of row numbers
            Each row at most once: pieces keep the order of their files.
        """
        is_taken = np.zeros(self.n_samples, dtype=np.bool_)
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.shape == is_taken.shape:
            is_taken = rows
        else:
            index = check_rows(rows, self.n_samples)
            is_taken[index] = True
            if np.count_nonzero(is_taken) != len(index):
                raise ValueError("a row is selected more than once: a log in pieces takes each row at most once.")
        return replace(self, pieces=_taking(self.pieces, is_taken))


def _taking(pieces: Sequence[Piece], is_taken: BoolArray) -> tuple[Piece, ...]:
    """Return the pieces of a log with some of its samples, numbered anew."""
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
