"""Boosting over a log in pieces: the same model, to the last byte, as in memory."""

from bopl.boosting.pieces.part import Part, PiecesLog, parts_of
from bopl.boosting.pieces.run import PiecesProblem, run_over_pieces

__all__ = ["Part", "PiecesLog", "PiecesProblem", "parts_of", "run_over_pieces"]
