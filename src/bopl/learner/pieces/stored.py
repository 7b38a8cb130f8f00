"""Binned contexts of a piece, kept on disk for the next run where the piece's file can be told by a fingerprint."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bopl._typing import AnyArray
from bopl.learner.hist_tree.codes import store_context
from bopl.learner.hist_tree.layout import Layout
from bopl.learner.hist_tree.rows import RowCodes, take_rows
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.pieces.facts import without_rows
from bopl.learner.pieces.part import Loader, Part
from bopl.learner.pieces.row_key import RowKey

_FORMAT = "codes 2"
_ROW = "row"  # name of the array that has the piece's row at each place


@dataclass
class StoredContext:
    """The codes of a piece: arrays in memory, or the name of a file that is mapped when they are read.

    Attributes
    ----------
    layout : BinnedContext
        Without rows: what the codes mean.
    arrays : mapping of str to ndarray
        With ``row``, the piece's row at each place, if rows are not in the order of the file.
    n_samples : int
    """

    layout: BinnedContext
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
    context: Callable[[], Any],
    cache: Any,
    *,
    is_sparse: bool,
    what: str,
    row_key: RowKey | None = None,
) -> StoredContext:
    """Return the codes of a piece, from the cache if they are there.

    Parameters
    ----------
    part : Part
    loader : Loader
    layout : Layout
    context : callable
        Returns the contexts, if they have to be binned.
    cache : ArrayCache or None
    is_sparse : bool
        Whether the contexts are.
    what : str
        What the contexts are of: two kinds must not be taken for each other.
    row_key : RowKey, optional
        What rows are sorted by; in the order of the file otherwise.
    """

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
