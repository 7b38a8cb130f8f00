"""``HistTree`` and ``HistTreeClassifier``: settings, checks, and the binding to one log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from bopl._settings import check_number
from bopl.learner.base import FittedStep
from bopl.learner.hist_tree.binning import MAX_BINS, fit_columns
from bopl.learner.hist_tree.compilation import announced_compilation
from bopl.learner.hist_tree.fit import Grower, find_order
from bopl.learner.hist_tree.grow import ActionTable, Limits
from bopl.learner.hist_tree.locality import RowOrder, store_in_order
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.prune import keep_best_splits
from bopl.learner.hist_tree.storage import BinnedContext, bin_context
from bopl.learner.hist_tree.tree import make_tree, merge_pieces
from bopl.log.context import quoted
from bopl.objective.base import StepTarget

MIN_LARGE = 4096  # smaller problems are not worth handing to another thread
PIECES = 16  # ... nor are those below this part of the contexts


class HistTree(BaseEstimator):
    """Regression tree over (context, action) pairs, fitted without building their matrix.

    The leaf value is ``sum(G) / (sum(w) + reg_lambda)`` and a split gains
    ``GL^2 / (WL + reg_lambda) + GR^2 / (WR + reg_lambda) - GP^2 / (WP + reg_lambda)``, as in XGBoost.

    Parameters
    ----------
    max_depth : int, default=8
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
        _check_settings(self)
        context = _as_context(log.context)
        categorical = _categorical_mask(self.categorical, context.shape[1], getattr(log, "feature_names", None))
        n_jobs = (os.cpu_count() or 1) if self.n_jobs is None else self.n_jobs
        with announced_compilation():
            columns = fit_columns(context, self.max_bins, categorical, n_actions=log.n_actions)
            binned = bin_context(context, columns)
            order = find_order(binned, log.reward, n_jobs)
            binned = binned if order is None else store_in_order(binned, order)
        mask = log.action_mask if order is None or log.action_mask is None else log.action_mask[order.row]
        features = _feature_matrix(log.action_features, log.n_actions)
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
        ascending = np.argsort(action_features.T, axis=1, kind="stable").astype(np.int32)
        self._action_table = ActionTable(np.ascontiguousarray(ascending), np.ascontiguousarray(action_features.T))
        self._n_jobs = n_jobs
        self._seed = seed
        self._mask = mask
        self.n_always = 0
        self._grower = Grower(binned, n_actions, n_jobs, mask=mask, has_count=settings.min_samples_leaf > 1)

    def rebound(self, settings: HistTree, *, seed: int) -> BoundHistTree:
        """Return a learner with other settings on the same bins, in the same order and with the same working memory.

        The two must not fit at the same time.

        Raises
        ------
        ValueError
            The settings need other bins: ``max_bins`` or ``categorical`` differ.
        """
        _check_settings(settings)
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
        rng_seed = int(np.random.SeedSequence([self._seed, round_idx]).generate_state(1)[0])
        rows = self._draw_rows(rng_seed)
        # By action: no copy where the objective already wrote column by column. Writeable, or numba compiles anew.
        gradient = np.require(target.gradient.T, np.float64, ["C", "W"])
        weight = np.require(target.weight, np.float64, ["C", "W"])
        step = np.empty((self._n_actions, self._binned.n_samples))
        least = self._min_child_weight(weight)
        piece = self._grower.grow_tree(
            gradient,
            weight,
            self._action_table,
            self._limits(rng_seed, least),
            rows,
            step,
            is_classifier=self.settings._is_classifier,
        )
        ints, floats = merge_pieces(piece)
        if self.settings.max_leaves is not None:
            ints, floats = keep_best_splits(ints, floats, self.settings.max_leaves, self._leaf_rule(least))
        n_features = len(self._binned.columns)
        tree = make_tree(ints, floats, self._binned.splits, self._action_features, self._n_actions, n_features)
        if self.settings.max_leaves is not None or len(rows) < self._binned.n_samples:
            self._grower.apply_tree(ints, tree.value, tree.right_actions, step)
        return FittedStep(HistTreePredictor(tree, self._n_jobs), step.T)

    def _draw_rows(self, seed: int) -> NDArray[np.int32]:
        """Return the places of a round's contexts, ascending; who is drawn does not depend on the order in memory."""
        n_samples, share = self._binned.n_samples, self.settings.subsample
        if share >= 1.0:
            return np.arange(n_samples, dtype=np.int32)
        n_drawn = max(int(np.ceil(share * n_samples)), 1)
        drawn = np.random.default_rng(seed).permutation(n_samples)[:n_drawn]
        places = drawn if self._place is None else self._place[drawn]
        return np.sort(places).astype(np.int32)

    def _min_child_weight(self, weight: NDArray[np.float64]) -> float:
        """Return the least weight of a child: as it was set, or that of so many typical samples."""
        settings = self.settings
        least = float(settings.min_child_weight)
        if settings.min_leaf_samples > 0.0:
            counted = int(np.count_nonzero(weight)) or 1  # samples without weight are none
            least = max(least, float(settings.min_leaf_samples) * float(weight.sum()) / counted)
        return least

    def _leaf_rule(self, min_child_weight: float) -> tuple[float, float, bool]:
        return float(self.settings.reg_lambda), min_child_weight, self.settings._is_classifier

    def _limits(self, seed: int, min_child_weight: float) -> Limits:
        settings = self.settings
        return Limits(
            int(settings.max_depth),
            min_child_weight,
            int(settings.min_samples_leaf),
            float(settings.reg_lambda),
            float(settings.colsample),
            self.n_always,
            len(self._binned.columns),
            seed,
            max(self._binned.n_samples // PIECES, MIN_LARGE),
        )


def _seed_of(settings: HistTree, seed: int) -> int:
    seeds = np.random.SeedSequence([seed, 0 if settings.random_state is None else settings.random_state])
    return int(seeds.generate_state(1)[0])


def _check_settings(settings: HistTree) -> None:
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


def _as_context(context: Any) -> Any:
    if sparse.issparse(context):
        return context.tocsr().astype(np.float32)
    return np.asarray(context, np.float32)


def _categorical_mask(categorical: Any, n_features: int, names: Sequence[str] | None) -> NDArray[np.bool_]:
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


def _feature_matrix(features: Any, n_actions: int) -> NDArray[np.float64]:
    """Return action features rounded to float32 like thresholds, so that a saved model orders actions the same."""
    if features is None:
        return np.zeros((n_actions, 0))
    return np.ascontiguousarray(np.asarray(features, np.float32), np.float64)
