"""Propensities for a log that has none: cross-fitted models of the logging policy, mixed and calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bopl._policy_reader import logged_entries, row_blocks
from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray, IntArray
from bopl.evaluation.action_model import (
    PENALTIES,
    ActionModel,
    BoostedActions,
    Calibration,
    LogisticFit,
    UniformActions,
    boost,
    choose_calibration,
    fit_classifier,
    fit_shares,
)
from bopl.log import BanditLog
from bopl.log.context import CONTEXT_DTYPE, with_columns
from bopl.log.input_layout import category_sizes
from bopl.reward.folds import draw_folds

MIN_PROB = 1e-6  # of an action that could be chosen: a fold may never have seen it
MAX_MASK_COLUMNS = 30  # actions that are not always offered, each as one more column of the context
MAX_LINEAR_CELLS, MAX_LINEAR_PRODUCTS = 2_000_000, 100_000_000  # rows · actions, and · inputs, of a linear model
MAX_TREE_CELLS, MAX_TREE_ACTIONS = 500_000, 256  # rows · actions of boosted trees
MAX_CHOOSING_CELLS = 300_000  # rows · actions by whose likelihood settings, shares and calibration are chosen
MIN_ROWS = 2_000  # of any of these, where there are as many
MAX_SMALL = 10_000  # samples up to which every fold has a say in the penalty, not only the first


def estimate_propensity(
    log: BanditLog, *, model: Any = None, n_folds: int = 5, random_state: int | None = 0
) -> BanditLog:
    """Return the log with estimated propensities; every evaluation on it says that it rests on estimates.

    Each sample's propensity comes from models of the action given the context that were fitted on the other folds:
    the frequencies of the actions, a logistic regression, boosted trees on top of it, and uniform exploration. They are
    mixed in the shares under which the logged actions are most likely, ``sum_m share_m · p_m(a | x)``, and calibrated
    with a temperature, or a temperature and a factor per action, if that makes actions of other folds likelier. Masks
    of eligible actions are respected by every model; time is one more column where the log has it, since logging
    policies change. An estimate can be no better than what the context holds: what the logging policy saw beyond it, no
    model can know.

    Parameters
    ----------
    log : BanditLog
        Its propensities, if it has any, are ignored.
    model : scikit-learn classifier, optional
        Anything with ``predict_proba``, in place of the regression and the trees.
    n_folds : int, default=5
        Samples of one group share a fold.
    random_state : int, optional
        Seed of folds and models.
    """
    blend = cross_fit_actions(log, model=model, n_folds=n_folds, random_state=random_state)
    logged = np.empty(log.n_samples)
    for rows in row_blocks(log.n_samples, log.n_actions):
        logged[rows] = logged_entries(blend.prob(rows), log.action_idx[rows])
    return log.with_propensity(logged, source="estimated")


def estimate_logging_prob(log: BanditLog, *, model: Any, n_folds: int, random_state: int | None) -> FloatArray:
    """Return the cross-fitted, calibrated probabilities of all actions, of shape (n_samples, n_actions)."""
    blend = cross_fit_actions(log, model=model, n_folds=n_folds, random_state=random_state)
    action_prob = np.empty((log.n_samples, log.n_actions))
    for rows in row_blocks(log.n_samples, log.n_actions):
        action_prob[rows] = blend.prob(rows)
    return action_prob


@dataclass(frozen=True, eq=False)
class CrossFittedActions:
    """Models of every fold, which have not seen it, and how they are put together."""

    log: BanditLog  # with the contexts that the models look at; rewards and propensities are 1
    fold: IntArray  # (n_samples,)
    models: Sequence[Sequence[ActionModel]]  # models of each fold
    names: tuple[str, ...]  # names of the models
    shares: FloatArray  # (n_folds, n_models)
    calibrations: Sequence[Calibration]  # of each fold

    def prob(self, rows: slice | IntArray) -> FloatArray:
        """Return the probabilities of all actions on some rows, each from models that have not seen it."""
        part = self.log.subset(rows)
        action_prob = np.empty((part.n_samples, part.n_actions))
        for number, models in enumerate(self.models):
            own = np.flatnonzero(self.fold[rows] == number)
            if len(own) == 0:
                continue
            samples, mixed = part.subset(own), np.zeros((len(own), part.n_actions))
            for share, model in zip(self.shares[number], models, strict=True):
                if share > 0.0:
                    mixed += share * np.exp(model.log_prob(samples))
            action_prob[own] = _with_floor(self.calibrations[number](mixed), samples)
        return action_prob


def cross_fit_actions(log: BanditLog, *, model: Any, n_folds: int, random_state: int | None) -> CrossFittedActions:
    """Fit the models of the logging policy on all folds but one, for each of them, and put them together."""
    check_number("n_folds", n_folds, low=2, integer=True)
    seed = 0 if random_state is None else random_state
    fold = draw_folds(log, n_folds, seed)
    fitting = _Fitting(_action_log(log), category_sizes(log), fold, seed)
    models, names = fitting.with_classifier(model) if model is not None else fitting.by_default()
    rows = fitting.choosing_rows()
    return _put_together(fitting.log, fold, models, names, rows)


def _put_together(
    log: BanditLog, fold: IntArray, models: list[list[ActionModel]], names: tuple[str, ...], rows: IntArray
) -> CrossFittedActions:
    """Choose shares and calibrations by the likelihood of some rows; those of a fold without looking at it."""
    part, own, here = log.subset(rows), fold[rows], np.arange(len(rows))
    prob = np.zeros((len(names), len(rows), log.n_actions))
    for number, fitted in enumerate(models):
        held_out = np.flatnonzero(own == number)
        for place, one in enumerate(fitted if len(held_out) else ()):
            prob[place, held_out] = np.exp(one.log_prob(part.subset(held_out)))
    logged = prob[:, here, part.action_idx].T  # (n_rows, n_models)
    shares = np.array([fit_shares(logged[own != number]) for number in range(len(models))])
    mixed = np.einsum("rm,mra->ra", shares[own], prob)
    calibrations = choose_calibration(mixed, part.action_idx, own, len(models))
    return CrossFittedActions(log, fold, models, names, shares, calibrations)


@dataclass(frozen=True, eq=False)
class _Fitting:
    """The models of all folds."""

    log: BanditLog
    sizes: dict[int, int]
    fold: IntArray
    seed: int

    @property
    def n_folds(self) -> int:
        return int(self.fold.max()) + 1

    def choosing_rows(self) -> IntArray:
        return self._drawn(np.arange(self.log.n_samples), MAX_CHOOSING_CELLS // self.log.n_actions, 11)

    def _drawn(self, rows: IntArray, n_rows: int, stream: int) -> IntArray:
        """Return some rows, or all of them if they are no more than asked for."""
        most = max(n_rows, MIN_ROWS)
        if len(rows) <= most:
            return rows
        return np.sort(np.random.default_rng([self.seed, stream]).permutation(rows)[:most])

    def _train(self, number: int, n_rows: int) -> BanditLog:
        return self.log.subset(self._drawn(np.flatnonzero(self.fold != number), n_rows, 7))

    def _held_out(self, number: int) -> BanditLog:
        most = MAX_CHOOSING_CELLS // (self.log.n_actions * self.n_folds)
        return self.log.subset(self._drawn(np.flatnonzero(self.fold == number), most, 13))

    def with_classifier(self, model: Any) -> tuple[list[list[ActionModel]], tuple[str, ...]]:
        """Return uniform choice, frequencies and the caller's classifier for every fold."""
        models: list[list[ActionModel]] = []
        for number in range(self.n_folds):
            train = self.log.subset(self.fold != number)
            fit = LogisticFit(train.outcomes(), {})
            models.append([UniformActions(), fit.frequencies(), fit_classifier(model, train)])
        return models, ("uniform", "frequencies", "classifier")

    def by_default(self) -> tuple[list[list[ActionModel]], tuple[str, ...]]:
        """Return uniform choice, frequencies, a logistic regression, and boosted trees if they help, for every fold."""
        n_inputs = self.log.n_features + sum(self.sizes.values())
        n_rows = min(MAX_LINEAR_CELLS, MAX_LINEAR_PRODUCTS // n_inputs) // self.log.n_actions
        fits = [LogisticFit(self._train(number, n_rows), self.sizes) for number in range(self.n_folds)]
        has_all = self.log.n_samples <= MAX_SMALL
        losses = [fits[number].losses(self._held_out(number)) for number in range(self.n_folds if has_all else 1)]
        penalty = PENALTIES[int(np.sum(losses, axis=0).argmin())]
        linear = [fit.fit(penalty) for fit in fits]
        models: list[list[ActionModel]] = [
            [UniformActions(), fit.frequencies(), one] for fit, one in zip(fits, linear, strict=True)
        ]
        boosted = self._boosted(linear) if self.log.n_actions <= MAX_TREE_ACTIONS else []
        for own, one in zip(models, boosted, strict=False):
            own.append(one)
        names = ("uniform", "frequencies", "logistic", "trees")
        return models, names[: len(models[0])]

    def _boosted(self, linear: Sequence[Any]) -> list[BoostedActions]:
        """Return boosted trees for every fold, all with the same number of rounds; none if they do not help."""
        n_rows, fitted, curves = MAX_TREE_CELLS // self.log.n_actions, [], []
        for number, one in enumerate(linear):
            train, held_out = self._train(number, n_rows), self._held_out(number)
            model, likelihood = boost(one, train, held_out, sorted(self.sizes), seed=self.seed)
            fitted.append(model)
            curves.append(likelihood)
        shortest = min(map(len, curves))
        best = int(np.mean([curve[:shortest] for curve in curves], axis=0).argmax())
        return [replace(model, trees=model.trees.truncated(best)) for model in fitted] if best else []


def _action_log(log: BanditLog) -> BanditLog:
    """Return the log as models of the actions see it: with rewards and propensities of 1, and what else was known.

    Further columns are the time, and for every action that is not always offered whether it was: the logging policy
    knew both.
    """
    further: list[AnyArray] = []
    if log.time is not None:
        _, place = np.unique(log.time, return_inverse=True)
        further.append(place[:, None] / max(int(place.max()), 1))
    if log.action_mask is not None:
        varies = log.action_mask.any(axis=0) & ~log.action_mask.all(axis=0)
        if varies.sum() <= MAX_MASK_COLUMNS:
            further.append(log.action_mask[:, varies])
    return BanditLog(
        _widened(log.context, further),
        log.action_idx,
        np.ones(log.n_samples),
        np.ones(log.n_samples),
        actions=np.arange(log.n_actions),
        action_mask=log.action_mask,
        action_features=log.action_features,
    )


def _widened(context: ContextMatrix, further: Sequence[Any]) -> ContextMatrix:
    if not further:
        return context
    return with_columns(context, np.hstack(further).astype(CONTEXT_DTYPE))


def _with_floor(action_prob: FloatArray, log: BanditLog) -> FloatArray:
    eligible = np.maximum(action_prob, MIN_PROB)
    if log.action_mask is not None:
        eligible = np.where(log.action_mask, eligible, 0.0)
    return eligible / eligible.sum(axis=1, keepdims=True)
