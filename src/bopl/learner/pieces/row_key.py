"""The order of rows within a piece: those that trees put together lie together.

A node of a piece holds a few hundred rows. In the order of the file these lie scattered, and every byte read of one
costs a cache line. The columns that a tree on a sample of the log gains by are those that later trees divide rows by:
rows are stored by the leading bits of their bins in these columns, the bits of the best columns first. All sums are
integers, so no result depends on the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.cluster import Placement
from bopl.learner.hist_tree import locality
from bopl.learner.hist_tree.binning import ColumnBins, bin_values
from bopl.learner.hist_tree.learner import HistTree
from bopl.learner.pieces.facts import gather_log
from bopl.log import BanditLog
from bopl.objective.protocol import StepTarget

SAMPLE = 30_000  # rows that say which columns matter
N_BITS = 16  # of a key: sorted by radix
N_COLUMNS = 4
BIN_BITS = 8  # of a bin's rank
GAIN_OF_A_BIT = 4.0  # halving a column leaves a quarter of what is gained by it
DEPTH, MIN_WEIGHT = 6, 50.0  # of the tree on the sample


@dataclass(frozen=True)
class RowKey:
    """What rows are sorted by.

    Attributes
    ----------
    bits : tuple of (int, int)
        Column and bit, 0 being the highest; the most significant first.
    """

    bits: tuple[tuple[int, int], ...]

    def order(self, context: Any, columns: tuple[ColumnBins, ...]) -> NDArray[np.int32]:
        """Return the rows of dense contexts in ascending order of their keys."""
        ranks = {
            j: (bin_values(context[:, j], columns[j]).astype(np.uint32) << BIN_BITS) // columns[j].n_bins
            for j in {column for column, _ in self.bits}
        }
        key = np.zeros(context.shape[0], np.uint16)
        for column, bit in self.bits:
            key = (key << 1) | ((ranks[column] >> (BIN_BITS - 1 - bit)) & 1).astype(np.uint16)
        return np.argsort(key, kind="stable").astype(np.int32)


def find_row_key(raw: Placement, learner: HistTree, n_samples: int, largest: int) -> RowKey | None:
    """Return what the rows of all pieces, whose contexts are dense, are sorted by.

    Parameters
    ----------
    raw : Placement
        The loaded pieces.
    learner : HistTree
        Its bins and categories.
    n_samples : int
        Of the log.
    largest : int
        Rows of the largest piece: if it is small, its rows are in the cache in any order, and there is no key.
    """
    if largest < locality.MIN_CONTEXTS:
        return None
    every = -(-n_samples // SAMPLE)
    sample = gather_log(raw, np.arange(n_samples) % every == 0)
    return key_by_gain(_gains(sample, learner))


def _gains(log: BanditLog, learner: HistTree) -> NDArray[np.float64]:
    """Return what a tree gains by each column of a log, fitted to the gradient of the value at the uniform policy."""
    tree = HistTree(
        DEPTH, min_child_weight=MIN_WEIGHT, max_bins=learner.max_bins, categorical=learner.categorical, n_jobs=1
    )
    is_logged = log.action_idx[:, None] == np.arange(log.n_actions)
    gradient = (log.reward - log.reward.mean())[:, None] * (is_logged - 1.0 / log.n_actions)
    bound = tree.bind(log, seed=0)
    order = slice(None) if bound.row_order is None else bound.row_order
    fitted: Any = bound.fit(StepTarget(np.asfortranarray(gradient[order]), np.ones(log.n_samples)), 0).predictor
    is_split, gains = fitted.tree.feature >= 0, np.zeros(log.context.shape[1])
    np.add.at(gains, fitted.tree.feature[is_split], fitted.tree.gain[is_split])
    return gains


def key_by_gain(gain: NDArray[np.float64]) -> RowKey | None:
    """Return a key with more bits, and earlier ones, of columns with larger gains; None if there is no gain.

    >>> key_by_gain(np.array([0.0, 9.0, 1.0])).bits[:5]
    ((1, 0), (1, 1), (2, 0), (1, 2), (2, 1))
    """
    left = np.zeros(len(gain))
    best = np.argsort(-gain, kind="stable")[:N_COLUMNS]
    left[best] = gain[best]
    bits: list[tuple[int, int]] = []
    n_bits = np.zeros(len(gain), np.int64)
    while len(bits) < N_BITS and len(left) and left.max() > 0.0:
        column = int(left.argmax())
        bits.append((column, int(n_bits[column])))
        n_bits[column] += 1
        left[column] = left[column] / GAIN_OF_A_BIT if n_bits[column] < BIN_BITS else 0.0
    return RowKey(tuple(bits)) if bits else None
