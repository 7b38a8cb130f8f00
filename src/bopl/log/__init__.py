"""Logs of decisions: the checked record that everything else trusts.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_names

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog as BanditLog
    from bopl.log.concatenation import concat as concat
    from bopl.log.finding import Audit as Audit
    from bopl.log.finding import AuditError as AuditError
    from bopl.log.finding import Finding as Finding
    from bopl.log.leak import Leak as Leak
    from bopl.log.log_split import LogSplit as LogSplit
    from bopl.log.log_split import SplitFacts as SplitFacts
    from bopl.log.outcome import outcomes as outcomes
    from bopl.log.pieces import PartitionedLog as PartitionedLog
    from bopl.log.pieces import Piece as Piece
    from bopl.log.pieces import PiecesSplit as PiecesSplit

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Audit": "finding",
        "AuditError": "finding",
        "BanditLog": "bandit_log",
        "Finding": "finding",
        "Leak": "leak",
        "LogSplit": "log_split",
        "PartitionedLog": "pieces",
        "Piece": "pieces",
        "PiecesSplit": "pieces",
        "SplitFacts": "log_split",
        "concat": "concatenation",
        "outcomes": "outcome",
    },
)
