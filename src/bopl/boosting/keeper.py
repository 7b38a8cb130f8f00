"""`Keeper`: keeps what long work has come to, so that the same work goes on from there after a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from bopl.boosting.loop import AnyCallback
    from bopl.boosting.workbench import Workbench
    from bopl.log import BanditLog

T = TypeVar("T")


class Keeper(Protocol):
    """Files of finished work, by name; they are found again only where log, settings and versions are the same."""

    def recall(self, name: str, read: Callable[[Path], T]) -> T | None:
        """Return what was kept under a name, None if nothing was, or nothing that can be read.

        Parameters
        ----------
        name : str
        read : callable
            Returns what a file holds, or raises ValueError.
        """

    def keep(self, name: str, write: Callable[[Path], None], *, seconds: float) -> bool:
        """Keep finished work under a name, if that took longer than writing it does; return whether it is kept.

        Parameters
        ----------
        name : str
        write : callable
            Writes a file, in one step.
        seconds : float
            How long the work took.
        """

    def fit(
        self,
        policy: Any,
        log: BanditLog,
        *,
        validation: BanditLog | None = None,
        callbacks: Sequence[AnyCallback] = (),
        workbench: Workbench | None = None,
    ) -> None:
        """Fit a policy round by round, from where an earlier run has left it."""
