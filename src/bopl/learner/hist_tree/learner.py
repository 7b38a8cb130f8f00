"""``HistTree`` and ``HistTreeClassifier``: settings, and the binding to one log."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import BaseEstimator

from bopl.learner.hist_tree.binning import fit_columns
from bopl.learner.hist_tree.bound import BoundHistTree
from bopl.learner.hist_tree.codes import bin_context
from bopl.learner.hist_tree.engine import EngineRows
from bopl.learner.hist_tree.inputs import as_context, categorical_mask, check_tree_settings, feature_matrix
from bopl.learner.hist_tree.locality import find_order
from bopl.learner.hist_tree.rounds import announced_compilation
from bopl.learner.hist_tree.rows import take_rows


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
        Minimum sum of weights of a child.
    min_leaf_samples : float, default=0.0
        Minimum weight of a child in typical samples: a multiple of the mean weight of a sample. Unlike
        ``min_child_weight`` it means the same for every objective, reward translation and scale of the propensities.
    min_samples_leaf : int, default=1
        Minimum number of eligible (context, action) pairs of a child.
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

    @property
    def n_threads(self) -> int:
        """The number of threads: ``n_jobs``, or all processors."""
        return (os.cpu_count() or 1) if self.n_jobs is None else self.n_jobs

    def bind(self, log: Any, *, seed: int) -> BoundHistTree:
        """Check the settings, bin the log's contexts once, and return the learner of its rounds."""
        check_tree_settings(self)
        context = as_context(log.context)
        categorical = categorical_mask(self.categorical, context.shape[1], getattr(log, "feature_names", None))
        n_jobs = self.n_threads
        with announced_compilation():
            columns = fit_columns(context, self.max_bins, categorical, n_actions=log.n_actions)
            binned = bin_context(context, columns)
            # Contexts are stored in another order than the log's; ``row_order`` tells the loop, which keeps scores and
            # outcomes in that order, too, so that nothing is copied between rounds.
            order = find_order(binned, log.reward, n_jobs)
            binned = binned if order is None else take_rows(binned, order.row)
        mask = log.action_mask if order is None or log.action_mask is None else log.action_mask[order.row]
        features = feature_matrix(log.action_features, log.n_actions)
        place = None if order is None else order.place
        rows = EngineRows(binned, binned.n_samples, log.n_actions, mask is not None, mask, place)
        return BoundHistTree(self, rows, features, n_jobs, seed, None if order is None else order.row)


class HistTreeClassifier(HistTree):
    """Classification tree over (context, action) pairs: labels ``sign(G)``, weights ``|G|``, Gini gain, leaves -1 or
    +1.

    Parameters are those of `HistTree`; ``min_child_weight`` counts ``|G|``.
    """

    _is_classifier = True
