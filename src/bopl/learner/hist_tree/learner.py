"""``HistTree`` and ``HistTreeClassifier``: settings, checks, and the binding to one log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from bopl._exact import exact_sum
from bopl._settings import check_number
from bopl.learner.base import FittedStep
from bopl.learner.hist_tree.assembly import Piece, make_tree, merge_pieces
from bopl.learner.hist_tree.binning import MAX_BINS, fit_columns
from bopl.learner.hist_tree.compilation import announced_compilation
from bopl.learner.hist_tree.fit import Grower, find_order
from bopl.learner.hist_tree.grid import Grid, largest_of
from bopl.learner.hist_tree.grow import ActionTable, Limits
from bopl.learner.hist_tree.levels import LevelGrower
from bopl.learner.hist_tree.locality import RowOrder, store_in_order
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.problem import make_grids
from bopl.learner.hist_tree.prune import keep_best_splits
from bopl.learner.hist_tree.storage import BinnedContext, bin_context
from bopl.learner.hist_tree.tree import Tree
from bopl.learner.hist_tree.wave import Answer, TreeTask, Wave
from bopl.log.context import quoted
from bopl.objective.protocol import StepTarget

MIN_LARGE = 4096  # smaller problems are not worth handing to another thread
PIECES = 16  # ... nor are those below this part of the contexts


class HistTree(BaseEstimator):
    """Regression tree over (context, action) pairs, fitted without building their matrix.

    The leaf value is ``sum(G) / (sum(w) + reg_lambda)`` and a split gains
    ``GL^2 / (WL + reg_lambda) + GR^2 / (WR + reg_lambda) - GP^2 / (WP + reg_lambda)``, as in XGBoost.

    Parameters
    ----------
    max_depth : int, default=8
        Maximum depth of a tree.
    max_leaves : int or None, default=None
        Keep the splits that a best-first growth would have made first. The tree is grown in full, so this costs no
        less time.
    min_child_weight : float, default=1.0
        Least sum of weights of a child.
    min_leaf_samples : float, default=0.0
        Least weight of a child in typical samples: so many times the mean weight of a sample. Unlike
        ``min_child_weight`` it means the same for every objective, reward translation and scale of the propensities.
    min_samples_leaf : int, default=1
        Least number of eligible (context, action) pairs of a child.
    reg_lambda : float, default=0.0
        Ridge penalty on the values of the leaves.
    max_bins : int, default=256
        Bins of a context column, 2 to 256.
    colsample : float, default=1.0
        Share of the context columns drawn for each node; actions can always be split.
    subsample : float, default=1.0
        Share of the contexts drawn, without replacement, for each round.
    categorical : sequence of int or str, optional
        Context columns, by position or name, whose values are categories: splits are one against the rest.
    n_jobs : int or None, default=None
        Threads; all processors if None. The tree does not depend on it.
    random_state : int or None, default=None
        Seed of the draws, in addition to the seed given to ``bind``.

    Examples
    --------
    >>> HistTree(max_depth=4).max_depth
    4
    """

    _is_classifier = False

    def __init__(
        self,
        max_depth: int = 8,
        *,
        max_leaves: int | None = None,
        min_child_weight: float = 1.0,
        min_leaf_samples: float = 0.0,
        min_samples_leaf: int = 1,
        reg_lambda: float = 0.0,
        max_bins: int = 256,
        colsample: float = 1.0,
        subsample: float = 1.0,
        categorical: Any = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.min_child_weight = min_child_weight
        self.min_leaf_samples = min_leaf_samples
        self.min_samples_leaf = min_samples_leaf
        self.reg_lambda = reg_lambda
        self.max_bins = max_bins
        self.colsample = colsample
        self.subsample = subsample
        self.categorical = categorical
        self.n_jobs = n_jobs
        self.random_state = random_state

    def bind(self, log: Any, *, seed: int) -> BoundHistTree:
        """Check the settings, bin the log's contexts once, and return the learner of its rounds."""
        check_tree_settings(self)
        context = as_context(log.context)
        categorical = categorical_mask(self.categorical, context.shape[1], getattr(log, "feature_names", None))
        n_jobs = (os.cpu_count() or 1) if self.n_jobs is None else self.n_jobs
        with announced_compilation():
            columns = fit_columns(context, self.max_bins, categorical, n_actions=log.n_actions)
            binned = bin_context(context, columns)
            order = find_order(binned, log.reward, n_jobs)
            binned = binned if order is None else store_in_order(binned, order)
        mask = log.action_mask if order is None or log.action_mask is None else log.action_mask[order.row]
        features = feature_matrix(log.action_features, log.n_actions)
        return BoundHistTree(self, binned, order, log.n_actions, mask, features, n_jobs, _seed_of(self, seed))


class HistTreeClassifier(HistTree):
    """Classification tree over (context, action) pairs: labels ``sign(G)``, weights ``|G|``, Gini gain, leaves -1 or
    +1.

    Parameters are those of `HistTree`; ``min_child_weight`` counts ``|G|``.
    """

    _is_classifier = True


class BoundHistTree:
    """A tree learner that has binned the contexts of its log; made by `HistTree.bind`.

    Attributes
    ----------
    row_order : ndarray of int32 or None
        The log's row at each place of targets and predictions.
    n_always : int
        Columns at the end of the contexts that every node may split, whatever ``colsample`` draws.
    """

    def __init__(
        self,
        settings: HistTree,
        binned: BinnedContext,
        order: RowOrder | None,
        n_actions: int,
        mask: NDArray[np.bool_] | None,
        action_features: NDArray[np.float64],
        n_jobs: int,
        seed: int,
    ) -> None:
        self.settings = settings
        self._binned = binned
        self._place = None if order is None else order.place
        self.row_order = None if order is None else order.row
        self._n_actions = n_actions
        self._action_features = action_features
        self._action_table = action_table_of(action_features)
        self._n_jobs = n_jobs
        self._seed = seed
        self._mask = mask
        self.n_always = 0
        self._known: tuple[NDArray[np.float64], WeightFacts] | None = None
        self._grower = Grower(binned, n_actions, n_jobs, mask=mask, has_count=settings.min_samples_leaf > 1)

    def rebound(self, settings: HistTree, *, seed: int) -> BoundHistTree:
        """Return a learner with other settings on the same bins, in the same order and with the same working memory.

        The two must not fit at the same time.

        Raises
        ------
        ValueError
            The settings need other bins: ``max_bins`` or ``categorical`` differ.
        """
        check_tree_settings(settings)
        for name in ("max_bins", "categorical"):
            own, other_value = getattr(self.settings, name), getattr(settings, name)
            if _as_plain(own) != _as_plain(other_value):
                raise ValueError(
                    f"the contexts were binned with {name}={own!r}; {name}={other_value!r} needs a binding of its own."
                )
        other = copy(self)
        other.settings, other._seed = settings, _seed_of(settings, seed)
        if (settings.min_samples_leaf > 1) != (self.settings.min_samples_leaf > 1):
            has_count = settings.min_samples_leaf > 1
            other._grower = Grower(self._binned, self._n_actions, self._n_jobs, mask=self._mask, has_count=has_count)
        return other

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Fit one tree to a round's gradient and weight; return it with its values on the training contexts."""
        with announced_compilation():
            return self._fit(target, round_idx)

    def _fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        rng_seed = seed_of_round(self._seed, round_idx)
        rows = self._draw_rows(rng_seed)
        # By action: no copy where the objective already wrote column by column. Writeable, or numba compiles anew.
        gradient = np.require(target.gradient.T, np.float64, ["C", "W"])
        weight = np.require(target.weight, np.float64, ["C", "W"])
        step = np.empty((self._n_actions, self._binned.n_samples))
        facts = self._weight_facts(weight)
        least = min_child_weight(self.settings, facts)
        largest = largest_of(gradient) if target.largest is None else target.largest
        grids = grids_of(self.settings, largest, facts, self._binned.n_samples, self._n_actions)
        piece = self._grower.grow_tree(
            gradient,
            weight,
            self._action_table,
            limits_of(self.settings, rng_seed, least, self.n_always, len(self._binned.columns), self._binned.n_samples),
            rows,
            step,
            grids=grids,
            is_classifier=self.settings._is_classifier,
        )
        ints, tree = finish_tree(self.settings, piece, least, self._binned, self._action_features)
        if self.settings.max_leaves is not None or len(rows) < self._binned.n_samples:
            self._grower.apply_tree(ints, tree.value, tree.right_actions, step)
        return FittedStep(HistTreePredictor(tree, self._n_jobs), step.T)

    def _draw_rows(self, seed: int) -> NDArray[np.int32]:
        """Return the places of a round's contexts, ascending; who is drawn does not depend on the order in memory."""
        n_samples, share = self._binned.n_samples, self.settings.subsample
        if share >= 1.0:
            return np.arange(n_samples, dtype=np.int32)
        drawn = draw_samples(n_samples, share, seed)
        places = drawn if self._place is None else self._place[drawn]
        return np.sort(places).astype(np.int32)

    def _weight_facts(self, weight: NDArray[np.float64]) -> WeightFacts:
        """Return what is known of the weights; those of the last round are mostly those of this one."""
        if self._known is None or self._known[0] is not weight:
            self._known = weight, WeightFacts.of(weight)
        return self._known[1]


class PlacedTrees:
    """Trees grown over pieces: the owner's part of `BoundHistTree`.

    Parameters
    ----------
    settings : HistTree
    layout : BinnedContext
        Without rows: what positions mean.
    action_features : ndarray of shape (n_actions, n_action_features)
    n_actions, n_samples : int
    weights : WeightFacts
    n_jobs, seed : int
    has_mask : bool
    """

    def __init__(
        self,
        settings: HistTree,
        layout: BinnedContext,
        action_features: NDArray[np.float64],
        n_actions: int,
        n_samples: int,
        weights: WeightFacts,
        n_jobs: int,
        seed: int,
        *,
        has_mask: bool,
    ) -> None:
        self.settings, self._layout, self._n_samples, self._n_actions = settings, layout, n_samples, n_actions
        self._action_features, self._weights, self._n_jobs = action_features, weights, n_jobs
        self._action_table = action_table_of(action_features)
        self._seed = _seed_of(settings, seed)
        self._has_count = settings.min_samples_leaf > 1
        self.n_always = 0
        self._grower = LevelGrower(layout, n_actions, n_jobs, has_mask=has_mask, has_count=self._has_count)

    def fit(self, run: Callable[[Wave, TreeTask, bool], Answer], largest: float, round_idx: int) -> GrownTable:
        """Grow a tree.

        Parameters
        ----------
        run : callable
            Has the pieces do what a wave asks for; it is told what all waves have in common, and which is the first.
        largest : float
            The largest gradient.
        round_idx : int
        """
        with announced_compilation():
            return self._fit(run, largest, round_idx)

    def _fit(self, run: Callable[[Wave, TreeTask, bool], Answer], largest: float, round_idx: int) -> GrownTable:
        settings, n_samples = self.settings, self._n_samples
        rng_seed = seed_of_round(self._seed, round_idx)
        least = min_child_weight(settings, self._weights)
        grids = grids_of(settings, largest, self._weights, n_samples, self._n_actions)
        drawn, n_rows = None, n_samples
        if settings.subsample < 1.0:
            chosen = draw_samples(n_samples, settings.subsample, rng_seed)
            bits = np.zeros(n_samples, bool)
            bits[chosen] = True
            drawn, n_rows = np.packbits(bits), len(chosen)
        task = TreeTask(grids, settings._is_classifier, self._has_count, drawn)
        waves = iter([True])
        piece = self._grower.grow_tree(
            lambda wave: run(wave, task, next(waves, False)),
            self._action_table,
            limits_of(settings, rng_seed, least, self.n_always, len(self._layout.columns), n_samples),
            n_rows,
            grids=grids,
            is_classifier=settings._is_classifier,
        )
        ints, tree = finish_tree(settings, piece, least, self._layout, self._action_features)
        return GrownTable(ints, tree, HistTreePredictor(tree, self._n_jobs))


@dataclass(frozen=True)
class GrownTable:
    """A tree with its table of nodes over histogram positions."""

    ints: NDArray[np.int64]
    tree: Tree
    predictor: HistTreePredictor


def action_table_of(action_features: NDArray[np.float64]) -> ActionTable:
    """Return the actions in the order of each of their features."""
    ascending = np.argsort(action_features.T, axis=1, kind="stable").astype(np.int32)
    return ActionTable(np.ascontiguousarray(ascending), np.ascontiguousarray(action_features.T))


def seed_of_round(seed: int, round_idx: int) -> int:
    """Return the seed of a round's draws."""
    return int(np.random.SeedSequence([seed, round_idx]).generate_state(1)[0])


def draw_samples(n_samples: int, share: float, seed: int) -> NDArray[np.int64]:
    """Return the samples of a round by their numbers in the log, in no order."""
    n_drawn = max(int(np.ceil(share * n_samples)), 1)
    return np.random.default_rng(seed).permutation(n_samples)[:n_drawn]


def grids_of(
    settings: HistTree, largest: float, weights: WeightFacts, n_samples: int, n_actions: int
) -> tuple[Grid, Grid]:
    """Return the grids of a round; the weights of a classifier are its gradients."""
    grids = make_grids(largest, weights.largest, n_samples, n_actions)
    return (grids[0], grids[0]) if settings._is_classifier else grids


def limits_of(
    settings: HistTree, seed: int, min_child_weight: float, n_always: int, n_features: int, n_samples: int
) -> Limits:
    """Return the settings of the growth."""
    return Limits(
        int(settings.max_depth),
        min_child_weight,
        int(settings.min_samples_leaf),
        float(settings.reg_lambda),
        float(settings.colsample),
        n_always,
        n_features,
        seed,
        max(n_samples // PIECES, MIN_LARGE),
    )


def finish_tree(
    settings: HistTree,
    piece: Piece,
    least: float,
    binned: BinnedContext,
    action_features: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Tree]:
    """Return a grown tree's table of nodes, cut to ``max_leaves``, and the tree over raw contexts."""
    ints, floats = merge_pieces(piece)
    if settings.max_leaves is not None:
        rule = (float(settings.reg_lambda), least, settings._is_classifier)
        ints, floats = keep_best_splits(ints, floats, settings.max_leaves, rule)
    n_actions, n_features = len(action_features), len(binned.columns)
    return ints, make_tree(ints, floats, binned.splits, action_features, n_actions, n_features)


@dataclass(frozen=True)
class WeightFacts:
    """What a round has to know of all weights: the largest, how many are not zero, and their sum."""

    largest: float
    n_positive: int
    total: float

    @classmethod
    def of(cls, weight: NDArray[np.float64]) -> WeightFacts:
        """Return the facts of some weights."""
        return cls(largest_of(weight[None]), int(np.count_nonzero(weight)), exact_sum(weight))


def min_child_weight(settings: HistTree, weights: WeightFacts) -> float:
    """Return the least weight of a child: as it was set, or that of so many typical samples."""
    least = float(settings.min_child_weight)
    if settings.min_leaf_samples > 0.0:  # samples without weight are none
        least = max(least, float(settings.min_leaf_samples) * weights.total / (weights.n_positive or 1))
    return least


def _seed_of(settings: HistTree, seed: int) -> int:
    seeds = np.random.SeedSequence([seed, 0 if settings.random_state is None else settings.random_state])
    return int(seeds.generate_state(1)[0])


def check_tree_settings(settings: HistTree) -> None:
    """Refuse settings outside their range, by name and value."""
    check_number("max_depth", settings.max_depth, low=1, high=1000, integer=True)
    check_number("min_samples_leaf", settings.min_samples_leaf, low=1, integer=True)
    check_number("max_bins", settings.max_bins, low=2, high=MAX_BINS, integer=True)
    for name, low in (("max_leaves", 2), ("n_jobs", 1), ("random_state", 0)):
        if getattr(settings, name) is not None:
            check_number(name, getattr(settings, name), low=low, integer=True)
    for name in ("min_child_weight", "min_leaf_samples", "reg_lambda"):
        check_number(name, getattr(settings, name), low=0.0)
    for name in ("colsample", "subsample"):
        check_number(name, getattr(settings, name), low=0.0, high=1.0, low_open=True)


def _as_plain(setting: Any) -> Any:
    """Return a setting that can be compared: sequences of any kind as lists."""
    return setting if setting is None or isinstance(setting, Integral) else list(setting)


def as_context(context: Any) -> Any:
    """Return contexts as the engine bins them."""
    if sparse.issparse(context):
        return context.tocsr().astype(np.float32)
    return np.asarray(context, np.float32)


def categorical_mask(categorical: Any, n_features: int, names: Sequence[str] | None) -> NDArray[np.bool_]:
    """Return which columns hold categories, after checking that they are there."""
    mask = np.zeros(n_features, bool)
    for column in () if categorical is None else categorical:
        if isinstance(column, str):
            if names is None or column not in names:
                known = "the contexts have no column names" if names is None else f"the columns are {quoted(names)}"
                raise ValueError(f"categorical names column {column!r}; {known}.")
            mask[list(names).index(column)] = True
        elif isinstance(column, Integral) and 0 <= int(column) < n_features:
            mask[int(column)] = True
        else:
            raise ValueError(f"categorical names column {column!r}; the contexts have columns 0 to {n_features - 1}.")
    return mask


def feature_matrix(features: Any, n_actions: int) -> NDArray[np.float64]:
    """Return action features rounded to float32 like thresholds, so that a saved model orders actions the same."""
    if features is None:
        return np.zeros((n_actions, 0))
    return np.ascontiguousarray(np.asarray(features, np.float32), np.float64)
