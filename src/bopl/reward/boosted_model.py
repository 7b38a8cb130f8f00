"""Boosted reward regression: gradient boosting of least-squares trees on the logged rewards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from bopl._errors import shortened
from bopl._exact import exact_mean
from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner import HistTree, with_categories
from bopl.learner.hist_tree.bound import BoundHistTree
from bopl.learner.hist_tree.predict import FlatEnsemble
from bopl.learner.hist_tree.predictor import HistTreePredictor, stack_trees
from bopl.learner.hist_tree.tree import ACTION_SPLIT, WORD_BITS, Tree, n_words
from bopl.learner.store import MIN_PARALLEL_ROWS
from bopl.log import BanditLog
from bopl.log.context import read_context, with_columns
from bopl.log.row_sketch import RowSketch
from bopl.objective import StepTarget

MAX_KEPT = 200_000  # with more samples, logged pairs are binned again for every model: they take much memory


@dataclass(frozen=True)
class _LoggedPairs:
    """The logged pairs as a log for the learner: the action is one more column, and there is one output."""

    context: ContextMatrix
    reward: FloatArray
    n_actions: int = 1
    action_mask: None = None
    action_features: None = None


class BoostedRewardModel(BaseEstimator):
    """Estimate of ``E[r | x, a]`` by boosted regression trees, with the native engine.

    The logged action is one more column with one-against-the-rest splits, so that a fit costs one pass per sample,
    not one per sample and action; the fitted trees score all actions in one traversal.

    Parameters
    ----------
    learner : HistTree, optional
        By default trees of depth 6 with at least 20 samples in a leaf.
    n_rounds : int, default=100
        Number of trees.
    learning_rate : float in (0, 2], default=0.1
        Share of each tree that is added; above 1 the fit overshoots, above 2 it would diverge.
    random_state : int, optional
        Seed of drawn columns and samples.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    initial_ : float
        Mean reward, from which boosting starts.
    predictors_ : tuple of HistTreePredictor
        One tree per round, for all actions; each is multiplied by ``learning_rate``.
    trees_ : FlatEnsemble
        The same trees, arranged for scoring.
    training_rows_ : RowSketch
        Sketch of the rows it was fitted on: an evaluation refuses a model that has seen its rows.

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

    def fit(
        self, log: BanditLog, *, sample_weight: FloatArray | None = None, pairs: BoundPairs | None = None
    ) -> BoostedRewardModel:
        """Fit the model to the rewards of the logged actions; ``pairs`` are shared with other fits on the log."""
        weight = np.ones(log.n_samples) if sample_weight is None else sample_weight
        learner = self.learner_for(log)
        binding = (BoundPairs() if pairs is None else pairs).of(log, learner)
        run = binding.boost(self, weight, seed=self.random_state or 0, learner=learner)
        for _ in range(self.n_rounds):
            run.add_round()
        return self.take(run, log)

    def take(
        self, run: RewardRun, log: BanditLog, n_rounds: int | None = None, training_rows: RowSketch | None = None
    ) -> BoostedRewardModel:
        """Use what a run has learned: its first rounds, or all of them; pass ``training_rows`` if known."""
        self.take_trees(run.trees, run.initial, log, n_rounds)
        self.training_rows_ = RowSketch.of(log) if training_rows is None else training_rows
        return self

    def take_trees(
        self, grown: list[Tree], initial: float, log: BanditLog, n_rounds: int | None = None
    ) -> BoostedRewardModel:
        """Use trees over ``[x, a]``, the first of them or all; only what all samples share is read from the log."""
        width = 0 if log.action_features is None else log.action_features.shape[1]
        trees = [HistTreePredictor(score_all_actions(tree, log.n_actions, width)) for tree in grown[:n_rounds]]
        return self.adopt(log, initial, trees)

    def adopt(self, log: BanditLog, initial: float, trees: Sequence[HistTreePredictor]) -> BoostedRewardModel:
        """Use trees that were fitted to a log."""
        self.actions_, self.n_features_in_, self.initial_ = log.actions, log.n_features, initial
        self.feature_names_in_, self.schema_ = log.feature_names, log.schema
        self.predictors_ = tuple(trees)
        self.trees_: FlatEnsemble | None = (
            stack_trees(trees, np.full(len(trees), self.learning_rate).tolist()) if trees else None
        )
        return self

    def check_settings(self) -> None:
        """Refuse settings outside their range, by name and value."""
        if self.learner is not None and not isinstance(self.learner, HistTree):
            raise TypeError(f"learner must be a HistTree, or None for the default; got {shortened(self.learner)}.")
        check_number("n_rounds", self.n_rounds, low=1, integer=True)
        check_number("learning_rate", self.learning_rate, low=0.0, high=2.0, low_open=True)

    def predict(self, context: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return the expected reward of every action, of shape (n_samples, n_actions); on all processors by default."""
        check_is_fitted(self)
        matrix, _ = read_context(context)
        n_threads = (n_jobs or os.cpu_count() or 1) if matrix.shape[0] >= MIN_PARALLEL_ROWS else 1
        if self.trees_ is None:
            return np.full((matrix.shape[0], len(self.actions_)), self.initial_)
        return self.initial_ + self.trees_.score(matrix, n_jobs=n_threads)

    def learner_for(self, log: BanditLog) -> HistTree:
        """Return the learner of a log's pairs: the action is one more column, of categories."""
        learner = with_categories(default_reward_learner() if self.learner is None else clone(self.learner), log)
        if log.n_actions > learner.max_bins:
            raise ValueError(
                f"BoostedRewardModel needs a bin for every action: {log.n_actions} actions need max_bins of at least "
                f"{log.n_actions}, but it is {learner.max_bins} (the maximum is 256). Use objective 'ips' or "
                "'surrogate', which need no reward model, or merge similar actions."
            )
        learner.categorical = [*(learner.categorical or []), log.n_features]
        return learner


class RewardBinding:
    """The logged pairs of a log, binned once for models of several folds and settings.

    ``learner`` is that of `BoostedRewardModel.learner_for`; its bins serve all models.
    """

    def __init__(self, log: BanditLog, learner: HistTree) -> None:
        pairs = _LoggedPairs(with_action_column(log.context, log.action_idx), log.reward)
        self._bound = learner.bind(pairs, seed=0)
        self._bound.n_always = 1  # the action can always be split, as in a tree over contexts and actions
        order = self._bound.row_order
        self.order = np.arange(log.n_samples) if order is None else order
        self._reward = log.reward[self.order]

    def with_reward(self, reward: FloatArray) -> RewardBinding:
        """Return the same pairs with other rewards, given in the order of the log."""
        other = copy(self)
        other._reward = reward[self.order]
        return other

    def boost(
        self, model: BoostedRewardModel, weight: FloatArray, *, seed: int, learner: HistTree | None = None
    ) -> RewardRun:
        """Return a run without rounds.

        The model gives its settings; ``weight``, of shape (n_samples,), is in the order of the log, and samples with
        weight zero are not used. ``learner`` has other settings of the trees than those that the pairs were bound with.
        """
        model.check_settings()
        bound = self._bound.rebound(learner or self._bound.settings, seed=seed)
        return RewardRun(bound, self._reward, weight[self.order], model.learning_rate)

    def serves(self, learner: HistTree) -> bool:
        """Return whether trees with these settings can be boosted on these bins."""
        return self._bound.serves(learner)


class BoundPairs:
    """The logged pairs of logs, binned once for all models while a log is in memory."""

    def __init__(self) -> None:
        self._bound = WeakKeyDictionary[BanditLog, list[RewardBinding]]()

    def of(self, log: BanditLog, learner: HistTree) -> RewardBinding:
        """Return the pairs of a log; ``learner`` is that of `BoostedRewardModel.learner_for`."""
        known = self._bound.setdefault(log, [])
        found = next((one for one in known if one.serves(learner)), None)
        if found is None:
            found = RewardBinding(log, learner)
            known += [found] if log.n_samples <= MAX_KEPT else []
        return found


class RewardRun:
    """Least-squares boosting of the rewards of some samples, round by round.

    ``initial`` is the mean reward of the training samples; ``trees`` are over ``[x, a]``. ``residual``, of shape
    (n_samples,), is reward minus prediction, also of samples that are not used, in the learner's order.
    """

    def __init__(self, bound: BoundHistTree, reward: FloatArray, weight: FloatArray, learning_rate: float) -> None:
        self._bound, self._weight, self._learning_rate = bound, weight, learning_rate
        self.initial = exact_mean(reward, weight)
        self.residual = reward - self.initial
        self.trees: list[Tree] = []

    def add_round(self) -> None:
        """Fit one more tree to the residuals."""
        # Least squares: the gradient of w·(r - q)²/2 is w·residual, its second derivative w. A leaf is then the
        # weighted mean of its residuals, and samples of weight zero are predicted without being fitted.
        target = StepTarget((self._weight * self.residual)[:, None], self._weight)
        fitted = self._bound.fit(target, len(self.trees))
        self.residual -= self._learning_rate * fitted.prediction[:, 0]
        assert isinstance(fitted.predictor, HistTreePredictor)
        self.trees.append(fitted.predictor.tree)


def default_reward_learner() -> HistTree:
    """Return the default learner of a reward model."""
    return HistTree(max_depth=6, min_child_weight=20.0)


def with_action_column(context: ContextMatrix, action_idx: AnyArray) -> ContextMatrix:
    """Return contexts with the action as one more column."""
    return with_columns(context, action_idx.astype(np.float32)[:, None])


def score_all_actions(tree: Tree, n_actions: int, n_action_features: int = 0) -> Tree:
    """Return a tree over ``[x, a]`` as a tree over x that scores all actions: splits on a become action splits."""
    # The action is a category, so its splits are "equal to a" against the rest: the very form of the engine's splits by
    # identity. Other nodes stay as they are.
    at = tree.feature == tree.n_features - 1
    action = np.where(at, tree.threshold, -1.0).astype(np.int32)
    right_actions = np.zeros((tree.n_nodes, n_words(n_actions)), dtype=np.uint64)
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
        n_action_features=n_action_features,
    )
