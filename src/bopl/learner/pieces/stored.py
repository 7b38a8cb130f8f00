"""Binned contexts of a piece, in the order of a `RowKey`: those that trees put together lie together.

They are kept on disk for the next run where the piece's file can be told by a fingerprint. In the order of the file the
few hundred rows of a node lie scattered, and every byte read of one costs a cache line. The columns that a tree on a
sample of the log gains by are those that later trees divide rows by: rows are stored by the leading bits of their bins
in these columns, the bits of the best columns first. All sums are integers, so no result depends on the order.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._typing import AnyArray
from bopl.cluster import Placement
from bopl.learner.hist_tree import locality
from bopl.learner.hist_tree.binning import ColumnBins, bin_values
from bopl.learner.hist_tree.codes import store_context
from bopl.learner.hist_tree.layout import Layout
from bopl.learner.hist_tree.learner import HistTree
from bopl.learner.hist_tree.rows import RowCodes, take_rows
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.pieces.facts import gather_log, without_rows
from bopl.learner.pieces.part import Loader, Part
from bopl.log import BanditLog
from bopl.objective.protocol import StepTarget

_FORMAT = "codes 2"
_ROW = "row"  # name of the array that has the piece's row at each place
SAMPLE = 30_000  # rows that say which columns matter
N_BITS = 16  # of a key: sorted by radix
N_COLUMNS = 4
BIN_BITS = 8  # of a bin's rank
GAIN_OF_A_BIT = 4.0  # halving a column leaves a quarter of what is gained by it
DEPTH, MIN_WEIGHT = 6, 50.0  # of the tree on the sample


@dataclass(frozen=True)
class RowKey:
    """What rows are sorted by."""

    bits: tuple[tuple[int, int], ...]  # column and bit, 0 being the highest; the most significant first

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

    ``learner`` has the bins and categories; ``largest`` is the number of rows of the largest piece: if it is small, its
    rows are in the cache in any order, and there is no key.
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


@dataclass
class StoredContext:
    """The codes of a piece: arrays in memory, or the name of a file that is mapped when they are read."""

    layout: BinnedContext  # without rows: what the codes mean
    # with ``row``, the piece's row at each place, if rows are not in the order of the file
    arrays: Mapping[str, AnyArray]
    n_samples: int
    _opened: BinnedContext | None = field(default=None, repr=False)

    @property
    def row(self) -> AnyArray | None:
        """The piece's row at each place; None if rows are in the order of the file."""
        return self.arrays.get(_ROW)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, also of arrays that are mapped from a file; the layout is not the piece's own."""
        return sum(array.nbytes for array in self.arrays.values())

    def open(self) -> BinnedContext:
        """Return the contexts as the kernels read them; always read-only, or they would be compiled twice."""
        if self._opened is None:
            arrays = {name: _read_only(self.arrays[name]) for name in RowCodes._fields}
            self._opened = replace(self.layout, arrays=self.layout.arrays._replace(**arrays), n_samples=self.n_samples)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_opened"} | {"_opened": None}


def store_piece(
    part: Part,
    loader: Loader,
    layout: Layout,
    context: Callable[[], Any],  # returns the contexts, if they have to be binned
    cache: Any,  # ArrayCache or None
    *,
    is_sparse: bool,  # whether the contexts are
    what: str,  # what the contexts are of: two kinds must not be taken for each other
    row_key: RowKey | None = None,  # what rows are sorted by; in the order of the file otherwise
) -> StoredContext:
    """Return the codes of a piece, from the cache if they are there."""

    def make() -> dict[str, AnyArray]:
        given = context()
        stored, order = store_context(given, layout), {}
        if row_key is not None:
            row = row_key.order(given, layout.columns)
            stored, order = take_rows(stored, row), {_ROW: row}
        return {name: getattr(stored.arrays, name) for name in RowCodes._fields} | order

    key = _key(part, loader, layout, f"{what} {row_key}")
    arrays = make() if cache is None or key is None else cache.arrays(key, make)
    return StoredContext(without_rows(layout, is_sparse=is_sparse), arrays, part.n_rows)


def _key(part: Part, loader: Loader, layout: Layout, what: str) -> str | None:
    """Return a digest of all that the codes depend on; None if the piece has no fingerprint."""
    said = (getattr(loader, "fingerprint", None), getattr(part.piece, "fingerprint", None))
    if None in said:
        return None
    digest = hashlib.sha256(repr((_FORMAT, what, *said)).encode())
    digest.update(pickle.dumps((layout.is_fixed, layout.bundles, layout.common.tobytes())))
    for column in layout.columns:
        digest.update(repr((column.is_categorical, column.has_missing, column.low, column.high)).encode())
        digest.update(column.edges.tobytes())
    return digest.hexdigest()


def _read_only(array: AnyArray) -> AnyArray:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
