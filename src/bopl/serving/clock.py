"""`Clock`: the time of events, which never goes backwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """Microseconds since 1970 by the wall clock; where that falls back, the time goes on at its own pace instead.

    Parameters
    ----------
    not_before : int
        The last time that was written: after a restart with a clock that is behind, time goes on from there.
    wall, elapsed : callable returning nanoseconds
        The clocks of the machine.
    """

    def __init__(
        self,
        not_before: int = 0,
        wall: Callable[[], int] = time.time_ns,
        elapsed: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._lock = threading.Lock()
        self._anchor, self._since = not_before, elapsed()

    def now(self) -> int:
        """Return the time, later than or equal to all that were returned before."""
        with self._lock:
            wall, elapsed = self._wall() // 1000, self._elapsed()
            kept = self._anchor + max(elapsed - self._since, 0) // 1000
            if wall >= kept:
                self._anchor, self._since = wall, elapsed
            return max(wall, kept)

    def not_before(self, moment: int) -> None:
        """Let the time go on from a moment if it is earlier than that."""
        if self.now() < moment:
            with self._lock:
                self._anchor, self._since = moment, self._elapsed()

    @property
    def ahead_s(self) -> float:
        """Seconds by which the time of events is ahead of the wall clock."""
        return max(self.now() - self._wall() // 1000, 0) / 1e6
