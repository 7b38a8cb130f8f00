"""`Traffic`: statistics of a cluster, for progress lines and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bopl.cluster.order import Answer


@dataclass
class Traffic:
    """Counts since the pieces were placed.

    Attributes
    ----------
    n_passes : int
        Number of verbs over all pieces.
    n_tasks : int
        Number of tasks given to workers.
    n_bytes : int
        Bytes of partial results that workers passed on.
    n_sent : int
        Bytes of requests to workers, if they are other processes.
    n_built : int
        Number of states made from their files, including rebuilt ones.
    seconds : float
        Time spent in the verbs.
    waiting : float
        Seconds of these in which an average worker waited for the slowest one.
    """

    n_passes: int = 0
    n_tasks: int = 0
    n_bytes: int = 0
    n_sent: int = 0
    n_built: int = 0
    seconds: float = 0.0
    waiting: float = 0.0

    def note(self, answer: Answer, seconds: float) -> None:
        """Add the result of a verb."""
        self.n_passes += 1
        self.n_tasks += answer.n_tasks
        self.n_bytes += answer.n_bytes
        self.n_sent += answer.n_sent
        self.n_built += answer.n_built
        self.seconds += seconds
        if answer.busy:
            self.waiting += max(answer.busy) - sum(answer.busy) / len(answer.busy)

    @property
    def waiting_share(self) -> float:
        """Share of the time in which an average worker waited for the slowest one, between 0 and 1."""
        return min(self.waiting / self.seconds, 1.0) if self.seconds else 0.0

    def copy(self) -> Traffic:
        """Return the current counts, to subtract later."""
        return replace(self)

    def __sub__(self, before: Traffic) -> Traffic:
        """Return the counts since then."""
        return Traffic(
            self.n_passes - before.n_passes,
            self.n_tasks - before.n_tasks,
            self.n_bytes - before.n_bytes,
            self.n_sent - before.n_sent,
            self.n_built - before.n_built,
            self.seconds - before.seconds,
            self.waiting - before.waiting,
        )
