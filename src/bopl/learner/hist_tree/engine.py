"""What grows trees: the interface of engines, whoever keeps the rows.

An engine is bound to the rows of one log (`TreeEngine.bind`) and grows one tree per round (`BoundEngine.grow`). Its
trees are tables of nodes over histogram positions; `rounds` makes trees over raw contexts of them, in the same way for
all engines. `memory_engine.MemoryEngine` keeps the rows in memory, `levels.PiecesEngine` asks the pieces of a log,
wherever those are; an engine on another device would be a third. All grow the same tree, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.action_split import ActionTable
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.grid import Grid
from bopl.learner.hist_tree.predict import flatten
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.tree import Tree


@dataclass(frozen=True, eq=False)
class EngineRows:
    """The rows that an engine is bound to."""

    binned: BinnedContext  # the contexts; without rows, but with the meaning of positions, if others keep them
    n_samples: int
    n_actions: int
    has_mask: bool = False  # whether some actions are not eligible
    mask: NDArray[np.bool_] | None = None  # (n_samples, n_actions): eligible actions, where the rows are in memory
    # (n_samples,): where each of the log's rows is kept; None if in the order of the log
    place: NDArray[np.int32] | None = None


class Limits(NamedTuple):
    """What bounds a tree, and what its randomness is drawn from, as the kernels read it."""

    max_depth: int
    min_child_weight: float
    min_samples_leaf: int
    large: int  # problems of at least this many contexts go back to the caller
    reg_lambda: float = 0.0
    colsample: float = 1.0
    n_always: int = 0  # columns at the end that every node may split, however few are drawn
    seed: int = 0


@dataclass(frozen=True, eq=False)
class GrowthTask:
    """What one tree is asked for."""

    limits: Limits
    action_table: ActionTable
    grids: tuple[Grid, Grid]  # of gradients and of weights
    is_classifier: bool = False
    drawn: NDArray[np.int64] | None = None  # the samples to grow it on, by their numbers in the log; None for all


Source = TypeVar("Source", contravariant=True)


class BoundEngine(Protocol[Source]):
    """An engine with its rows; a source has their gradients, and takes the values of the tree."""

    def grow(self, source: Source, task: GrowthTask) -> NDArray[Any]:
        """Return the nodes of a new tree, in preorder."""
        ...

    def apply(self, source: Source, tree: GrownTree, *, is_as_grown: bool) -> None:
        """Give the source the tree's values on all rows.

        An engine that wrote them while it grew has nothing left to do if the tree is as it was grown, on all rows.
        """
        ...


class TreeEngine(Protocol[Source]):
    """Settings of an engine."""

    def bind(self, rows: EngineRows, *, has_count: bool) -> BoundEngine[Source]:
        """Allocate working memory; ``has_count`` says that trees count pairs, for ``min_samples_leaf``."""
        ...

    def predict(self, trees: Sequence[Tree], coefficient: Sequence[float], context: Any) -> NDArray[np.float64]:
        """Return ``Σ coefficient · tree`` of raw contexts, (n_samples, n_actions)."""
        ...


@dataclass(frozen=True)
class CompiledPrediction:
    """Prediction by the compiled kernels, for engines that have no better."""

    n_jobs: int = 1

    def predict(self, trees: Sequence[Tree], coefficient: Sequence[float], context: Any) -> NDArray[np.float64]:
        """Return ``Σ coefficient · tree`` of raw contexts, (n_samples, n_actions)."""
        return flatten(list(trees), coefficient).score(context, n_jobs=self.n_jobs)
