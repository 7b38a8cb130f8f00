"""Reward predictions that have not seen their samples: cross-fitted, given, or from a model fitted elsewhere."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._policy_reader import check_contexts, fits_in_memory, row_blocks
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.learner.expanded import action_columns, predict_expanded
from bopl.log import BanditLog
from bopl.log.context import is_sparse, with_columns
from bopl.log.row_sketch import RowSketch
from bopl.reward.boosted_model import BoostedRewardModel
from bopl.reward.folds import draw_folds

EXPANDED_BYTES = 1 << 28  # of the rows [x; onehot(a)] that a regressor gets at a time


@dataclass(frozen=True)
class RewardPredictor:
    """Predicted rewards of all actions on the rows of a log."""

    log: BanditLog
    models: tuple[Any, ...] = ()  # ``predict`` takes contexts to (n_rows, n_actions)
    fold: IntArray | None = None  # (n_samples,): which model predicts a row; if None, the first one predicts all
    given: FloatArray | None = None  # (n_samples, n_actions): predictions given by the caller

    def kept(self) -> RewardPredictor:
        """Return the same predictions, made now if they are few enough to keep."""
        log = self.log
        if self.given is not None or not fits_in_memory(log):
            return self
        given = np.empty((log.n_samples, log.n_actions))
        for rows in row_blocks(log.n_samples, log.n_actions):
            given[rows] = self.block(rows)
        return RewardPredictor(log, given=given)

    def block(self, rows: slice) -> FloatArray:
        """Return the predictions on some rows, of shape (n_rows, n_actions)."""
        if self.given is not None:
            return self.given[rows]
        context = self.log.context[rows]
        if self.fold is None:
            return self._predicted(0, context)
        reward_hat = np.empty((rows.stop - rows.start, self.log.n_actions))
        for number in range(len(self.models)):
            own = np.flatnonzero(self.fold[rows] == number)
            if len(own):
                reward_hat[own] = self._predicted(number, context[own])
        return reward_hat

    def _predicted(self, number: int, context: ContextMatrix) -> FloatArray:
        reward_hat = np.asarray(self.models[number].predict(context), dtype=np.float64)
        expected = (context.shape[0], self.log.n_actions)
        if reward_hat.shape != expected:
            raise ValueError(
                f"the reward model must predict an array of shape {expected}, one row per context and one column per "
                f"action; it predicted one of shape {reward_hat.shape}."
            )
        if not np.isfinite(reward_hat).all():
            n_bad = int((~np.isfinite(reward_hat)).sum())
            raise ValueError(f"the reward model must predict finite rewards; {n_bad} of {reward_hat.size} are not.")
        return reward_hat


def predict_rewards(reward_model: object, log: BanditLog, *, n_folds: int | None = 5, seed: int = 0) -> RewardPredictor:
    """Return predictions that have not seen the rows of a log.

    Parameters
    ----------
    reward_model : None, array of shape (n_samples, n_actions), or model
        None cross-fits `bopl.BoostedRewardModel`. An unfitted model is cross-fitted: a scikit-learn regressor
        on rows ``[x; onehot(a)]``, any other through ``fit(log)`` and ``predict(context)``. A fitted one is used as it
        is, unless it is known to have seen these rows.
    n_folds : int or None, default=5
        Number of folds of cross-fitting; None for a part of a log, on which nothing is fitted.
    """
    if reward_model is None:
        reward_model = BoostedRewardModel(random_state=seed)
    if isinstance(reward_model, np.ndarray | list):
        return RewardPredictor(log, given=_check_given(np.asarray(reward_model, dtype=np.float64), log))
    if not (hasattr(reward_model, "fit") and hasattr(reward_model, "predict")):
        raise TypeError(
            "reward_model must be a model with fit and predict, or an array of predicted rewards of shape (n_samples, "
            f"n_actions); got {type(reward_model).__name__}."
        )
    _check_kind(reward_model)
    if is_fitted(reward_model):
        _check_other_rows(reward_model, log)
        return RewardPredictor(log, (_by_context(reward_model, log),))
    if n_folds is None:
        raise ValueError(
            "the reward model is not fitted, and parts of a log are not cross-fitted: fit it on other samples first."
        )
    # An estimate from a model that has seen the sample is too good where an estimator multiplies it with 1/p: the
    # doubly robust correction would vanish with the residual.
    fold = draw_folds(log, n_folds, seed)
    return RewardPredictor(log, fit_folds(reward_model, log, fold), fold)


def is_fitted(model: Any) -> bool:
    """Return whether a model has been fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(model, "__sklearn_tags__"):  # a plain class: learned attributes end in an underscore
        return any(name.endswith("_") and not name.startswith("__") for name in getattr(model, "__dict__", ()))
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _check_given(reward_hat: FloatArray, log: BanditLog) -> FloatArray:
    expected = (log.n_samples, log.n_actions)
    if reward_hat.shape != expected:
        raise ValueError(
            f"reward_model must have shape {expected}, one row per sample and one column per action; it has shape "
            f"{reward_hat.shape}."
        )
    if not np.isfinite(reward_hat).all():
        row = int(np.flatnonzero(~np.isfinite(reward_hat).all(axis=1))[0])
        raise ValueError(f"reward_model must hold finite predictions; the first that is not is at row {row}.")
    return reward_hat


def _check_kind(model: Any) -> None:
    from sklearn.base import is_classifier

    if hasattr(model, "__sklearn_tags__") and is_classifier(model):
        raise TypeError(
            f"reward_model must be a regressor; {type(model).__name__} predicts classes. A regressor on 0/1 rewards "
            "predicts the probability of a 1."
        )


def _check_other_rows(model: Any, log: BanditLog) -> None:
    """Raise if the model remembers rows of this log, where it would be too good, or was fitted on other columns."""
    check_contexts(model, log, "the reward model", "model")
    fitted: RowSketch | None = getattr(model, "training_rows_", None)
    if fitted is None:
        return
    share = 1.0 if fitted.is_same(log) else fitted.shared_share(*fitted.count_shared(log, model.actions_))
    if share > 0.0:
        raise ValueError(
            f"the reward model was fitted on {share:.0%} of the rows of this evaluation, where its predictions are too "
            "good; pass it unfitted, to be cross-fitted, or fit it on other rows."
        )


def fit_folds(model: Any, log: BanditLog, fold: IntArray, sample_weight: FloatArray | None = None) -> tuple[Any, ...]:
    """Return a copy of a model for each fold, fitted to the others; weights go to a ``fit`` that takes them."""
    return tuple(_fit_rows(model, log, fold != number, sample_weight) for number in range(int(fold.max()) + 1))


def _fit_rows(model: Any, log: BanditLog, rows: BoolArray, sample_weight: FloatArray | None) -> Any:
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    copy, part = clone(model) if hasattr(model, "get_params") else deepcopy(model), log.subset(rows)
    if _is_regressor(model):
        copy.fit(_logged_rows(part), part.reward)
    elif sample_weight is not None and has_fit_parameter(copy, "sample_weight"):
        copy.fit(part, sample_weight=sample_weight[rows])
    else:
        copy.fit(part)
    return _by_context(copy, log)


@dataclass(frozen=True)
class _OfPairs:
    """A regressor of rows ``[x; onehot(a)]`` as a reward model."""

    estimator: Any
    by_action: AnyArray  # (n_actions, n_columns)

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return the expected reward of every action, of shape (n_samples, n_actions)."""
        (n_rows, n_columns), (n_actions, n_own) = context.shape, self.by_action.shape
        n_stored = 3 * (context.nnz // n_rows) if is_sparse(context) else n_columns  # sparse: values, positions
        step = max(EXPANDED_BYTES // (self.by_action.itemsize * n_actions * (n_stored + n_own)), 1)
        return predict_expanded(self.estimator.predict, context, self.by_action, chunk_rows=step)


def _by_context(model: Any, log: BanditLog) -> Any:
    """Return a fitted model whose ``predict`` takes contexts."""
    if not _is_regressor(model):
        return _check_actions(model, log)
    return _OfPairs(model, action_columns(log.n_actions, log.action_features))


def _is_regressor(model: Any) -> bool:
    """Return whether a model is a scikit-learn regressor of rows ``[x; onehot(a)]``."""
    from sklearn.base import is_regressor

    return hasattr(model, "__sklearn_tags__") and bool(is_regressor(model))


def _check_actions(model: Any, log: BanditLog) -> Any:
    actions = getattr(model, "actions_", log.actions)
    if list(actions.tolist()) != log.actions.tolist():
        raise ValueError(
            "the reward model was fitted on other actions than the log has; build both logs with the same actions=[…]."
        )
    return model


def _logged_rows(log: BanditLog) -> ContextMatrix:
    """Return the rows ``[x; onehot(a); features of a]`` of the logged pairs."""
    logged = action_columns(log.n_actions, log.action_features)[log.action_idx]
    rows = with_columns(log.context, logged)
    if is_sparse(rows):  # scikit-learn takes 32-bit indices only
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows
