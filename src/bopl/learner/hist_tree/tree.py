"""The finished tree: flat arrays over raw contexts; checks that no traversal of arrays from a file can leave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl._typing import AnyArray, BoolArray, IntArray

LEAF_FEATURE = -1  # ``Tree.feature`` of a leaf
ACTION_SPLIT = -2  # ... and of a split on the action
WORD_BITS = 64  # action sets are carried as words of bits
MAX_DEPTH = 1000  # of the engine's trees: the most that ``max_depth`` may be
MAX_NUMBER = 1e120  # of a leaf or a coefficient: products and sums of such numbers stay finite
MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Tree:
    """One regression or classification tree over (context, action) pairs; node 0 is the root, nodes are in preorder.

    Arrays have one row per node.
    """

    left: NDArray[np.int32]  # child, -1 for a leaf
    right: NDArray[np.int32]
    feature: NDArray[np.int32]  # context column of the split, -1 for a leaf, -2 for a split on the action
    # ``x < threshold`` goes left; if ``is_equal``, ``x == threshold`` goes right and all else left. For a split on an
    # action feature, the threshold on that feature.
    threshold: NDArray[np.float32]
    default_left: NDArray[np.bool_]  # whether a missing value goes left
    is_equal: NDArray[np.bool_]
    action_feature: NDArray[np.int32]  # for a split on the action: -1 if by identity, otherwise the action feature
    action: NDArray[np.int32]  # for a split by identity: the action that goes right
    # (n_nodes, n_words), for a split on the action: bit ``a % 64`` of word ``a // 64`` is set if ``a`` goes right.
    right_actions: NDArray[np.uint64]
    value: NDArray[np.float64]  # leaf values
    gain: NDArray[np.float64]  # what each split gained
    sum_weight: NDArray[np.float64]  # unrounded sum of weights of each node
    n_actions: int
    n_features: int
    n_action_features: int = 0

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.left)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.feature == LEAF_FEATURE))

    @property
    def n_columns(self) -> int:
        """Number of columns of ``[x; onehot(a); features of a]``."""
        return self.n_features + self.n_actions + self.n_action_features

    def to_bytes(self) -> bytes:
        """Return every array's bytes in order: equal trees have equal bytes."""
        arrays = [getattr(self, f.name) for f in fields(self)]
        return b"".join(a.tobytes() for a in arrays if isinstance(a, np.ndarray))


def split_columns(tree: Tree) -> NDArray[np.int64]:
    """Return the column of ``[x; onehot(a); features of a]`` that every split looks at, 0 for leaves."""
    on_action = tree.feature == ACTION_SPLIT
    of_action = np.where(tree.action_feature < 0, tree.action, tree.n_actions + tree.action_feature)
    column = np.where(on_action, tree.n_features + of_action, tree.feature)
    return np.where(tree.feature == LEAF_FEATURE, 0, column).astype(np.int64)


def n_words(n_actions: int) -> int:
    """Return how many words an action set takes."""
    return -(-n_actions // WORD_BITS)


def pack_actions(is_member: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return an action set as words of bits."""
    padded = np.zeros(n_words(len(is_member)) * WORD_BITS, bool)
    padded[: len(is_member)] = is_member
    return np.packbits(padded, bitorder="little").view(np.uint64)


def preorder(root: int, left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the numbers of all nodes that the root reaches, parents first and left before right."""
    order = np.empty(len(left), np.int64)
    n_nodes = _write_preorder(root, np.ascontiguousarray(left), np.ascontiguousarray(right), order)
    return order[:n_nodes]


@njit(nogil=True, cache=True)
def _write_preorder(root, left, right, order_out):  # type: ignore[no-untyped-def]
    stack = np.empty(len(left) + 1, np.int64)  # no more branches are open than there are nodes
    stack[0] = root
    n_open, n = 1, 0
    while n_open > 0:
        n_open -= 1
        node = stack[n_open]
        order_out[n] = node
        n += 1
        if left[node] >= 0:
            stack[n_open] = right[node]
            stack[n_open + 1] = left[node]
            n_open += 2
    return n


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
