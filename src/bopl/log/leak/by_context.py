"""A contrast of what actions earn in each context: where they earn the same on the whole, that of a `Trial` is silent.

What an action earns, and how often it is taken, is learned column by column on one half of the samples. For every
function f of context and action, ``f(x, A) / p`` less its sum over the eligible actions has mean 0, given the context;
so f may be as crude as that. It gives the more to an action the more often it is taken there, so that small
propensities weigh little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log.leak.column_bins import bin_column
from bopl.log.leak.column_trial import Trial

N_BINS = 8  # of numbers: an action needs samples in each
MAX_COLUMNS = 32  # that the effect of actions is learned by, those by which it differs most
PRIOR = 20.0  # samples of the overall shares that the shares of actions in each bin are drawn towards


def coarse_code(values: AnyArray, *, is_category: bool) -> IntArray:
    """Return a column in few bins, numbered from 0."""
    column = bin_column(values, is_category=is_category)
    code = column.code if is_category else column.code * N_BINS // column.n_bins
    return np.unique(code, return_inverse=True)[1].astype(np.int32)  # of wide logs there are many


def contrast_by_context(trial: Trial, codes: Sequence[IntArray]) -> FloatArray:
    """Return a number per sample whose mean, given the context, is 0, and that goes with what actions earn in it.

    The trial must have propensities; ``codes`` are the columns of the context, in bins.
    """
    assert trial.inverse is not None
    contrast = np.zeros(trial.n_samples)
    for learned, tried in trial.halves:
        effect, prob = _learn(trial, codes, learned, tried)
        if trial.action_mask is not None:
            prob = prob * trial.action_mask[tried]
        prob /= np.maximum(prob.sum(axis=1, keepdims=True), 1e-300)
        effect -= (prob * effect).sum(axis=1, keepdims=True)
        own = np.arange(len(tried)), trial.action_idx[tried]
        contrast[tried] = prob[own] * effect[own] * trial.inverse[tried]
    return contrast


def _learn(
    trial: Trial, codes: Sequence[IntArray], learned: IntArray, tried: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return what each action earns beyond what the context does, and how likely it is, but for a factor."""
    target = trial.target[learned] - trial.target[learned].mean()
    variance = float(target.var())
    taken: FloatArray = np.bincount(trial.action_idx[learned], minlength=trial.n_actions) + 1.0
    share = taken / taken.sum()

    def tables(code: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        count, total = _by_cell(trial, code, learned, target)
        odds = np.log((count + PRIOR * share) / ((count.sum(axis=1, keepdims=True) + PRIOR) * share))
        odds[count == 0.0] = -np.inf  # it may have been impossible there, and f must be 0 then
        return count, _interaction(count, total, variance), odds

    size = np.zeros((2, len(codes)))
    for place, code in enumerate(codes):
        count, effects, odds = tables(code)
        size[:, place] = (count * effects**2).sum(), (count[count > 0.0] * odds[count > 0.0]).sum()
    count, total = _by_cell(trial, np.zeros_like(trial.action_idx), learned, target)
    effect: FloatArray = np.repeat(_shrunk(total / np.maximum(count, 1.0), count, variance), len(tried), axis=0)
    log_prob: FloatArray = np.zeros_like(effect)
    for place in np.argsort(-size[0], kind="stable")[:MAX_COLUMNS]:
        effect += tables(codes[place])[1][codes[place][tried]]
    for place in np.argsort(-size[1], kind="stable")[:MAX_COLUMNS]:
        log_prob += tables(codes[place])[2][codes[place][tried]]
    peak = log_prob.max(axis=1, keepdims=True)
    prob: FloatArray = share * np.exp(log_prob - np.where(np.isfinite(peak), peak, 0.0))
    return effect, prob


def _by_cell(trial: Trial, code: IntArray, rows: IntArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how many samples took each action in each bin, and the sum of their targets."""
    shape = (int(code.max()) + 1, trial.n_actions)
    cell, size = code[rows] * shape[1] + trial.action_idx[rows], shape[0] * shape[1]
    count = np.bincount(cell, minlength=size).astype(np.float64)
    total = np.bincount(cell, weights=target, minlength=size).astype(np.float64)
    return count.reshape(shape), total.reshape(shape)


def _interaction(count: FloatArray, total: FloatArray, variance: float) -> FloatArray:
    """Return what actions earn in each bin beyond the means of both."""
    mean = total / np.maximum(count, 1.0)
    of_bin = total.sum(axis=1, keepdims=True) / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
    of_action = total.sum(axis=0) / np.maximum(count.sum(axis=0), 1.0)
    return _shrunk(np.where(count > 0.0, mean - of_bin - of_action, 0.0), count, variance)


def _shrunk(effect: FloatArray, count: FloatArray, variance: float) -> FloatArray:
    """Return effects drawn towards zero by their standard errors."""
    shrunk: FloatArray = effect * effect**2 / np.maximum(effect**2 + variance / np.maximum(count, 1.0), 1e-300)
    return shrunk
