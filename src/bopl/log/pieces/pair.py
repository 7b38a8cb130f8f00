"""`PiecesSplit`: the two parts of a log in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bopl.log.log_split import SplitPair

if TYPE_CHECKING:
    from bopl.log.drift import Drift
    from bopl.log.pieces.partitioned import PartitionedLog  # noqa: F401 (named in a string)

MAX_COMPARED = 100_000  # samples of each part that drift is looked for in


class PiecesSplit(SplitPair["PartitionedLog"]):
    """The pair ``(train, test)`` of logs in pieces, with their ``facts``; ``print`` says what was held out."""

    def drift(self) -> tuple[Drift, ...]:
        """Return the columns that differ between the parts beyond chance, by 100,000 samples drawn from each."""
        from bopl.log.drift import find_drift

        return find_drift(*(part.sample(MAX_COMPARED, 0) for part in self))
