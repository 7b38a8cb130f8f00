"""Logs of decisions: the checked record that everything else trusts."""

from bopl.log.bandit_log import BanditLog
from bopl.log.concat import concat
from bopl.log.finding import Audit, AuditError, Finding
from bopl.log.leak import Leak
from bopl.log.outcomes import outcomes
from bopl.log.pieces import PartitionedLog, Piece, PiecesSplit
from bopl.log.split import LogSplit, SplitFacts

__all__ = [
    "Audit",
    "AuditError",
    "BanditLog",
    "Finding",
    "Leak",
    "LogSplit",
    "PartitionedLog",
    "Piece",
    "PiecesSplit",
    "SplitFacts",
    "concat",
    "outcomes",
]
