"""One round: what is drawn, the limits and grids of its tree, and the tree over raw contexts.

The same for every engine: only who keeps the rows, and with them the gradients, differs. The first round compiles the
engine, once per installation; the user is told.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar
from weakref import WeakSet

import numpy as np
from numba.core.event import Event, Listener, install_listener
from numpy.typing import NDArray

from bopl._exact import exact_sum
from bopl.learner.hist_tree.action_split import ActionTable
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.assembly import keep_best_splits, make_tree
from bopl.learner.hist_tree.engine import EngineRows, GrowthTask, Limits, TreeEngine
from bopl.learner.hist_tree.grid import Grid, largest_of
from bopl.learner.hist_tree.problem import make_grids
from bopl.learner.hist_tree.tree import Tree

if TYPE_CHECKING:
    from bopl.learner.hist_tree.learner import HistTree

MIN_LARGE = 4096  # smaller problems are not worth handing to another thread
PIECES = 16  # ... nor are those below this part of the contexts

MIN_SECONDS = 3.0  # shorter compilations are not worth a second line

Source = TypeVar("Source")
_told: WeakSet[TextIO] = WeakSet()  # streams that have been told: once per process is enough


@dataclass(frozen=True)
class WeightSummary:
    """What a round has to know of all weights: the largest, how many are not zero, and their sum."""

    largest: float
    n_positive: int
    total: float

    @classmethod
    def of(cls, weight: NDArray[np.float64]) -> WeightSummary:
        """Return the facts of some weights."""
        return cls(largest_of(weight[None]), int(np.count_nonzero(weight)), exact_sum(weight))


@dataclass(frozen=True, eq=False)
class FittedTree:
    """The tree of a round, over raw contexts and over histogram positions."""

    tree: Tree
    grown: GrownTree


class TreeRounds(Generic[Source]):
    """Fits one tree per round with an engine that is bound to the rows of a log.

    ``action_features`` are of shape (n_actions, n_action_features); ``n_always`` columns at the end of the contexts may
    be split by every node, whatever ``colsample`` draws.
    """

    def __init__(
        self,
        settings: HistTree,
        engine: TreeEngine[Source],
        rows: EngineRows,
        action_features: NDArray[np.float64],
        seed: int,
    ) -> None:
        self.settings, self._engine, self._rows = settings, engine, rows
        self._action_features = action_features
        self._action_table = _action_table_of(action_features)
        self._seed = _seed_of(settings, seed)
        self.n_always = 0
        self._bound = engine.bind(rows, has_count=settings.min_samples_leaf > 1)

    def use_settings(self, settings: HistTree, engine: TreeEngine[Source], *, seed: int) -> None:
        """Fit trees with other settings from now on; working memory is kept where it has what they need."""
        has_count = settings.min_samples_leaf > 1
        if has_count != (self.settings.min_samples_leaf > 1) or engine != self._engine:
            self._engine, self._bound = engine, engine.bind(self._rows, has_count=has_count)
        self.settings, self._seed = settings, _seed_of(settings, seed)

    def fit(self, source: Source, largest: float, weights: WeightSummary, round_idx: int) -> FittedTree:
        """Fit one tree; the source has the gradients, and is given the tree's values on all rows.

        ``source`` is as the engine takes it; ``largest`` is the largest absolute gradient.
        """
        with announced_compilation():
            task, min_child_weight = self._task(largest, weights, round_idx)
            nodes = self._bound.grow(source, task)
            if self.settings.max_leaves is not None:
                leaf_rule = (float(self.settings.reg_lambda), min_child_weight, self.settings._is_classifier)
                nodes = keep_best_splits(nodes, self.settings.max_leaves, leaf_rule)
            binned = self._rows.binned
            tree = make_tree(nodes, binned.splits, self._action_features, len(binned.columns))
            grown = GrownTree(nodes, tree.right_actions)
            self._bound.apply(source, grown, is_as_grown=task.drawn is None and self.settings.max_leaves is None)
        return FittedTree(tree, grown)

    def _task(self, largest: float, weights: WeightSummary, round_idx: int) -> tuple[GrowthTask, float]:
        """Return what the engine is asked for, and the least weight of a child."""
        settings, n_samples = self.settings, self._rows.n_samples
        seed = _seed_of_round(self._seed, round_idx)
        min_child_weight = _min_child_weight(settings, weights)
        limits = Limits(
            max_depth=int(settings.max_depth),
            min_child_weight=min_child_weight,
            min_samples_leaf=int(settings.min_samples_leaf),
            reg_lambda=float(settings.reg_lambda),
            colsample=float(settings.colsample),
            n_always=self.n_always,
            seed=seed,
            large=max(n_samples // PIECES, MIN_LARGE),
        )
        grids = _grids_of(settings, largest, weights, n_samples, self._rows.n_actions)
        drawn = _draw_samples(n_samples, settings.subsample, seed) if settings.subsample < 1.0 else None
        return GrowthTask(limits, self._action_table, grids, settings._is_classifier, drawn), min_child_weight


def _action_table_of(action_features: NDArray[np.float64]) -> ActionTable:
    """Return the actions in the order of each of their features."""
    ascending = np.argsort(action_features.T, axis=1, kind="stable").astype(np.int32)
    return ActionTable(np.ascontiguousarray(ascending), np.ascontiguousarray(action_features.T))


def _seed_of(settings: HistTree, seed: int) -> int:
    # A round's draws come from the seed and its number alone, so that a resumed fit draws what it would have drawn.
    seeds = np.random.SeedSequence([seed, 0 if settings.random_state is None else settings.random_state])
    return int(seeds.generate_state(1)[0])


def _seed_of_round(seed: int, round_idx: int) -> int:
    """Return the seed of a round's draws."""
    return int(np.random.SeedSequence([seed, round_idx]).generate_state(1)[0])


def _draw_samples(n_samples: int, share: float, seed: int) -> NDArray[np.int64]:
    """Return the samples of a round by their numbers in the log, in no order."""
    # By number in the log, before any order of rows in memory or of pieces: all engines draw the same samples.
    n_drawn = max(int(np.ceil(share * n_samples)), 1)
    return np.random.default_rng(seed).permutation(n_samples)[:n_drawn]


def _grids_of(
    settings: HistTree, largest: float, weights: WeightSummary, n_samples: int, n_actions: int
) -> tuple[Grid, Grid]:
    """Return the grids of a round; the weights of a classifier are its gradients."""
    grids = make_grids(largest, weights.largest, n_samples, n_actions)
    return (grids[0], grids[0]) if settings._is_classifier else grids


def _min_child_weight(settings: HistTree, weights: WeightSummary) -> float:
    """Return the least weight of a child: as it was set, or that of so many typical samples."""
    least = float(settings.min_child_weight)
    if settings.min_leaf_samples > 0.0:  # samples without weight are none
        least = max(least, float(settings.min_leaf_samples) * weights.total / (weights.n_positive or 1))
    return least


class _Announcer(Listener):
    """Writes one line when the first kernel is compiled; silent when all come from the cache."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.started: float | None = None

    def on_start(self, event: Event) -> None:
        if self.started is None:
            self.started = time.perf_counter()
            if self.stream not in _told:
                _told.add(self.stream)
                self.stream.write("bopl: compiling the tree engine, once per installation …\n")
                self.stream.flush()

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def announced_compilation(stream: TextIO | None = None) -> Iterator[None]:
    """Say on standard error if something is compiled inside the block, and afterwards how long the block took."""
    announcer = _Announcer(stream or sys.stderr)
    with install_listener("numba:compile", announcer):
        yield
    if announcer.started is not None and time.perf_counter() - announcer.started >= MIN_SECONDS:
        seconds = time.perf_counter() - announcer.started
        announcer.stream.write(f"bopl: compiled in {seconds:.0f} s; the next start takes it from the cache.\n")
