"""Arrays that cannot be written to: what a checked log is made of."""

from __future__ import annotations

from typing import Any

from bopl.log.context import is_sparse


def read_only(array: Any) -> Any:
    """Return an array that cannot be written to, without touching the flags of the caller's own array."""
    if is_sparse(array):
        for part in (array.data, array.indices, array.indptr):
            part.flags.writeable = False
        return array
    view = array.view()
    view.flags.writeable = False
    return view
