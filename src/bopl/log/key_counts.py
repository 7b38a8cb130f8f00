"""`KeyCounts`: hashes of rows, and how many rows have each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]


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
