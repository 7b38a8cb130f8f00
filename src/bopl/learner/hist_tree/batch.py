"""Scoring many contexts: a tree is traversed once for a block of them, carrying the block's contexts as bits.

Traversing a tree context by context costs a mispredicted branch at every other node. Here a node is visited once for a
block of 256 contexts: one comparison of 64 lanes gives 64 bits, and the bits that go left and right are carried down.
Leaves leave their number with the contexts and actions they hold; values are added when the tree is done, tree after
tree, so scores are the same numbers as those of single traversals. A branch left with few contexts is traversed for
each by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.lanes import (
    LANE_DTYPE,
    LANES,
    count_bits,
    is_below,
    is_below_or_missing,
    is_equal,
    is_equal_or_missing,
    put,
)
from bopl.learner.hist_tree.traversal import DEFAULT_LEFT_BIT, EQUAL_BIT, FlatTrees
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS

BLOCK_WORDS = 4  # of bits, one for each context of a block
BLOCK_CONTEXTS = BLOCK_WORDS * LANES
FEW = 3  # contexts that are traversed one by one
MAX_LEAVES = int(np.iinfo(LANE_DTYPE).max)

# Kinds of nodes: what is predicted, what is asked of the action, and which values of the context go left.
# Five in one number, where trees have two flags and a threshold, so that a visit has one jump and no further tests.
KIND_LEAF, KIND_ACTION, KIND_BELOW, KIND_BELOW_OR_MISSING, KIND_NOT_EQUAL, KIND_PRESENT = 0, 1, 2, 3, 4, 5


class BlockTrees(NamedTuple):
    """Nodes of many trees in preorder, a left child being the next node.

    ``extra`` is the column of a block that a split reads, the row of ``right_actions``, or the number of a leaf.
    """

    kind: NDArray[np.uint8]
    right: NDArray[np.int32]
    extra: NDArray[np.int32]
    threshold: NDArray[np.float32]
    root: NDArray[np.int64]  # (n_trees,)
    first_leaf: NDArray[np.int64]  # (n_trees,) where each tree's values begin
    value: NDArray[np.float64]  # of all leaves, the coefficient included
    right_actions: NDArray[np.uint64]  # (n_action_splits, n_words)
    all_actions: NDArray[np.uint64]  # (n_words,)
    feature: NDArray[np.int64]  # context columns that any split reads


def make_block_trees(trees: FlatTrees) -> BlockTrees:
    """Lay trees out for blocks of contexts."""
    feature, threshold, flags = (trees.node[name] for name in ("feature", "threshold", "extra"))
    on_context, on_action, is_leaf = feature >= 0, feature == ACTION_SPLIT, feature == LEAF_FEATURE
    kind = np.where(flags & DEFAULT_LEFT_BIT, KIND_BELOW_OR_MISSING, KIND_BELOW).astype(np.uint8)
    kind[(flags & EQUAL_BIT) > 0] = KIND_NOT_EQUAL
    kind[((flags & EQUAL_BIT) > 0) & np.isnan(threshold)] = KIND_PRESENT
    kind[on_action], kind[is_leaf] = KIND_ACTION, KIND_LEAF
    used, column = np.unique(feature[on_context], return_inverse=True)
    n_leaves_before = np.cumsum(is_leaf) - is_leaf
    first_leaf = n_leaves_before[trees.root]
    tree_of = np.searchsorted(trees.root, np.arange(len(feature)), side="right") - 1
    extra = np.where(on_action, flags, n_leaves_before - first_leaf[tree_of]).astype(np.int32)
    extra[on_context] = column
    return BlockTrees(
        kind=kind,
        right=trees.node["right"].copy(),
        extra=extra,
        threshold=threshold.copy(),
        root=trees.root,
        first_leaf=first_leaf,
        value=trees.value[is_leaf],
        right_actions=trees.right_actions,
        all_actions=trees.all_actions,
        feature=used.astype(np.int64),
    )


def fits_lanes(trees: FlatTrees) -> bool:
    """Return whether the leaves of every tree can be numbered with the bits of a lane."""
    is_leaf = trees.node["feature"] == LEAF_FEATURE
    return bool(np.add.reduceat(is_leaf, trees.root).max() <= MAX_LEAVES)


class BatchScratch(NamedTuple):
    """Working memory of one thread."""

    block: NDArray[np.float32]  # (n_columns * BLOCK_CONTEXTS,) contexts of a block, column by column
    leaf: NDArray[np.uint16]  # (n_actions * BLOCK_CONTEXTS,) the leaf of every pair in the tree at hand
    score: NDArray[np.float64]  # (n_actions * BLOCK_CONTEXTS,)
    open_node: NDArray[np.int64]
    open_set: NDArray[np.uint64]
    open_bits: NDArray[np.uint64]  # (n_open_branches, BLOCK_WORDS)


def make_batch_scratch(trees: BlockTrees, n_actions: int) -> BatchScratch:
    """Allocate one thread's working memory."""
    most = int(np.diff(np.append(trees.root, len(trees.kind))).max())  # branches left open, at most all nodes
    return BatchScratch(
        np.zeros(max(len(trees.feature), 1) * BLOCK_CONTEXTS, np.float32),
        np.zeros(n_actions * BLOCK_CONTEXTS, LANE_DTYPE),
        np.zeros(n_actions * BLOCK_CONTEXTS),
        np.empty(most + 1, np.int64),
        np.empty(most + 1, np.uint64),
        np.empty((most + 1, BLOCK_WORDS), np.uint64),
    )


@njit(nogil=True, cache=True)
def _left_bits(kind, block, start, threshold):  # type: ignore[no-untyped-def]
    """Return which of 64 contexts go left; missing values go right unless the split says otherwise."""
    if kind == KIND_BELOW:
        return is_below(block, start, threshold)
    if kind == KIND_BELOW_OR_MISSING:
        return is_below_or_missing(block, start, threshold)
    if kind == KIND_NOT_EQUAL:
        return ~is_equal(block, start, threshold)
    # Only a missing value is equal to everything: the missing category goes right.
    equal_to_zero = is_equal_or_missing(block, start, np.float32(0.0))
    equal_to_one = is_equal_or_missing(block, start, np.float32(1.0))
    return ~(equal_to_zero & equal_to_one)


@njit(nogil=True, cache=True)
def _goes_left(kind, x, threshold):  # type: ignore[no-untyped-def]
    """The same for one context."""
    if kind == KIND_BELOW:
        return x < threshold
    if kind == KIND_BELOW_OR_MISSING:
        return x < threshold or np.isnan(x)
    if kind == KIND_NOT_EQUAL:
        return x != threshold
    return not np.isnan(x)


@njit(nogil=True, cache=True)
def _traverse_one(trees, node, actions, word, i, bottom, scratch_out):  # type: ignore[no-untyped-def]
    """Walk one context from ``node`` down, using the stack above ``bottom``."""
    first = np.int64(word) * WORD_BITS
    n_open = bottom
    scratch_out.open_node[n_open], scratch_out.open_set[n_open] = node, actions
    n_open += 1
    while n_open > bottom:
        n_open -= 1
        node, actions = scratch_out.open_node[n_open], scratch_out.open_set[n_open]
        kind = trees.kind[node]
        while kind != KIND_LEAF:
            if kind == KIND_ACTION:
                right = actions & trees.right_actions[trees.extra[node], word]
                if right == actions:
                    node = np.int64(trees.right[node])
                else:
                    if right != np.uint64(0):
                        scratch_out.open_node[n_open], scratch_out.open_set[n_open] = trees.right[node], right
                        n_open += 1
                        actions &= ~right
                    node += 1
            else:
                x = scratch_out.block[np.int64(trees.extra[node]) * BLOCK_CONTEXTS + i]
                node = node + 1 if _goes_left(kind, x, trees.threshold[node]) else np.int64(trees.right[node])
            kind = trees.kind[node]
        leaf = np.uint16(trees.extra[node])  # numbers of leaves fit: `fits_lanes`
        while actions != np.uint64(0):
            scratch_out.leaf[(first + np.int64(trailing_zeros(actions))) * BLOCK_CONTEXTS + i] = leaf  # type: ignore[call-arg]
            actions &= actions - np.uint64(1)


@njit(nogil=True, cache=True, inline="always")
def _leave_leaf(leaf, actions, first, b0, b1, b2, b3, leaf_out):  # type: ignore[no-untyped-def]
    """Leave the number of a leaf with the contexts of four words of bits, for each action of a set."""
    while actions != np.uint64(0):
        at = (first + np.int64(trailing_zeros(actions))) * BLOCK_CONTEXTS  # type: ignore[call-arg]
        put(leaf_out, at, leaf, b0)
        put(leaf_out, at + LANES, leaf, b1)
        put(leaf_out, at + 2 * LANES, leaf, b2)
        put(leaf_out, at + 3 * LANES, leaf, b3)
        actions &= actions - np.uint64(1)


@njit(nogil=True, cache=True)
def _traverse_block(trees, root, word, present, scratch_out):  # type: ignore[no-untyped-def]
    """Leave with every pair of a block, for the 64 actions of ``word``, the number of its leaf in one tree."""
    open_node, open_set, open_bits = scratch_out.open_node, scratch_out.open_set, scratch_out.open_bits
    first = np.int64(word) * WORD_BITS
    open_node[0], open_set[0] = root, trees.all_actions[word]
    # Four words by name, not an array: they stay in registers from the root to a leaf.
    b0, b1, b2, b3 = present[0], present[1], present[2], present[3]
    open_bits[0, 0], open_bits[0, 1], open_bits[0, 2], open_bits[0, 3] = b0, b1, b2, b3
    n_open = 1
    while n_open > 0:
        n_open -= 1
        node, actions = open_node[n_open], open_set[n_open]
        b0, b1, b2, b3 = open_bits[n_open, 0], open_bits[n_open, 1], open_bits[n_open, 2], open_bits[n_open, 3]
        while True:
            kind = trees.kind[node]
            if kind == KIND_LEAF:
                _leave_leaf(np.uint16(trees.extra[node]), actions, first, b0, b1, b2, b3, scratch_out.leaf)
                break
            if kind == KIND_ACTION:
                right = actions & trees.right_actions[trees.extra[node], word]
                if right == actions:
                    node = np.int64(trees.right[node])
                    continue
                if right != np.uint64(0):
                    open_node[n_open], open_set[n_open] = trees.right[node], right
                    open_bits[n_open, 0], open_bits[n_open, 1] = b0, b1
                    open_bits[n_open, 2], open_bits[n_open, 3] = b2, b3
                    n_open += 1
                    actions &= ~right
                node += 1
                continue
            if count_bits(b0) + count_bits(b1) + count_bits(b2) + count_bits(b3) <= FEW:  # type: ignore[call-arg]
                # One loop over the words, so that `_traverse_one` is called, and inlined, in one place.
                for k in range(BLOCK_WORDS):
                    bits = b0 if k == 0 else b1 if k == 1 else b2 if k == 2 else b3
                    while bits != np.uint64(0):
                        i = LANES * k + np.int64(trailing_zeros(bits))
                        _traverse_one(trees, node, actions, word, i, n_open, scratch_out)
                        bits &= bits - np.uint64(1)
                break
            start, threshold = np.int64(trees.extra[node]) * BLOCK_CONTEXTS, trees.threshold[node]
            l0 = b0 & _left_bits(kind, scratch_out.block, start, threshold)
            l1 = b1 & _left_bits(kind, scratch_out.block, start + LANES, threshold)
            l2 = b2 & _left_bits(kind, scratch_out.block, start + 2 * LANES, threshold)
            l3 = b3 & _left_bits(kind, scratch_out.block, start + 3 * LANES, threshold)
            r0, r1, r2, r3 = b0 ^ l0, b1 ^ l1, b2 ^ l2, b3 ^ l3
            # Below a few levels most splits send a block's contexts one way: nothing is then put on the stack.
            if (r0 | r1 | r2 | r3) == np.uint64(0):
                node += 1
                continue
            if (l0 | l1 | l2 | l3) == np.uint64(0):
                node = np.int64(trees.right[node])
                continue
            open_node[n_open], open_set[n_open] = trees.right[node], actions
            open_bits[n_open, 0], open_bits[n_open, 1], open_bits[n_open, 2], open_bits[n_open, 3] = r0, r1, r2, r3
            n_open += 1
            b0, b1, b2, b3 = l0, l1, l2, l3
            node += 1


@njit(nogil=True, cache=True)
def _add_values(value, first_leaf, leaf, n_pairs, score_out):  # type: ignore[no-untyped-def]
    """Add the values of the leaves that one tree left."""
    # Lanes beyond the block's last context hold leaves of an earlier block: their sums are finite, and never read.
    for j in range(np.uint64(n_pairs)):
        score_out[j] += value[np.uint64(first_leaf) + np.uint64(leaf[j])]


@njit(nogil=True, cache=True)
def _score_block(trees, n_contexts, n_actions, scratch_out):  # type: ignore[no-untyped-def]
    """Score the contexts of ``scratch_out.block`` with all trees."""
    present = np.zeros(BLOCK_WORDS, np.uint64)
    for i in range(n_contexts):
        present[i // LANES] |= np.uint64(1) << np.uint64(i % LANES)
    scratch_out.score[:] = 0.0
    for t in range(len(trees.root)):
        for word in range(len(trees.all_actions)):
            _traverse_block(trees, trees.root[t], word, present, scratch_out)
        _add_values(trees.value, trees.first_leaf[t], scratch_out.leaf, n_actions * BLOCK_CONTEXTS, scratch_out.score)


@njit(nogil=True, cache=True)
def _write_scores(scratch, start, n_contexts, score_out):  # type: ignore[no-untyped-def]
    for i in range(n_contexts):
        for a in range(score_out.shape[1]):
            score_out[start + i, a] = scratch.score[a * BLOCK_CONTEXTS + i]


@njit(nogil=True, cache=True)
def score_dense(context, trees, start, end, scratch_out, score_out):  # type: ignore[no-untyped-def]
    """Score rows ``start`` to ``end`` of a dense context, block by block."""
    for first in range(start, end, BLOCK_CONTEXTS):
        n = min(BLOCK_CONTEXTS, end - first)
        # By column, so that 64 neighbours are one column's values of 64 contexts; columns no split reads are left out.
        for i in range(n):
            for c in range(len(trees.feature)):
                scratch_out.block[c * BLOCK_CONTEXTS + i] = context[first + i, trees.feature[c]]
        _score_block(trees, n, score_out.shape[1], scratch_out)
        _write_scores(scratch_out, first, n, score_out)


@njit(nogil=True, cache=True)
def score_csr(context, column_of, trees, start, end, scratch_out, score_out):  # type: ignore[no-untyped-def]
    """Score rows of `CsrRows`; entries that are not stored are zero, ``column_of`` is -1 for unread features."""
    data, indices, indptr = context
    for first in range(start, end, BLOCK_CONTEXTS):
        n = min(BLOCK_CONTEXTS, end - first)
        scratch_out.block[:] = 0.0
        for i in range(n):
            for k in range(indptr[first + i], indptr[first + i + 1]):
                c = column_of[indices[k]]
                if c >= 0:
                    scratch_out.block[c * BLOCK_CONTEXTS + i] = data[k]
        _score_block(trees, n, score_out.shape[1], scratch_out)
        _write_scores(scratch_out, first, n, score_out)
