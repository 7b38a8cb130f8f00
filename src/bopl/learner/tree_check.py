"""Trees from files: checks that no walk can leave the arrays, run in circles or reach a node twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bopl._typing import AnyArray, BoolArray, IntArray

MAX_DEPTH = 1000  # of the engine's trees: the most that ``max_depth`` may be
MAX_NUMBER = 1e120  # of a leaf or a coefficient: products and sums of such numbers stay finite
MOST = float(np.finfo(np.float32).max)


def check_node_arrays(arrays: Mapping[str, AnyArray], dtypes: Mapping[str, Any]) -> IntArray:
    """Return where each tree begins in arrays of nodes end to end, and where the last ends: (n_trees + 1,)."""
    n_nodes, first = arrays["n_nodes"], arrays[next(iter(dtypes))]
    total = first.size
    for name, dtype in dtypes.items():
        if arrays[name].dtype != dtype or arrays[name].shape != (total,):
            raise ValueError(f"tree array {name!r} has the wrong type or length")
    # Sizes of at most ``total`` each cannot overflow when they are added up.
    if n_nodes.dtype != np.int64 or n_nodes.ndim != 1 or ((n_nodes < 1) | (n_nodes > total)).any():
        raise ValueError("the trees' sizes do not match their nodes")
    if len(n_nodes) > total or n_nodes.sum() != total or total > np.iinfo(np.int32).max:
        raise ValueError("the trees' sizes do not match their nodes")
    return np.concatenate([[0], np.cumsum(n_nodes)])


def check_children(left: IntArray, right: IntArray, is_split: BoolArray, bounds: IntArray) -> tuple[IntArray, IntArray]:
    """Return the children of all splits as positions in the whole, after checking that every tree is one.

    Parameters
    ----------
    left, right : ndarray of int, shape (n_nodes,)
        Children, counted from the beginning of their tree.
    is_split : ndarray of bool, shape (n_nodes,)
    bounds : ndarray of int, shape (n_trees + 1,)
        Of `check_node_arrays`.
    """
    size = np.diff(bounds)
    node = np.flatnonzero(is_split)
    start, end = np.repeat(bounds[:-1], size)[node], np.repeat(bounds[1:], size)[node]
    children = left[node] + start, right[node] + start
    for child in children:
        if (child <= node).any() or (child >= end).any():
            raise ValueError("a tree's children do not follow their parents")
    # Every node but the roots has one parent, which comes before it: then all hang together and none is shared.
    n_parents = np.bincount(np.concatenate(children), minlength=len(is_split))
    n_parents[bounds[:-1]] += 1
    if (n_parents != 1).any():
        raise ValueError("a node of a tree has no parent or more than one")
    return children


def check_depth(children: tuple[IntArray, IntArray], is_split: BoolArray, bounds: IntArray) -> None:
    """Raise if a tree is deeper than any that the engine grows; the trees are gone through level by level."""
    left, right = (np.full(len(is_split), -1) for _ in range(2))
    left[is_split], right[is_split] = children
    # All trees at once, a level at a time: as many numpy operations as the deepest tree has levels.
    level = bounds[:-1]
    for _ in range(MAX_DEPTH + 1):
        inner = level[is_split[level]]
        if len(inner) == 0:
            return
        level = np.concatenate([left[inner], right[inner]])
    raise ValueError(f"a tree is deeper than {MAX_DEPTH} splits")


def check_finite(arrays: Mapping[str, AnyArray], *names: str) -> None:
    """Raise if arrays of nodes hold NaN, infinity, or numbers whose products would be infinite."""
    for name in names:
        if not (np.abs(arrays[name]) <= MAX_NUMBER).all():  # which NaN is not
            raise ValueError(f"tree array {name!r} holds a number that is not finite, or beyond {MAX_NUMBER:g}")


def without_overflow(arrays: Mapping[str, AnyArray], name: str) -> AnyArray:
    """Return numbers that were stored as float32, where those too large for it are infinite; NaN is refused."""
    if np.isnan(arrays[name]).any():
        raise ValueError(f"tree array {name!r} holds a number that is missing")
    return np.clip(arrays[name].astype(np.float64), -MOST, MOST)
