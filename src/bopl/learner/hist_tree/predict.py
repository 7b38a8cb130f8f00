"""Prediction: many trees with their coefficients as one scorer of contexts."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads
from bopl.learner.hist_tree import batch
from bopl.learner.hist_tree.compact import CompactTrees, make_compact_trees, score_compact
from bopl.learner.hist_tree.traversal import (
    DEFAULT_LEFT_BIT,
    EQUAL_BIT,
    FLAT_NODE,
    CsrRows,
    FlatTrees,
    score_csr_rows,
    score_rows,
)
from bopl.learner.hist_tree.tree import ACTION_SPLIT, Tree, pack_actions
from bopl.log.context import is_sparse

MIN_BATCH = 32  # fewer contexts are scored one by one
MAX_SPAN = 1 << 16  # contexts in one compiled call

_lanes_failed = Event()  # the kernels of many lanes, written in LLVM's own language, cannot be compiled here


@dataclass(frozen=True)
class FlatEnsemble:
    """Many trees with a coefficient each, ready to score."""

    trees: FlatTrees
    n_actions: int
    n_features: int
    depth: int  # most branches that a traversal leaves open

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
        if n_samples < MIN_BATCH:
            self._score_one_by_one(context, 0, n_samples, score)
            return score
        # Spans are whole blocks and rows are scored by themselves: no bit depends on the number of threads.
        spans = _spans(n_samples, n_jobs)
        if n_jobs == 1 or len(spans) < 2:
            for span in spans:
                self._score_span(context, span[0], span[1], score)
            return score
        with Threads(n_jobs) as threads:
            threads.each(lambda span: self._score_span(context, span[0], span[1], score), spans)
        return score

    @cached_property
    def _batch(self) -> batch.BlockTrees | None:
        is_usable = batch.fits_lanes(self.trees) and not _lanes_failed.is_set()
        return batch.make_block_trees(self.trees) if is_usable else None

    def _score_span(self, context: Any, start: int, end: int, score: NDArray[np.float64]) -> None:
        blocks = self._batch if end - start >= MIN_BATCH else None
        if blocks is None or not self._by_lanes(self._score_blocks, blocks, context, start, end, score):
            self._score_one_by_one(context, start, end, score)

    def _score_blocks(
        self, trees: batch.BlockTrees, context: Any, start: int, end: int, score: NDArray[np.float64]
    ) -> None:
        scratch = batch.make_batch_scratch(trees, self.n_actions)
        if is_sparse(context):
            column_of = np.full(self.n_features, -1, np.int64)
            column_of[trees.feature] = np.arange(len(trees.feature))
            batch.score_csr(csr_rows(context), column_of, trees, start, end, scratch, score)
        else:
            batch.score_dense(context, trees, start, end, scratch, score)

    def _score_one_by_one(self, context: Any, start: int, end: int, score: NDArray[np.float64]) -> None:
        if is_sparse(context):
            score_csr_rows(csr_rows(context), self.n_features, self.trees, self.depth, start, end, score)
            return
        trees = self._compact
        if trees is None or not self._by_lanes(score_compact, context, trees, start, end, score):
            score_rows(context, self.trees, self.depth, start, end, score)

    def _by_lanes(self, kernel: Callable[..., None], *arguments: Any) -> bool:
        """Run a kernel of many lanes; return False if it cannot be compiled.

        Kernels raise nothing, so what is raised comes from the compiler, before anything is written.
        """
        try:
            kernel(*arguments)
        except MemoryError:
            raise
        except Exception as error:
            self._do_without_lanes(error)
            return False
        return True

    @cached_property
    def _compact(self) -> CompactTrees | None:
        return None if _lanes_failed.is_set() else make_compact_trees(self.trees)

    def _do_without_lanes(self, error: Exception) -> None:
        """Traverse trees context by context from now on, and say so once."""
        vars(self).update(_batch=None, _compact=None)
        if not _lanes_failed.is_set():
            _lanes_failed.set()
            warnings.warn(
                "kernels that score many contexts at once cannot be compiled with the installed numba and llvmlite, so "
                f"scoring takes longer; the scores are the same ({type(error).__name__}).",
                RuntimeWarning,
                stacklevel=2,
            )


def _spans(n_samples: int, n_jobs: int) -> list[tuple[int, int]]:
    """Divide contexts among threads, a few spans each, in whole blocks; Ctrl-C waits for no more than one span."""
    n_blocks = -(-n_samples // batch.BLOCK_CONTEXTS)
    n_spans = max(4 * n_jobs if n_jobs > 1 else 1, -(-n_samples // MAX_SPAN))
    bounds = np.linspace(0, n_blocks, max(min(n_spans, n_blocks), 1) + 1).astype(np.int64) * batch.BLOCK_CONTEXTS
    return [(int(a), min(int(b), n_samples)) for a, b in itertools.pairwise(bounds) if b > a]


def as_float_context(context: Any, n_features: int) -> Any:
    """Return a float32 matrix the kernels can read, or refuse one with other columns."""
    if context.shape[1] != n_features:
        raise ValueError(f"context has {context.shape[1]} columns; the trees were fitted on {n_features}.")
    if is_sparse(context):
        return context.tocsr().astype(np.float32)
    return np.ascontiguousarray(context, dtype=np.float32)


def csr_rows(context: Any) -> CsrRows:
    """Return a CSR matrix as the kernels read it."""
    return CsrRows(context.data, context.indices, context.indptr)


def flatten(trees: list[Tree], coefficient: Any) -> FlatEnsemble:
    """Put trees with their coefficients into one set of flat arrays."""
    first = trees[0]
    # Node numbers of a tree count from its root; end to end they are shifted. A left child is the next node, so only
    # right ones are stored.
    root = np.cumsum([0] + [tree.n_nodes for tree in trees])[:-1].astype(np.int64)
    feature = np.concatenate([tree.feature for tree in trees])
    on_action = feature == ACTION_SPLIT
    node = np.empty(len(feature), FLAT_NODE)
    node["right"] = np.concatenate([tree.right + start for tree, start in zip(trees, root, strict=True)])
    node["feature"] = feature
    node["threshold"] = np.concatenate([tree.threshold for tree in trees])
    node["extra"] = np.concatenate([_flags(tree) for tree in trees])
    node["extra"][on_action] = np.arange(np.count_nonzero(on_action))
    flat = FlatTrees(
        node=node,
        right_actions=np.concatenate([tree.right_actions for tree in trees])[on_action],
        value=np.concatenate([float(c) * tree.value for tree, c in zip(trees, coefficient, strict=True)]),
        root=root,
        all_actions=pack_actions(np.ones(first.n_actions, bool)),
    )
    return FlatEnsemble(flat, first.n_actions, first.n_features, first.n_actions + 2)


def _flags(tree: Tree) -> NDArray[np.uint8]:
    return (tree.is_equal * EQUAL_BIT + tree.default_left * DEFAULT_LEFT_BIT).astype(np.uint8)
