"""Why a policy scores as it does: SHAP values of (context, action) pairs."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from bopl._typing import ContextMatrix, FloatArray, IntArray
from bopl.boosting import Ensemble
from bopl.learner.expanded import dense_chunks
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.shap import explain_pairs, work_of
from bopl.learner.hist_tree.tree import Tree


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each context column and the action itself add to the scores of some (context, action) pairs.

    ``expected + feature.sum(axis=1) + action`` is the score before the softmax.

    Attributes
    ----------
    feature : ndarray of shape (n_pairs, n_features)
        SHAP values of the context columns.
    action : ndarray of shape (n_pairs,)
        Those of the action, by its identity and by its features, together.
    expected : float
        Score of a pair of which nothing is known: the mean over training pairs, by their weights.
    """

    feature: FloatArray
    action: FloatArray
    expected: float

    @property
    def score(self) -> FloatArray:
        """The scores that the values add up to, of shape (n_pairs,)."""
        return self.expected + self.feature.sum(axis=1) + self.action


def explain_scores(ensemble: Ensemble, context: ContextMatrix, row: IntArray, action_idx: IntArray) -> Explanation:
    """Return SHAP values of the scores of pairs ``(context[row[k]], action_idx[k])``.

    Raises
    ------
    TypeError
        The rounds are not trees of the engine.
    """
    trees, n_features = engine_trees(ensemble), context.shape[1]
    feature, action, expected = np.zeros((len(row), n_features)), np.zeros(len(row)), 0.0
    for rows, dense in dense_chunks(context):
        here = (row >= rows.start) & (row < rows.stop)
        if not trees or not here.any():
            continue
        contribution, expected = explain_pairs(
            trees,
            ensemble.coefficients,
            dense,
            row[here] - rows.start,
            action_idx[here],
            n_jobs=os.cpu_count() or 1,
        )
        feature[here], action[here] = contribution[:, :n_features], contribution[:, n_features:].sum(axis=1)
    return Explanation(feature, action, expected)


def mean_explanation(parts: Sequence[tuple[Explanation, float]]) -> Explanation:
    """Return the weighted mean of explanations of the same pairs."""
    return Explanation(
        np.asarray(sum(share * one.feature for one, share in parts)),
        np.asarray(sum(share * one.action for one, share in parts)),
        float(sum(share * one.expected for one, share in parts)),
    )


def explanation_work(ensemble: Ensemble) -> int:
    """Return about how many steps it takes to explain one pair."""
    return work_of(engine_trees(ensemble))


def engine_trees(ensemble: Ensemble) -> list[Tree]:
    """Return the trees of an ensemble, those of its start first, or say that they are no trees of the engine."""
    trees = [predictor.tree for predictor in ensemble.predictors if isinstance(predictor, HistTreePredictor)]
    if len(trees) < len(ensemble.predictors):
        raise TypeError(
            "explanations and exports need a policy whose learner is HistTree or HistTreeClassifier, and whose reward "
            "model, if boosting starts from one, is BoostedRewardModel."
        )
    return trees
