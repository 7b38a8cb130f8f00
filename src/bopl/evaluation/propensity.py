"""Propensities for a log that has none: a cross-fitted, calibrated multinomial model of the logging policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl._settings import check_number
from bopl._typing import ContextMatrix, FloatArray
from bopl.log import BanditLog
from bopl.log.context import CONTEXT_DTYPE, is_sparse
from bopl.objective.softmax import softmax
from bopl.reward.folds import draw_folds

LEAST_PROB = 1e-6  # of an action that could be chosen: a fold may never have seen it
MANY_ACTIONS = 30  # beyond, boosting one tree per action and iteration takes too long


def estimate_propensity(
    log: BanditLog, *, model: Any = None, n_folds: int = 5, random_state: int | None = 0
) -> BanditLog:
    """Return the log with estimated propensities; every evaluation on it says that it rests on estimates.

    Each sample's propensity comes from a classifier of the action given the context, and which actions were offered,
    that was fitted on the other folds. Its probabilities are then sharpened or flattened, ``p^(1/T)`` normalised, by
    the temperature T that maximises the likelihood of the samples outside the fold (temperature scaling, Guo et al.,
    2017). An estimate can be no better than what the context holds: what the logging policy saw beyond it, no model can
    know.

    Parameters
    ----------
    log : BanditLog
    model : scikit-learn classifier, optional
        Anything with ``predict_proba``. By default boosted trees, or a ridge-penalised logistic regression if there are
        more than 30 actions or the contexts are sparse.
    n_folds : int, default=5
        Samples of one group share a fold.
    random_state : int, optional
    """
    action_prob = estimate_logging_prob(log, model=model, n_folds=n_folds, random_state=random_state)
    logged = action_prob[np.arange(log.n_samples), log.action_idx]
    return log.with_propensity(logged, source="estimated")


def estimate_logging_prob(log: BanditLog, *, model: Any, n_folds: int, random_state: int | None) -> FloatArray:
    """Return the cross-fitted, calibrated probabilities of all actions, of shape (n_samples, n_actions)."""
    check_number("n_folds", n_folds, low=2, integer=True)
    seed = 0 if random_state is None else random_state
    fold = draw_folds(log, n_folds, seed)
    context = _with_mask_columns(log)
    log_prob = np.empty((log.n_samples, log.n_actions))
    for number in range(int(fold.max()) + 1):
        held_out = fold == number
        log_prob[held_out] = _fit_log_prob(model, log, context, ~held_out, held_out, seed)
    if log.action_mask is not None:
        log_prob = np.where(log.action_mask, log_prob, -np.inf)
    action_prob = np.empty_like(log_prob)
    for number in range(int(fold.max()) + 1):
        held_out = fold == number
        sharpness = _best_sharpness(log_prob[~held_out], log.action_idx[~held_out])
        action_prob[held_out] = softmax(log_prob[held_out], inverse_temperature=sharpness)
    return _within_mask(action_prob, log)


def _with_mask_columns(log: BanditLog) -> ContextMatrix:
    """Return the contexts, with a column for every action that is not always offered: the logging policy saw that."""
    mask = log.action_mask
    if mask is None or mask.all():
        return log.context
    columns = mask[:, mask.any(axis=0) & ~mask.all(axis=0)].astype(CONTEXT_DTYPE)
    if is_sparse(log.context):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([log.context, csr_array(columns)], format="csr"))
    return np.hstack([log.context, columns])


def _fit_log_prob(
    model: Any, log: BanditLog, context: ContextMatrix, train: Any, held_out: Any, seed: int
) -> FloatArray:
    from sklearn.base import clone

    classifier = _default_classifier(log, seed) if model is None else clone(model)
    action_idx = log.action_idx[train]
    if len(np.unique(action_idx)) < 2:
        raise ValueError(
            "the propensities cannot be estimated: a fold without its held-out part has one action only. Use fewer "
            "folds or a log in which actions vary."
        )
    classifier.fit(context[train], action_idx)
    predicted = classifier.predict_proba(context[held_out])
    action_prob = np.full((len(predicted), log.n_actions), LEAST_PROB)
    action_prob[:, classifier.classes_] = np.maximum(predicted, LEAST_PROB)
    return np.log(action_prob)


def _default_classifier(log: BanditLog, seed: int) -> Any:
    if log.n_actions <= MANY_ACTIONS and not is_sparse(log.context):
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed, l2_regularization=1.0
        )
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    steps = [MaxAbsScaler(), LogisticRegression(max_iter=500)]
    return make_pipeline(*([] if is_sparse(log.context) else [SimpleImputer()]), *steps)


def _best_sharpness(log_prob: FloatArray, action_idx: Any) -> float:
    """Return the inverse temperature under which the logged actions are most likely."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    logged = log_prob[np.arange(len(log_prob)), action_idx]

    def loss(log_sharpness: float) -> float:
        sharpness = np.exp(log_sharpness)
        return float((logsumexp(sharpness * log_prob, axis=1) - sharpness * logged).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def _within_mask(action_prob: FloatArray, log: BanditLog) -> FloatArray:
    eligible = np.maximum(action_prob, LEAST_PROB)
    if log.action_mask is not None:
        eligible = np.where(log.action_mask, eligible, 0.0)
    return eligible / eligible.sum(axis=1, keepdims=True)
