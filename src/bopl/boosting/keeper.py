"""`Keeper`: what the parts of long work share, and can resume from after a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bopl.reward.boosted_model import BoundPairs

if TYPE_CHECKING:
    from bopl.boosting.loop import AnyCallback
    from bopl.log import BanditLog, PartitionedLog

T = TypeVar("T")


class Keeper:
    """Keeps binned pairs in memory, and no files; `bopl.workflow.checkpoints` adds files of finished work.

    Attributes
    ----------
    pairs : BoundPairs
    """

    def __init__(self) -> None:
        self.pairs = BoundPairs()

    def recall(self, name: str, read: Callable[[Path], T]) -> T | None:
        """Return what was stored under a name; None if there is nothing, or nothing readable.

        Parameters
        ----------
        name : str
        read : callable
            Returns the contents of a file, or raises ValueError.
        """
        return None

    def keep(self, name: str, write: Callable[[Path], None], *, seconds: float) -> bool:
        """Store finished work under a name, if it took longer than writing it does; return whether it was stored.

        Parameters
        ----------
        name : str
        write : callable
            Writes a file atomically.
        seconds : float
            How long the work took.
        """
        return False

    def fit(
        self, fit: Callable[..., Any], log: BanditLog | PartitionedLog, callbacks: Sequence[AnyCallback] = ()
    ) -> None:
        """Call a policy's ``fit`` with a log and callbacks, from where an earlier run stopped."""
        fit(log, callbacks=callbacks)
