"""Logs of decisions: the checked record that everything else trusts.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog as BanditLog
    from bopl.log.concatenation import concat as concat
    from bopl.log.finding import Audit as Audit
    from bopl.log.finding import AuditError as AuditError
    from bopl.log.finding import Finding as Finding
    from bopl.log.leak import Leak as Leak
    from bopl.log.log_split import LogSplit as LogSplit
    from bopl.log.log_split import PiecesSplit as PiecesSplit
    from bopl.log.log_split import SplitFacts as SplitFacts
    from bopl.log.outcome import outcomes as outcomes
    from bopl.log.pieces import PartitionedLog as PartitionedLog
    from bopl.log.pieces import Piece as Piece

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "bandit_log": "BanditLog",
        "concatenation": "concat",
        "finding": "Audit AuditError Finding",
        "leak": "Leak",
        "log_split": "LogSplit PiecesSplit SplitFacts",
        "outcome": "outcomes",
        "pieces": "PartitionedLog Piece",
    },
)
