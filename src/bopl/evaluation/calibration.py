"""Putting probabilities of actions together: shares of several models, and a calibration of what they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._typing import FloatArray, IntArray
from bopl.objective.softmax import log_softmax

N_STEPS = 200  # of expectation and maximisation
MIN_SHARE = 1e-4  # smaller ones become zero
MIN_GAIN = 2.0  # log-likelihood that a calibration must add in all, on samples it was not fitted to
KNOTS = (0.5, 0.2, 0.08, 0.03, 0.01)  # probabilities at which a curve may bend
KINDS = ((1, False), (1, True), (1 + len(KNOTS), False), (1 + len(KNOTS), True))  # slopes, and whether by action


def fit_shares(prob: FloatArray) -> FloatArray:
    """Return the shares of several models under which what happened is most likely.

    ``sum_i ln sum_m share_m · prob_im`` is concave in the shares; expectation and maximisation climbs it.

    Parameters
    ----------
    prob : ndarray of shape (n_samples, n_models)
        Probability that each model gave to the logged action.
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

    Parameters
    ----------
    action_prob : ndarray of shape (n_samples, n_actions)
        Zero where an action was not eligible.
    action_idx, fold : ndarrays of shape (n_samples,)
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
