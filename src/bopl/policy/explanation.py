"""Why a policy scores as it does: contributions of each column and of the action to the scores of pairs.

Trees have SHAP values; functions of the logging policy's probabilities have integrated gradients. A `LoggingTerm` is a
function T_a of the scores s of all actions, and these are sums over columns:

    s_b = base_b + Σ_j c_j(b),    c_j(b) = Σ coef · (input - reference input) over the inputs made of column j

plus SHAP values of the model's trees, if it has any. Along the straight path from the reference, where every c_j is
zero, to the context, column j adds (Sundararajan, Taly and Yan, 2017)

    Σ_b g_b · c_j(b),    g_b = ∫ dT_a/ds_b dt over t in [0, 1]

For a log-probability ``g_b = 1{a = b} - mean pi_0(b)``: the contribution to the action's own score, less its mean under
the logging policy, because of the normaliser. The sum over columns is the change of T_a; the error of the quadrature is
distributed over the columns by the size of their contributions, so that this holds exactly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from bopl._typing import ContextMatrix, FloatArray, IntArray
from bopl.boosting import Ensemble
from bopl.learner.expanded import dense_chunks
from bopl.learner.hist_tree.predictor import zeros_as_missing
from bopl.learner.hist_tree.shap import explain_pairs, quadrature, work_of
from bopl.learner.hist_tree.tree import Tree
from bopl.log.context import is_sparse
from bopl.log.input_layout import InputLayout
from bopl.objective.softmax import log_softmax, softmax
from bopl.policy.summands import Summands, summands_of
from bopl.reward.logging_model import MIN_PROB, LoggingModel, LoggingTerm

N_POINTS = 16  # of the quadrature along the path
MAX_CELLS = 4_000_000  # numbers in one intermediate array


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

    An ensemble of other predictors than trees and the logging policy raises a TypeError.
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


def attribute_term(
    term: LoggingTerm, context: FloatArray, row: IntArray, action_idx: IntArray, *, n_jobs: int = 1
) -> Explanation:
    """Attribute a term of pairs ``(context[row[k]], action_idx[k])`` to the columns and the action.

    The result does not depend on ``n_jobs``, the number of threads.
    """
    model, n_pairs = term.model, len(row)
    base = reference_inputs(model.layout) @ model.coef + model.intercept  # (n_actions,)
    expected = float(_term_at(term, base[None]).mean())
    feature, action = np.zeros((n_pairs, context.shape[1])), np.zeros(n_pairs)
    # In spans: SHAP values of all actions of a pair take n_actions · n_columns numbers at once.
    size = max(MAX_CELLS // _cells_per_pair(model, context.shape[1]), 1)
    for start in range(0, n_pairs, size):
        span = slice(start, min(start + size, n_pairs))
        inside = context[row[span]]
        feature[span], own = _attribute_span(term, inside, action_idx[span], base, n_jobs)
        action[span] = own - expected
    return Explanation(feature, action, expected)


def attribution_work(model: LoggingModel) -> int:
    """Return the approximate number of steps for one pair: the model's trees are explained for every action."""
    n_actions = model.n_actions
    return n_actions * (work_of([one.tree for one in model.trees]) + N_POINTS) + model.layout.n_inputs


def reference_inputs(layout: InputLayout) -> FloatArray:
    """Return the inputs of the reference: numbers at their means, no gaps, no categories; shape (n_inputs,)."""
    inputs = np.zeros(layout.n_inputs)
    inputs[: len(layout.number)] = layout.fill
    return inputs


def column_of_input(layout: InputLayout) -> IntArray:
    """Return which column each input is made of, of shape (n_inputs,)."""
    return np.concatenate([layout.number, layout.gap, np.repeat(layout.category, layout.n_categories)])


def _cells_per_pair(model: LoggingModel, n_features: int) -> int:
    n_actions = model.n_actions
    if not model.trees:
        return max(model.layout.n_inputs, n_features, n_actions)
    return max(model.layout.n_inputs, n_actions * (n_features + n_actions + model.trees[0].tree.n_action_features))


def _attribute_span(
    term: LoggingTerm, context: FloatArray, action_idx: IntArray, base: FloatArray, n_jobs: int
) -> tuple[FloatArray, FloatArray]:
    """Return what the columns add, (n_pairs, n_features), and the term where they add nothing, (n_pairs,)."""
    model, pairs = term.model, np.arange(len(context))
    start, by_tree = np.broadcast_to(base, (len(context), model.n_actions)), None
    if model.trees:
        by_tree, by_action = _explain_model_trees(model, context, n_jobs)
        start = start + by_action
    end = model.score(context)
    slope = _mean_slope(term, start, end, action_idx)
    feature = _add_up_inputs(model, context, slope)
    if by_tree is not None:
        feature += np.einsum("nb,nbj->nj", slope, by_tree)
    at_start, at_end = (_term_at(term, score)[pairs, action_idx] for score in (start, end))
    return _share_out(feature, at_start, at_end - at_start)


def _add_up_inputs(model: LoggingModel, context: FloatArray, slope: FloatArray) -> FloatArray:
    """Return ``Σ_b slope_b · c_j(b)`` of the linear part, of shape (n_pairs, n_features)."""
    layout = model.layout
    inputs = layout(context)
    dense = np.asarray(inputs.toarray() if is_sparse(inputs) else inputs, dtype=np.float64)
    by_input = (dense - reference_inputs(layout)) * (slope @ model.coef.T)  # (n_pairs, n_inputs)
    n_inputs = layout.n_inputs
    gather = csr_array(
        (np.ones(n_inputs), (np.arange(n_inputs), column_of_input(layout))), shape=(n_inputs, context.shape[1])
    )
    return np.asarray(by_input @ gather)


def _explain_model_trees(model: LoggingModel, context: FloatArray, n_jobs: int) -> tuple[FloatArray, FloatArray]:
    """Return SHAP values of the model's trees for all actions, of columns and of the action itself.

    Their shapes are (n_pairs, n_actions, n_features) and (n_pairs, n_actions). The trees' expected value is left out:
    it is the same for all actions and changes no probability.
    """
    n_features, n_actions = context.shape[1], model.n_actions
    distinct, place = _distinct_rows(context)  # pairs of one context with several actions share their values
    contribution, _ = explain_pairs(
        [one.tree for one in model.trees],
        [model.tree_factor] * len(model.trees),
        distinct,
        np.repeat(np.arange(len(distinct)), n_actions),
        np.tile(np.arange(n_actions), len(distinct)),
        n_jobs=n_jobs,
    )
    contribution = contribution.reshape(len(distinct), n_actions, -1)[place]
    return contribution[:, :, :n_features], contribution[:, :, n_features:].sum(axis=2)


def _distinct_rows(context: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct contexts, and the position of each context among them."""
    context = np.ascontiguousarray(context)
    as_bytes = context.view(np.dtype((np.void, context.dtype.itemsize * context.shape[1]))).ravel()
    _, first, place = np.unique(as_bytes, return_index=True, return_inverse=True)
    return context[first], np.asarray(place).reshape(-1)


def _term_at(term: LoggingTerm, score: FloatArray) -> FloatArray:
    """Return the term where the model's scores before the softmax are ``score``."""
    epsilon, log_prob = term.model.epsilon, log_softmax(score)
    if epsilon > 0.0:
        log_prob = np.log((1.0 - epsilon) * np.exp(log_prob) + epsilon / score.shape[1])
    return term.of(np.maximum(log_prob, np.log(MIN_PROB)))


def _mean_slope(term: LoggingTerm, start: FloatArray, end: FloatArray, action_idx: IntArray) -> FloatArray:
    """Return the derivative of the pairs' term in all scores, mean over the path; shape (n_pairs, n_actions)."""
    slope = np.zeros(end.shape)
    for point, weight in zip(*quadrature(2 * N_POINTS), strict=True):
        slope += weight * _slope(term, start + point * (end - start), action_idx)
    return slope


def _slope(term: LoggingTerm, score: FloatArray, action_idx: IntArray) -> FloatArray:
    """Return ``dT_a/ds_b``, of shape (n_pairs, n_actions)."""
    pairs, epsilon = np.arange(len(score)), term.model.epsilon
    action_prob = softmax(score)
    own = action_prob[pairs, action_idx]
    mixed = (1.0 - epsilon) * own + epsilon / score.shape[1]
    by_own = term.log_factor / np.maximum(mixed, MIN_PROB) + term.prob_factor
    gain = np.where(mixed > MIN_PROB, (1.0 - epsilon) * own * by_own, 0.0)
    slope = -gain[:, None] * action_prob
    slope[pairs, action_idx] += gain
    return slope


def _share_out(feature: FloatArray, at_start: FloatArray, change: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return contributions that add up to ``change``; if no column contributes, the action does."""
    size = np.abs(feature)
    total = size.sum(axis=1)
    left = change - feature.sum(axis=1)
    is_shared = total > 0.0
    share = np.divide(left, total, out=np.zeros_like(left), where=is_shared)
    return feature + share[:, None] * size, at_start + np.where(is_shared, 0.0, left)
