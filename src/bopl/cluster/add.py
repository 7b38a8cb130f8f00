"""Adding the partial results of pieces: exactly, so that the order of arrival does not matter."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np


def add_exact(one: Any, other: Any) -> Any:
    """Return the sum of two partial results: integers, arrays of integers, or tuples, lists and dicts of these.

    Arrays of the same dtype are added into ``one``, which the caller must not use afterwards.

    Raises
    ------
    TypeError
        If something would be rounded: sums of floats depend on the order of addition.
    """
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, np.ndarray | np.generic) or isinstance(other, np.ndarray | np.generic):
        return _add_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if isinstance(one, Mapping):
        return {**other, **{key: add_exact(one[key], other[key]) if key in other else one[key] for key in one}}
    if isinstance(one, tuple | list) and len(one) == len(other):
        return type(one)(add_exact(*pair) for pair in zip(one, other, strict=True))
    raise TypeError(
        f"partial results of pieces must be integers, arrays of integers, or tuples, lists and dicts of these, not "
        f"{type(one).__name__}; pass add= to add them another way."
    )


def _add_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        raise TypeError(
            f"partial results of pieces must be integers, not {one.dtype} and {other.dtype}: sums of floats depend on "
            "the order of addition. Scale them to integers first."
        )
    if one.shape != other.shape:
        raise ValueError(f"partial results of pieces differ in shape: {one.shape} and {other.shape}.")
    if one.dtype == other.dtype and one.flags.writeable:
        one += other
        return one
    return one + other


def n_bytes(value: Any) -> int:
    """Return how many bytes a partial result takes on the network; None takes none."""
    if value is None:
        return 0
    buffers: list[pickle.PickleBuffer] = []  # of arrays, which are not copied
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
