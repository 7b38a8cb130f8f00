"""Nodes: the table of those that are finished, and the stack of those still open while a problem grows.

Kernels read and write them by name, as records of structured arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit

NO_CHILD = -1  # ``left`` and ``right`` of a leaf
LEAF_POSITION, ACTION_POSITION = -1, -2  # ``position`` of a leaf, and of a split of the action set
NO_SLOT = -1  # of a node that has no histogram: it becomes a leaf

# A record per node in place of an array per field: growth writes all fields of a node at once. Aligned, so that kernels
# read them with plain loads.
NODE = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("position", np.int32),  # histogram position of a split on the context
        ("action_feature", np.int32),  # of a split of the action set: -1 for one action against the rest
        ("action", np.int32),
        ("default_left", np.bool_),  # missing values go left
        ("gain", np.float64),
        ("sum_gradient", np.float64),  # sums are those of leaves until `merge_fragments` adds them up the tree
        ("sum_weight", np.float64),
        ("value", np.float64),
    ],
    align=True,
)

# All int64, so that a record needs no padding and sums need no conversion on the way in or out.
OPEN_NODE = np.dtype(
    [
        ("start", np.int64),  # its rows are ``Scratch.members[start:end]``
        ("end", np.int64),
        ("depth", np.int64),
        ("path", np.int64),  # stands for the way from the tree's root; randomness is drawn from it
        ("node", np.int64),  # its place in the table of nodes
        ("slot", np.int64),  # of its histogram and sums by action
        ("gradient", np.int64),  # integer sums in the scale of the problem
        ("weight", np.int64),
        ("pairs", np.int64),
        ("absolute", np.int64),  # sum of absolute gradients
    ]
)


class NodeSums(NamedTuple):
    """Integer sums of a node: gradient, weight and number of eligible pairs."""

    gradient: Any  # int64
    weight: Any
    pairs: Any


class Child(NamedTuple):
    """A node before it is put on the stack; its rows are ``Scratch.members[start:end]``."""

    start: Any  # int64
    end: Any
    path: Any
    node: Any  # its place in the table of nodes
    slot: Any  # of its histogram; `NO_SLOT` if it is a leaf
    sums: NodeSums


class OpenNodes(NamedTuple):
    """A stack of open nodes, each with the best split of its contexts."""

    node: NDArray[Any]  # (capacity,) of OPEN_NODE
    split: NDArray[Any]  # (capacity,) of SPLIT


@njit(nogil=True, cache=True)
def put_leaf(node_out):  # type: ignore[no-untyped-def]
    """Make a leaf of a node of the table; `set_leaf_value` writes what it predicts."""
    node_out.left = node_out.right = NO_CHILD
    node_out.position = LEAF_POSITION
    node_out.action_feature = node_out.action = 0
    node_out.default_left = False
    node_out.gain = node_out.sum_gradient = node_out.sum_weight = node_out.value = 0.0


@njit(nogil=True, cache=True)
def put_context_split(split, gain, child, node_out):  # type: ignore[no-untyped-def]
    """Split a node of the table on a context column; its children are ``child`` and the next."""
    put_leaf(node_out)
    node_out.left, node_out.right = child, child + 1
    node_out.position, node_out.default_left = split.position, split.default_left
    node_out.gain = gain


@njit(nogil=True, cache=True)
def put_action_split(feature, action, gain, child, node_out):  # type: ignore[no-untyped-def]
    """Split the action set of a node of the table; its children are ``child`` and the next."""
    put_leaf(node_out)
    node_out.left, node_out.right = child, child + 1
    node_out.position = ACTION_POSITION
    node_out.action_feature, node_out.action = feature, action
    node_out.gain = gain


@njit(nogil=True, cache=True)
def put_open(child, depth, absolute, open_out):  # type: ignore[no-untyped-def]
    """Write a node of the stack; ``absolute`` is the sum of its absolute gradients."""
    open_out.start, open_out.end = child.start, child.end
    open_out.depth, open_out.path = depth, child.path
    open_out.node, open_out.slot = child.node, child.slot
    open_out.gradient, open_out.weight, open_out.pairs = child.sums.gradient, child.sums.weight, child.sums.pairs
    open_out.absolute = absolute


@njit(nogil=True, cache=True)
def with_capacity(values, n):  # type: ignore[no-untyped-def]
    """Return ``values``, or a longer copy if they hold fewer than ``n``."""
    if n <= len(values):
        return values
    longer = np.empty(max(n, 2 * len(values)), values.dtype)  # doubled: a table of n entries is copied log2(n) times
    longer[: len(values)] = values
    return longer
