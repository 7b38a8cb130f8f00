"""Models of what the logging policy does: action frequencies, a logistic regression, boosted trees, any classifier.

Each maps contexts to log-probabilities of all actions, among the eligible ones where there is a mask. They are
fitted on logs whose rewards and propensities are all 1, for which the surrogate objective is the likelihood of the
actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._settings import check_model
from bopl._typing import FloatArray, IntArray
from bopl.boosting.callback import BoostingState, CallbackAction
from bopl.boosting.ensemble import Ensemble, StepRule
from bopl.boosting.loop import Problem, fit_ensemble
from bopl.learner import HistTree
from bopl.log import BanditLog
from bopl.log.context import is_sparse
from bopl.log.input_layout import InputLayout, fit_layout
from bopl.objective import Surrogate, TrainingData
from bopl.objective.softmax import log_softmax
from bopl.reward.logging_model import standardised

MIN_LOG_PROB = float(np.log(1e-9))  # of an action that could be chosen
MAX_ITERATIONS = 200
PENALTIES = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)  # ridge, on inputs of unit variance
MAX_DEPTH, MIN_LEAF_SAMPLES, MAX_ROUNDS, PATIENCE = 6, 20.0, 200, 20
LEARNING_RATE = 0.5  # share of the certified step
SUBSAMPLE = 0.5  # of the rows of a tree; on all rows a calibrated start leaves the first split nothing to gain
WORTH_GOING_ON = 0.02  # a lower penalty that loses more likelihood than this is followed by none that gains
PSEUDO_COUNT = 1.0  # shared by all actions: none is taken for impossible
N_STEPS = 200  # of expectation and maximisation, for the shares of models
MIN_SHARE = 1e-4  # smaller ones become zero
MIN_GAIN = 2.0  # log-likelihood that a calibration must add in all, on samples it was not fitted to
KNOTS = (0.5, 0.2, 0.08, 0.03, 0.01)  # probabilities at which a curve may bend
KINDS = ((1, False), (1, True), (1 + len(KNOTS), False), (1 + len(KNOTS), True))  # slopes, and whether by action


class ActionModel(Protocol):
    """What every model of the logged actions can do."""

    def log_prob(self, log: BanditLog) -> FloatArray:
        """Return log-probabilities of all actions, of shape (n_samples, n_actions); minus infinity if ineligible."""


def masked_log_prob(score: FloatArray, log: BanditLog) -> FloatArray:
    """Return the log-probabilities of scores among the eligible actions, none of them below a small number."""
    log_prob = np.maximum(log_softmax(score, log.action_mask), MIN_LOG_PROB)
    return log_prob if log.action_mask is None else np.where(log.action_mask, log_prob, -np.inf)


def logged_log_prob(model: ActionModel, log: BanditLog) -> FloatArray:
    """Return the log-probabilities of the logged actions, of shape (n_samples,)."""
    return logged_entries(model.log_prob(log), log.action_idx)


@dataclass(frozen=True, eq=False)
class UniformActions:
    """Every eligible action with the same probability: the share of a policy that explores."""

    def log_prob(self, log: BanditLog) -> FloatArray:
        """Return log-probabilities of all actions."""
        return masked_log_prob(np.zeros((log.n_samples, log.n_actions)), log)


@dataclass(frozen=True, eq=False)
class LinearActions:
    """``softmax(inputs(x) · coef + intercept)`` among the eligible actions."""

    layout: InputLayout | None  # from contexts to inputs; None if the context is not looked at
    coef: FloatArray  # (n_inputs, n_actions)
    intercept: FloatArray  # (n_actions,)

    def score(self, log: BanditLog) -> FloatArray:
        """Return the scores before the softmax, of shape (n_samples, n_actions)."""
        if self.layout is None:
            return np.tile(self.intercept, (log.n_samples, 1))
        return np.asarray(self.layout(log.context) @ self.coef, dtype=np.float64) + self.intercept

    def log_prob(self, log: BanditLog) -> FloatArray:
        """Return log-probabilities of all actions."""
        return masked_log_prob(self.score(log), log)


@dataclass(frozen=True, eq=False)
class BoostedActions:
    """A linear model with boosted trees on top of its scores."""

    linear: LinearActions
    trees: Ensemble

    def log_prob(self, log: BanditLog) -> FloatArray:
        """Return log-probabilities of all actions."""
        return masked_log_prob(self.linear.score(log) + self.trees.score(log.context), log)


@dataclass(frozen=True, eq=False)
class ClassifierActions:
    """A scikit-learn classifier of the action."""

    classifier: Any

    def log_prob(self, log: BanditLog) -> FloatArray:
        """Return log-probabilities of all actions; those of actions that the classifier has not seen are low."""
        score = np.full((log.n_samples, log.n_actions), MIN_LOG_PROB)
        predicted = np.asarray(self.classifier.predict_proba(log.context), dtype=np.float64)
        score[:, self.classifier.classes_] = np.maximum(np.log(np.maximum(predicted, 1e-300)), MIN_LOG_PROB)
        return masked_log_prob(score, log)


def fit_classifier(model: Any, log: BanditLog) -> ClassifierActions:
    """Return a clone of a scikit-learn classifier, fitted to the logged actions."""
    from sklearn.base import clone

    check_model("model", model)
    if len(np.unique(log.action_idx)) < 2:
        raise ValueError(
            "the propensities cannot be estimated: a fold without its held-out part has one action only. Use fewer "
            "folds or a log in which actions vary."
        )
    return ClassifierActions(clone(model).fit(log.context, log.action_idx))


class LogisticFit:
    """Penalised multinomial logistic regressions of the logged actions on some samples, by L-BFGS.

    The mean negative log-likelihood, with ``penalty / 2 · |coef|²`` on inputs of unit variance, is minimised.
    Intercepts are drawn to the frequencies of the actions, as hard as one sample more would. ``sizes`` says how many
    categories there are in the columns that hold some.
    """

    def __init__(self, log: BanditLog, sizes: Mapping[int, int]) -> None:
        self.log, self.layout = log, fit_layout(log.context, sizes)
        self.inputs, self.shift, self.scale = standardised(self.layout(log.context))
        # Sparse inputs stay sparse: their means are subtracted from the products instead.
        self.offset = self.shift / self.scale if is_sparse(self.inputs) else np.zeros(len(self.scale))
        count = np.bincount(log.action_idx, minlength=log.n_actions) + PSEUDO_COUNT / log.n_actions
        self.prior = np.log(count / count.sum())

    def frequencies(self) -> LinearActions:
        """Return the model that does not look at the context: the share of each action where it was eligible."""
        if self.log.action_mask is None:
            return LinearActions(None, np.zeros((0, self.log.n_actions)), self.prior)
        found = self._solve(np.zeros((self.log.n_samples, 0), np.float32), np.zeros(0), 0.0, self.prior)
        return LinearActions(None, np.zeros((0, self.log.n_actions)), found)

    def losses(self, held_out: BanditLog) -> FloatArray:
        """Return the mean negative log-likelihood of actions held out under each of `PENALTIES`.

        The penalty is lowered while that helps; the losses under lower ones are infinite.
        """
        found, losses = self._begin(), np.full(len(PENALTIES), np.inf)
        for place, penalty in enumerate(PENALTIES):  # each from where the one before it ended
            found = self._solve(self.inputs, self.offset, penalty, found)
            losses[place] = -float(logged_log_prob(self._model(found), held_out).mean())
            if place > 0 and losses[place] > losses[place - 1] + WORTH_GOING_ON:
                break
        return losses

    def fit(self, penalty: float) -> LinearActions:
        """Return the model of a penalty."""
        return self._model(self._solve(self.inputs, self.offset, penalty, self._begin()))

    def _begin(self) -> FloatArray:
        return np.concatenate([np.zeros(self.inputs.shape[1] * self.log.n_actions), self.prior])

    def _model(self, found: FloatArray) -> LinearActions:
        n_actions = self.log.n_actions
        coef = found[:-n_actions].reshape(-1, n_actions) / self.scale[:, None]
        return LinearActions(self.layout, coef, found[-n_actions:] - self.shift @ coef)

    def _solve(self, inputs: Any, offset: FloatArray, penalty: float, begin: FloatArray) -> FloatArray:
        """Return the coefficients, and after them the intercepts."""
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        action, mask = self.log.action_idx, self.log.action_mask
        n_rows, n_inputs, n_actions = len(action), inputs.shape[1], self.log.n_actions
        here, pull = np.arange(n_rows), PSEUDO_COUNT / n_rows
        shift = offset[:, None]

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            coef, intercept = flat[:-n_actions].reshape(n_inputs, n_actions), flat[-n_actions:]
            single = coef.astype(np.float32)
            score = np.asarray(inputs @ single, np.float64) + (intercept - (shift * single).sum(axis=0))
            log_prob = log_softmax(score, mask)
            slope = np.exp(log_prob)
            slope[here, action] -= 1.0
            slope /= n_rows
            total = slope.sum(axis=0)
            steep = np.asarray(inputs.T @ slope.astype(np.float32), np.float64) - shift * total + penalty * coef
            away = intercept - self.prior
            value = 0.5 * penalty * float((coef**2).sum()) + 0.5 * pull * float((away**2).sum())
            value -= float(log_prob[here, action].mean())
            return value, np.concatenate([steep.ravel(), total + pull * away])

        with threadpool_limits(limits=1):  # sums of more threads would differ in their last digits
            found = minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS})
        return np.asarray(found.x)


class _Watch:
    """Follows the likelihood of actions held out, round by round, and stops once it has not risen for a while."""

    def __init__(self, linear: LinearActions, held_out: BanditLog) -> None:
        self.held_out, self.score = held_out, linear.score(held_out)
        self.likelihood = [self._likelihood()]

    def _likelihood(self) -> float:
        log_prob = masked_log_prob(self.score, self.held_out)
        return float(logged_entries(log_prob, self.held_out.action_idx).mean())

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Score the newest round."""
        newest = state.rounds[-1]
        self.score += newest.step.size * newest.predictor.predict(self.held_out.context)
        self.likelihood.append(self._likelihood())
        is_over = len(self.likelihood) - 1 - int(np.argmax(self.likelihood)) >= PATIENCE
        return CallbackAction.STOP if is_over else CallbackAction.CONTINUE


def boost(
    linear: LinearActions, log: BanditLog, held_out: BanditLog, categorical: list[int], *, seed: int
) -> tuple[BoostedActions, list[float]]:
    """Boost trees on the likelihood of the logged actions, from the scores of a linear model.

    It ends once the actions held out no longer become more likely; ``categorical`` are columns that hold categories.
    Returns the model with all rounds, and the mean log-likelihood of the actions held out, before the first round and
    after each.
    """
    learner = HistTree(
        MAX_DEPTH,
        min_child_weight=0.0,
        min_leaf_samples=MIN_LEAF_SAMPLES,
        subsample=SUBSAMPLE,
        categorical=categorical or None,
    )
    problem = Problem(TrainingData(log), Surrogate(), start_score=lambda: linear.score(log), has_certificate=False)
    watch = _Watch(linear, held_out)
    fitted = fit_ensemble(
        problem,
        learner.bind(log, seed=seed),
        StepRule(0.0, None, LEARNING_RATE),
        n_rounds=MAX_ROUNDS,
        seed=seed,
        callbacks=[watch],
    )
    return BoostedActions(linear, fitted.ensemble), watch.likelihood


def fit_shares(prob: FloatArray) -> FloatArray:
    """Return the shares of several models under which what happened is most likely.

    ``sum_i ln sum_m share_m · prob_im`` is concave in the shares; expectation and maximisation climbs it. ``prob``, of
    shape (n_samples, n_models), is the probability that each model gave to the logged action.
    """
    share = np.full(prob.shape[1], 1.0 / prob.shape[1])
    for _ in range(N_STEPS):
        part = prob * share
        new = (part / part.sum(axis=1, keepdims=True)).mean(axis=0)
        is_still = float(np.abs(new - share).max()) < 1e-5
        share = new
        if is_still:
            break
    share = np.where(share < MIN_SHARE, 0.0, share)
    return share / share.sum()


@dataclass(frozen=True, eq=False)
class Calibration:
    """``softmax_a(f(ln p(a)) + intercept_a)``, f being linear between a few knots."""

    # (1 + n_knots,): of f above the highest knot, and by how much less it falls below each; None leaves probabilities
    # as they are
    slope: FloatArray | None = None
    intercept: FloatArray | None = None  # (n_actions,)

    def __call__(self, action_prob: FloatArray) -> FloatArray:
        """Return calibrated probabilities, of shape (n_samples, n_actions); zeros stay zero."""
        return action_prob if self.slope is None else np.exp(self.log_prob(_log(action_prob)))

    def log_prob(self, log_prob: FloatArray) -> FloatArray:
        """Return calibrated log-probabilities."""
        if self.slope is None:
            return log_prob
        parts = _parts(log_prob, len(self.slope))
        score = sum(factor * part for factor, part in zip(self.slope, parts, strict=True))
        score = np.where(np.isfinite(log_prob), score, -np.inf)
        return log_softmax(score if self.intercept is None else score + self.intercept)


def choose_calibration(
    action_prob: FloatArray, action_idx: IntArray, fold: IntArray, n_folds: int
) -> list[Calibration]:
    """Return a calibration for every fold, fitted to the others.

    In the order of `KINDS`, a richer one takes the place of a simpler one if actions of folds that it has not seen are
    likelier under it: none, a temperature, one with a factor for each action, a curve, a curve with such factors.
    ``action_prob``, of shape (n_samples, n_actions), is zero where an action was not eligible.
    """
    log_prob = _log(action_prob)
    best = [Calibration()] * n_folds
    most = float(logged_entries(log_prob, action_idx).sum())
    for n_slopes, has_intercept in KINDS:
        tried, likelihood = [], 0.0
        for number in range(n_folds):
            own = fold == number
            tried.append(_fit(log_prob[~own], action_idx[~own], n_slopes, has_intercept=has_intercept))
            scored = tried[-1].log_prob(log_prob[own])
            likelihood += float(logged_entries(scored, action_idx[own]).sum())
        if likelihood > most + MIN_GAIN:
            best, most = tried, likelihood
    return best


def _parts(log_prob: FloatArray, n_slopes: int) -> list[FloatArray]:
    """Return ``ln p``, and how far it is below each knot; 0 where p is."""
    finite = np.where(np.isfinite(log_prob), log_prob, 0.0)
    return [finite, *(np.minimum(finite - knot, 0.0) for knot in np.log(KNOTS[: n_slopes - 1]))]


def _fit(log_prob: FloatArray, action_idx: IntArray, n_slopes: int, *, has_intercept: bool) -> Calibration:
    """Return the calibration under which actions are most likely; settings are drawn to none by one sample."""
    from scipy.optimize import minimize

    n_rows, n_actions = log_prob.shape
    here, is_open = np.arange(n_rows), np.isfinite(log_prob)
    parts = _parts(log_prob, n_slopes)
    none = np.append(1.0, np.zeros(n_slopes - 1 + (n_actions if has_intercept else 0)))

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        score = sum(factor * part for factor, part in zip(flat[:n_slopes], parts, strict=True))
        intercept = flat[n_slopes:]
        scored = log_softmax(np.where(is_open, score + intercept if has_intercept else score, -np.inf))
        value = 0.5 * float(((flat - none) ** 2).sum()) - float(scored[here, action_idx].sum())
        pull = np.exp(scored)
        pull[here, action_idx] -= 1.0
        steep = np.array([float((pull * part).sum()) for part in parts])
        steep = np.append(steep, pull.sum(axis=0) if has_intercept else ()) + flat - none
        return value / n_rows, steep / n_rows

    found = minimize(loss, none, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return Calibration(found[:n_slopes], found[n_slopes:] if has_intercept else None)


def _log(action_prob: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(action_prob)
