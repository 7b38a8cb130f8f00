"""Logs in pieces: row groups of Parquet files that are read, checked and encoded one at a time."""

from bopl.log.log_split import PiecesSplit
from bopl.log.pieces.partitioned import PartitionedLog
from bopl.log.pieces.piece import Piece

__all__ = ["PartitionedLog", "Piece", "PiecesSplit"]
