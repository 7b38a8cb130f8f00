"""Boosting over a log in pieces: the same model, to the last byte, as in memory."""

from bopl.boosting.pieces.run import PiecesProblem, WaitingShare, run_over_pieces

__all__ = ["PiecesProblem", "WaitingShare", "run_over_pieces"]
