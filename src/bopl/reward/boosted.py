"""Boosted reward regression: gradient boosting of least-squares trees on the logged rewards."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner import HistTree, row_order, with_categories
from bopl.learner.hist_tree.predict import FlatEnsemble
from bopl.learner.hist_tree.predictor import HistTreePredictor, stack_trees
from bopl.learner.hist_tree.tree import ACTION_SPLIT, WORD_BITS, Tree
from bopl.learner.store import MIN_PARALLEL_ROWS
from bopl.log import BanditLog
from bopl.log.context import is_sparse, read_context
from bopl.log.row_sketch import RowSketch
from bopl.objective import StepTarget


@dataclass(frozen=True)
class _LoggedPairs:
    """The logged pairs as a learner sees a log: the action is one more column, and there is one output."""

    context: ContextMatrix
    reward: FloatArray
    n_actions: int = 1
    action_mask: None = None
    action_features: None = None


class BoostedRewardModel(BaseEstimator):
    """Estimate of ``E[r | x, a]`` by boosted regression trees, with the native engine.

    The logged action is one more column whose splits are one against the rest, so that a fit costs one pass per sample,
    not one per sample and action; the fitted trees score all actions in one walk.

    Parameters
    ----------
    learner : HistTree, optional
        By default trees of depth 6 with at least 20 samples in a leaf.
    n_rounds : int, default=100
    learning_rate : float in (0, 2], default=0.1
        Share of each tree that is added; above 1 the fit overshoots, above 2 it would diverge.
    random_state : int, optional

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    initial_ : float
        Mean reward, where boosting starts.
    predictors_ : tuple of HistTreePredictor
        One tree per round, for all actions; each counts ``learning_rate``.
    trees_ : FlatEnsemble
        The same trees, laid out for scoring.
    training_rows_ : RowSketch
        Of the rows it was fitted on: an evaluation refuses a model that has seen its rows.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(400, 2)), rng.integers(0, 3, size=400)
    >>> log = bopl.BanditLog(context, action, action * (context[:, 0] > 0), np.full(400, 1 / 3))
    >>> model = bopl.BoostedRewardModel().fit(log)
    >>> model.predict([[1.0, 0.0], [-1.0, 0.0]]).round(1).tolist()
    [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        learner: HistTree | None = None,
        n_rounds: int = 100,
        learning_rate: float = 0.1,
        random_state: int | None = None,
    ) -> None:
        self.learner = learner
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, log: BanditLog) -> BoostedRewardModel:
        """Fit the model to the rewards of the logged actions."""
        check_number("n_rounds", self.n_rounds, low=1, integer=True)
        check_number("learning_rate", self.learning_rate, low=0.0, high=2.0, low_open=True)
        pairs = _LoggedPairs(_with_action_column(log.context, log.action_idx), log.reward)
        bound = self._learner(log).bind(pairs, seed=self.random_state or 0)
        ones = np.ones(log.n_samples)
        self.actions_, self.n_features_in_, self.initial_ = log.actions, log.n_features, float(log.reward.mean())
        order = row_order(bound)
        residual = (log.reward if order is None else log.reward[order]) - self.initial_
        trees = []
        for round_idx in range(self.n_rounds):
            target = StepTarget(residual[:, None], ones, ones, ones)
            fitted = bound.fit(target, round_idx)
            residual = residual - self.learning_rate * fitted.prediction[:, 0]
            assert isinstance(fitted.predictor, HistTreePredictor)
            trees.append(HistTreePredictor(score_all_actions(fitted.predictor.tree, log.n_actions)))
        self.predictors_ = tuple(trees)
        self.trees_: FlatEnsemble = stack_trees(trees, np.full(len(trees), self.learning_rate).tolist())
        self.training_rows_ = RowSketch.of(log)
        return self

    def predict(self, context: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the expected reward of every action, of shape (n_samples, n_actions); on all processors by default."""
        check_is_fitted(self)
        matrix, _ = read_context(context)
        n_threads = (n_jobs or os.cpu_count() or 1) if matrix.shape[0] >= MIN_PARALLEL_ROWS else 1
        return self.initial_ + self.trees_.score(matrix, n_jobs=n_threads)

    def _learner(self, log: BanditLog) -> HistTree:
        learner = with_categories(default_reward_learner() if self.learner is None else clone(self.learner), log)
        if log.n_actions > learner.max_bins:
            raise ValueError(
                f"BoostedRewardModel puts every action into a bin of its own: {log.n_actions} actions need max_bins "
                f"of at least that; it is {learner.max_bins}, and 256 is the most."
            )
        learner.categorical = [*(learner.categorical or []), log.n_features]
        return learner


def default_reward_learner() -> HistTree:
    """Return the learner of a reward model for which none is given."""
    return HistTree(max_depth=6, min_samples_leaf=20)


def _with_action_column(context: ContextMatrix, action_idx: AnyArray) -> ContextMatrix:
    column = action_idx.astype(np.float32)[:, None]
    if is_sparse(context):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([context, csr_array(column)], format="csr"))
    return np.hstack([context, column])


def score_all_actions(tree: Tree, n_actions: int) -> Tree:
    """Return a tree over ``[x, a]`` as one over x that scores all actions: splits on column a become action splits."""
    at = tree.feature == tree.n_features - 1
    action = np.where(at, tree.threshold, -1.0).astype(np.int32)
    right_actions = np.zeros((tree.n_nodes, -(-n_actions // WORD_BITS)), dtype=np.uint64)
    nodes = np.flatnonzero(at)
    word, bit = np.divmod(action[nodes], WORD_BITS)
    right_actions[nodes, word] = np.uint64(1) << bit.astype(np.uint64)
    return replace(
        tree,
        feature=np.where(at, ACTION_SPLIT, tree.feature).astype(np.int32),
        threshold=np.where(at, 0.0, tree.threshold).astype(np.float32),
        is_equal=tree.is_equal & ~at,
        action=action,
        right_actions=right_actions,
        n_actions=n_actions,
        n_features=tree.n_features - 1,
    )
