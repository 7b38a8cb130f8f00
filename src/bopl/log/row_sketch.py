"""`RowSketch`: a few hashes of the rows that something was fitted on, by which to know them again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bopl._typing import AnyArray, FloatArray
from bopl.log.identical import decision_keys

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

Keys = npt.NDArray[np.uint64]

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

    Attributes
    ----------
    lowest : ndarray of uint64
        Sorted, each once.
    is_whole : bool
        Whether these are the hashes of all rows.
    alike : float
        Share of the rows that have context and action in common with another row: how often that is chance.
    n_samples : int
        Rows of the log.
    digest : str
        Hash of all its rows with their rewards, in order: equal for the very same log.
    """

    lowest: Keys
    is_whole: bool
    alike: float
    n_samples: int
    digest: str

    @classmethod
    def of(cls, log: BanditLog, *others: BanditLog) -> RowSketch:
        """Return the sketch of a log, and of others that had a part as well; the digest is that of the first."""
        return cls.from_keys(
            decision_keys(log), log.reward, log.n_samples, *(decision_keys(other, log.actions) for other in others)
        )

    @classmethod
    def from_keys(cls, own: Keys, reward: FloatArray, n_samples: int, *others: Keys) -> RowSketch:
        """Return the sketch of a log whose decisions have these hashes, and of others that had a part as well."""
        keys = np.concatenate([own, *others])
        distinct, count = np.unique(keys, return_counts=True)
        alike = float(count[count > 1].sum()) / len(keys)
        lowest = distinct[:SIZE].copy()  # a view would keep all hashes in memory
        return cls(lowest, len(distinct) <= SIZE, alike, n_samples, _digest(own, reward))

    def count_shared(self, log: BanditLog, actions: AnyArray) -> tuple[int, int]:
        """Return how many rows of a log were looked up, and how many of them are known.

        Parameters
        ----------
        log : BanditLog
        actions : ndarray of shape (n_actions,)
            Actions of the log of this sketch, in its order.
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
    return hashlib.sha256(keys.tobytes() + reward.tobytes()).hexdigest()
