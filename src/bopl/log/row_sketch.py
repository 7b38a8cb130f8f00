"""Hashes of rows: how many rows have each, and a few of them, by which to know the rows again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bopl._typing import AnyArray, FloatArray
from bopl.log.identical import Keys, decision_keys, digest_of

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

SIZE = 2048  # hashes that are kept: 16 KiB
MAX_ROWS = 1 << 17  # rows of another log that are looked at, spread over it
SHARED_ROWS = 0.01  # a larger share of rows in common, beyond those that are alike by chance, is no coincidence


@dataclass(frozen=True, eq=False)
class RowSketch:
    """The smallest hashes of context and action among the rows of a log: a random sample of the rows.

    Of another log, the rows whose hash is as small are a random sample, too, and the share of them that is found here
    is the share of that log's rows that were seen before (Broder, 1997). Rewards do not enter: a log with translated
    rewards has the same rows. A hash cannot be turned back into a row, but whoever holds a row can ask whether it was
    there.
    """

    lowest: Keys  # sorted, each once
    is_whole: bool  # whether these are the hashes of all rows
    alike: float  # share of the rows that have context and action in common with another row: how often that is chance
    n_samples: int  # rows of the log
    digest: str  # hash of all its rows with their rewards, in order: equal for the very same log

    @classmethod
    def of(cls, log: BanditLog, *others: BanditLog) -> RowSketch:
        """Return the sketch of a log, and of others that had a part as well; the digest is that of the first."""
        own = decision_keys(log)
        keys = np.concatenate([own, *(decision_keys(other, log.actions) for other in others)])
        return cls.from_counts([KeyCounts.of(keys)], log.n_samples, _digest(own, log.reward))

    @classmethod
    def from_counts(cls, counts: Iterable[KeyCounts], n_samples: int, digest: str) -> RowSketch:
        """Return the sketch of rows whose hashes were counted, in several parts if need be, the lowest first."""
        lowest = np.zeros(0, np.uint64)
        n_distinct = n_rows = n_alike = 0
        for some in counts:
            lowest = np.concatenate([lowest, some.distinct[:SIZE]])[:SIZE].copy()  # a view would keep all hashes
            n_distinct += len(some.distinct)
            n_rows += some.n_rows
            n_alike += some.n_repeated
        return cls(lowest, n_distinct <= SIZE, float(n_alike) / n_rows, n_samples, digest)

    def count_shared(self, log: BanditLog, actions: AnyArray) -> tuple[int, int]:
        """Return how many rows of a log were looked up, and how many of them are known.

        ``actions`` are those of the log of this sketch, in its order.
        """
        some = log.subset(slice(None, None, -(-log.n_samples // MAX_ROWS)))
        keys = decision_keys(some, actions)
        comparable = keys if self.is_whole else keys[keys <= self.lowest[-1]]
        return len(comparable), int(np.isin(comparable, self.lowest).sum())

    def is_same(self, log: BanditLog) -> bool:
        """Return whether a log has the same rows in the same order."""
        return log.n_samples == self.n_samples and _digest(decision_keys(log), log.reward) == self.digest

    def shared_share(self, n_compared: int, n_shared: int) -> float:
        """Return the share of rows in common; 0 if it can be chance, as rows may be alike without being the same."""
        if n_shared < 2:
            return 0.0
        share = n_shared / n_compared
        noise = 5.0 * float(np.sqrt(self.alike * (1.0 - self.alike) / n_compared))
        return share if share > SHARED_ROWS + 1.2 * self.alike + noise else 0.0


def _digest(keys: Keys, reward: FloatArray) -> str:
    return digest_of([keys, reward]).hexdigest()


@dataclass(frozen=True)
class KeyCounts:
    """Distinct hashes, ascending, and how many rows have each."""

    distinct: Keys
    count: npt.NDArray[np.int64]

    @classmethod
    def of(cls, keys: Keys) -> KeyCounts:
        """Count the hashes of some rows."""
        distinct, count = np.unique(keys, return_counts=True)
        return cls(distinct, count.astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence[KeyCounts]) -> KeyCounts:
        """Count the hashes of several parts together."""
        if not parts:
            return cls.of(np.zeros(0, np.uint64))
        distinct, count = (np.concatenate([getattr(part, name) for part in parts]) for name in ("distinct", "count"))
        order = np.argsort(distinct)
        distinct, count = distinct[order], count[order]
        begin = np.flatnonzero(np.concatenate([np.ones(min(len(distinct), 1), bool), distinct[1:] != distinct[:-1]]))
        return cls(distinct[begin], np.add.reduceat(count, begin) if len(begin) else count)

    def between(self, low: int, high: int) -> KeyCounts:
        """Return the hashes from ``low`` to ``high``, both included."""
        begin = int(np.searchsorted(self.distinct, np.uint64(low)))
        end = int(np.searchsorted(self.distinct, np.uint64(high), side="right"))
        return KeyCounts(self.distinct[begin:end], self.count[begin:end])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.count.sum())

    @property
    def repeated(self) -> Keys:
        """Hashes that several rows have."""
        return self.distinct[self.count > 1]

    @property
    def n_repeated(self) -> int:
        """Number of rows whose hash another row has."""
        return int(self.count[self.count > 1].sum())
