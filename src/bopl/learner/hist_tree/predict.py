"""Prediction: one walk per tree scores all actions of a context, carrying the action set down as bits."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray
from scipy import sparse

from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree, pack_actions

ROWS_PER_BLOCK = 256  # scores of a block stay in cache while every tree is added to them
EQUAL_BIT, DEFAULT_LEFT_BIT = 1, 2
RIGHT, FEATURE, CUT, EXTRA = 0, 1, 2, 3  # columns of ``Walk.link``


class Walk(NamedTuple):
    """Nodes of many trees, one after another in preorder, so that a left child is always the next node.

    The four numbers of a node share 16 bytes: ``link`` holds right child, context column, bits of the threshold and
    flags (or, for a split on the action, the row of ``right_actions``); ``cut`` is the same memory read as float32.
    """

    link: NDArray[np.int32]  # (n_nodes, 4)
    cut: NDArray[np.float32]  # (n_nodes, 4), a view of ``link``
    right_actions: NDArray[np.uint64]  # (n_action_splits, n_words)
    value: NDArray[np.float64]  # (n_nodes,) coefficient times leaf value
    root: NDArray[np.int64]  # (n_trees,)
    all_actions: NDArray[np.uint64]  # (n_words,)


@dataclass(frozen=True)
class FlatEnsemble:
    """Many trees with a coefficient each, ready to score.

    Attributes
    ----------
    walk : Walk
    n_actions, n_features : int
    depth : int
        Room that a walk needs for branches left open.
    """

    walk: Walk
    n_actions: int
    n_features: int
    depth: int

    def score(self, context: Any, *, n_jobs: int = 1) -> NDArray[np.float64]:
        """Return the sum of ``coefficient * tree`` for every action of every context.

        Parameters
        ----------
        context : ndarray or scipy CSR matrix of shape (n_samples, n_features)
        n_jobs : int
            Threads; the result does not depend on it.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_actions)
        """
        context = as_float_context(context, self.n_features)
        n_samples = context.shape[0]
        score = np.zeros((n_samples, self.n_actions))
        bounds = np.linspace(0, n_samples, max(min(4 * n_jobs, n_samples), 1) + 1).astype(np.int64)
        spans = [(int(a), int(b)) for a, b in itertools.pairwise(bounds) if b > a]
        if n_jobs == 1 or len(spans) < 2:
            self._score_span(context, 0, n_samples, score)
            return score
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(lambda span: self._score_span(context, span[0], span[1], score), spans))
        return score

    def _score_span(self, context: Any, start: int, end: int, score: NDArray[np.float64]) -> None:
        if sparse.issparse(context):
            parts = (context.data, context.indices, context.indptr)
            _score_csr(*parts, self.n_features, self.walk, self.depth, start, end, score)
        else:
            _score_dense(context, self.walk, self.depth, start, end, score)


def as_float_context(context: Any, n_features: int) -> Any:
    """Return a float32 matrix the kernels can read, or refuse one with other columns."""
    if context.shape[1] != n_features:
        raise ValueError(f"context has {context.shape[1]} columns; the trees were fitted on {n_features}.")
    if sparse.issparse(context):
        return context.tocsr().astype(np.float32)
    return np.ascontiguousarray(context, dtype=np.float32)


def flatten(trees: list[Tree], coefficient: Any) -> FlatEnsemble:
    """Put trees with their coefficients into one set of flat arrays."""
    first = trees[0]
    root = np.cumsum([0] + [tree.n_nodes for tree in trees])[:-1].astype(np.int64)
    feature = np.concatenate([tree.feature for tree in trees])
    on_action = feature == ACTION_SPLIT
    link = np.empty((len(feature), 4), np.int32)
    link[:, RIGHT] = np.concatenate([tree.right + start for tree, start in zip(trees, root, strict=True)])
    link[:, FEATURE] = feature
    link[:, EXTRA] = np.concatenate([_flags(tree) for tree in trees])
    link[on_action, EXTRA] = np.arange(np.count_nonzero(on_action))
    cut = link.view(np.float32)
    cut[:, CUT] = np.concatenate([tree.threshold for tree in trees])
    walk = Walk(
        link=link,
        cut=cut,
        right_actions=np.concatenate([tree.right_actions for tree in trees])[on_action],
        value=np.concatenate([float(c) * tree.value for tree, c in zip(trees, coefficient, strict=True)]),
        root=root,
        all_actions=pack_actions(np.ones(first.n_actions, bool)),
    )
    return FlatEnsemble(walk, first.n_actions, first.n_features, first.n_actions + 2)


def _flags(tree: Tree) -> NDArray[np.uint8]:
    return (tree.is_equal * EQUAL_BIT + tree.default_left * DEFAULT_LEFT_BIT).astype(np.uint8)


@njit(nogil=True, cache=True)
def _goes_right(x, threshold, flags):  # type: ignore[no-untyped-def]
    """Return whether a value goes right at a split with flags; a missing category has threshold NaN."""
    if flags & EQUAL_BIT:
        return x == threshold or (np.isnan(x) and np.isnan(threshold))
    return not (x < threshold or np.isnan(x))


@njit(nogil=True, cache=True)
def _walk_tree(x, walk, root, word, open_node, open_set, score_out):  # type: ignore[no-untyped-def]
    """Add one tree's values of the 64 actions of ``word`` to ``score_out``."""
    link, cut = walk.link, walk.cut
    open_node[0], open_set[0] = root, walk.all_actions[word]
    n_open = np.uint64(1)
    first = np.uint64(word * WORD_BITS)
    while n_open > np.uint64(0):
        n_open -= np.uint64(1)
        node, actions = np.uint64(open_node[n_open]), open_set[n_open]
        feature = link[node, FEATURE]
        while feature != LEAF_FEATURE:
            if feature >= 0:
                value = x[np.uint64(feature)]
                # Without flags a missing value, which is not below anything, goes right.
                goes_right = not value < cut[node, CUT]
                if link[node, EXTRA] != 0:
                    goes_right = _goes_right(value, cut[node, CUT], link[node, EXTRA])
                node = np.uint64(link[node, RIGHT]) if goes_right else node + np.uint64(1)
            else:
                right = actions & walk.right_actions[np.uint64(link[node, EXTRA]), word]
                if right == actions:
                    node = np.uint64(link[node, RIGHT])
                else:
                    if right != np.uint64(0):
                        open_node[n_open], open_set[n_open] = link[node, RIGHT], right
                        n_open += np.uint64(1)
                        actions &= ~right
                    node += np.uint64(1)
            feature = link[node, FEATURE]
        added = walk.value[node]
        while actions != np.uint64(0):
            score_out[first + np.uint64(trailing_zeros(actions))] += added  # type: ignore[call-arg]
            actions &= actions - np.uint64(1)


@njit(nogil=True, cache=True)
def score_row(x, walk, open_node, open_set, score_out):  # type: ignore[no-untyped-def]
    """Add every tree's values for one context to ``score_out`` (n_actions,)."""
    for t in range(len(walk.root)):
        for word in range(len(walk.all_actions)):
            _walk_tree(x, walk, walk.root[t], word, open_node, open_set, score_out)


@njit(nogil=True, cache=True)
def _score_dense(context, walk, depth, start, end, score_out):  # type: ignore[no-untyped-def]
    open_node, open_set = np.empty(depth, np.int64), np.empty(depth, np.uint64)
    for first in range(start, end, ROWS_PER_BLOCK):
        last = min(first + ROWS_PER_BLOCK, end)
        for t in range(len(walk.root)):
            for word in range(len(walk.all_actions)):
                for i in range(first, last):
                    _walk_tree(context[i], walk, walk.root[t], word, open_node, open_set, score_out[i])


@njit(nogil=True, cache=True)
def _score_csr(data, indices, indptr, n_features, walk, depth, start, end, score_out):  # type: ignore[no-untyped-def]
    """Spread one sparse row at a time into a dense one; entries that are not stored are zero."""
    open_node, open_set = np.empty(depth, np.int64), np.empty(depth, np.uint64)
    x = np.zeros(n_features, np.float32)
    for i in range(start, end):
        for k in range(indptr[i], indptr[i + 1]):
            x[indices[k]] = data[k]
        score_row(x, walk, open_node, open_set, score_out[i])
        for k in range(indptr[i], indptr[i + 1]):
            x[indices[k]] = 0.0
