"""Why a policy scores as it does: contributions of each column and of the action to the scores of pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bopl._typing import ContextMatrix, FloatArray, IntArray
from bopl.boosting import Ensemble
from bopl.learner.expanded import dense_chunks
from bopl.learner.hist_tree.predictor import zeros_as_missing
from bopl.learner.hist_tree.shap import explain_pairs, work_of
from bopl.learner.hist_tree.tree import Tree
from bopl.policy.logging_attribution import attribute_term, attribution_work
from bopl.policy.summands import Summands, summands_of


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each context column and the action itself add to the scores of some (context, action) pairs.

    ``expected + feature.sum(axis=1) + action`` is the score before the softmax.

    Trees are explained by their SHAP values. If boosting starts from the logging policy, or from a reward model that
    uses it, the part of that model is not a tree and has no such values: it is attributed along the straight path from
    a typical context, with numbers at their means and unknown categories, to the explained context (integrated
    gradients). These values also add up, but they are not Shapley values.

    Attributes
    ----------
    feature : ndarray of shape (n_pairs, n_features)
        Contributions of the context columns.
    action : ndarray of shape (n_pairs,)
        Contribution of the action, by its identity and its features together.
    expected : float
        Score of an unknown pair: for the trees the weighted mean over training pairs, and
        for the logging policy's part the mean over the actions in the typical context.
    """

    feature: FloatArray
    action: FloatArray
    expected: float

    @property
    def score(self) -> FloatArray:
        """The scores that the values add up to, of shape (n_pairs,)."""
        return self.expected + self.feature.sum(axis=1) + self.action


def explain_scores(ensemble: Ensemble, context: ContextMatrix, row: IntArray, action_idx: IntArray) -> Explanation:
    """Explain the scores of pairs ``(context[row[k]], action_idx[k])``.

    Raises
    ------
    TypeError
        The ensemble holds other predictors than trees and the logging policy.
    """
    summands = summands_of(ensemble)
    feature, action, expected = np.zeros((len(row), context.shape[1])), np.zeros(len(row)), 0.0
    # Explanations read every column of a context; a sparse one is made dense a few thousand rows at a time.
    for rows, dense in dense_chunks(context):
        here = (row >= rows.start) & (row < rows.stop)
        if not here.any():
            continue
        found = _explain_dense(summands, dense, row[here] - rows.start, action_idx[here])
        feature[here], action[here], expected = found.feature, found.action, found.expected
    if not (np.isfinite(expected) and np.isfinite(action).all() and np.isfinite(feature).all()):
        raise ValueError("the scores cannot be explained: their summands are too large.")
    return Explanation(feature, action, expected)


def _explain_dense(summands: Summands, context: FloatArray, row: IntArray, action_idx: IntArray) -> Explanation:
    n_features, n_jobs = context.shape[1], os.cpu_count() or 1
    feature, action, expected = np.zeros((len(row), n_features)), np.zeros(len(row)), 0.0
    for trees, coefficients, known in (
        (summands.trees, summands.coefficients, context),
        (summands.sparse_trees, summands.sparse_coefficients, zeros_as_missing(context)),
    ):
        if trees:
            _check_weights(trees)
            contribution, mean = explain_pairs(trees, coefficients, known, row, action_idx, n_jobs=n_jobs)
            feature += contribution[:, :n_features]
            action += contribution[:, n_features:].sum(axis=1)
            expected += mean
    for term in summands.terms:
        own = attribute_term(term, context, row, action_idx, n_jobs=n_jobs)
        feature += own.feature
        action += own.action
        expected += own.expected
    return Explanation(feature, action, expected)


def _check_weights(trees: Sequence[Tree]) -> None:
    if any(tree.n_nodes > 1 and tree.sum_weight[0] == 0.0 for tree in trees):
        raise ValueError(
            "the policy's file was written by an earlier version, which did not keep the weights of nodes that "
            "explanations need; fit the policy again."
        )


def mean_explanation(parts: Sequence[tuple[Explanation, float]]) -> Explanation:
    """Return the weighted mean of explanations of the same pairs."""
    return Explanation(
        np.asarray(sum(share * one.feature for one, share in parts)),
        np.asarray(sum(share * one.action for one, share in parts)),
        float(sum(share * one.expected for one, share in parts)),
    )


def explanation_work(ensemble: Ensemble) -> int:
    """Return the approximate number of steps to explain one pair."""
    summands = summands_of(ensemble)
    return work_of([*summands.trees, *summands.sparse_trees]) + sum(
        attribution_work(term.model) for term in summands.terms
    )
