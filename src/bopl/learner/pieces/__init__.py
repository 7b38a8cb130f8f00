"""Trees over a log in pieces: what is known of the whole log, and the work on each piece."""

from bopl.learner.pieces.part import Loader, Part, PiecesLog, parts_of, place_parts

__all__ = ["Loader", "Part", "PiecesLog", "parts_of", "place_parts"]
