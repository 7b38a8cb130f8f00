"""Compiled passes over the scores: one before the step size is known, one after.

Both work on blocks of samples, so that what a block needs stays in the cache. What belongs to a sample is computed for
all samples of the block at once (elementwise, which compilers may do several at a time without changing a bit), then
added to exact sums (`bopl._exact`): no total depends on blocks, threads or the order of the samples.
"""

from __future__ import annotations

import math

import numpy as np

from bopl._exact_kernel import BLOCK, add_block
from bopl._kernel import njit

BLOCK_BYTES = 1 << 17  # of one matrix in a block: scores, gradient and prediction of it fit the second-level cache
MIN_BLOCK, MAX_BLOCK = 64, BLOCK

# Columns of the totals of `measure_block`.
SLOPE, WEIGHTED_NORM, BEND, N_MEASURED = 0, 1, 2, 3
# Columns of the totals of `move_block`.
VALUE, EMPIRICAL, SURROGATE, WEIGHT, WEIGHT_SQUARE, WEIGHT_REWARD, GRADIENT_SQUARE, N_MOVED = range(8)

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, kept in the low bits
_MIN_EXPONENT = -708.0  # exp of anything smaller is zero for our purposes


def block_rows(n_actions: int) -> int:
    """Return the number of samples of a block; it depends only on the actions, never on threads or samples."""
    return int(min(max(BLOCK_BYTES // (8 * n_actions), MIN_BLOCK), MAX_BLOCK))


@njit(nogil=True, cache=True, inline="always")
def fast_exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0, within two units in the last place; below -708 it is zero.

    Plain arithmetic without branches: the compiler does several at a time, and every machine gives the same bits.
    """
    bounded = max(x, _MIN_EXPONENT)
    shifted = bounded * _LOG2E + _ROUND
    power = shifted - _ROUND
    r = (bounded - power * _LN2_HIGH) - power * _LN2_LOW  # |r| <= ln(2) / 2
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.7557319223985888e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    scale = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * scale if x > _MIN_EXPONENT else 0.0


@njit(nogil=True, cache=True)
def measure_block(gradient, prediction, weight, curvature, mask, start, stop, totals_out, largest_out):  # type: ignore[no-untyped-def]
    """Write the numbers that determine the step size: ``ΣG·f``, ``Σw‖f‖²``, ``Σs‖f‖²`` and ``max|f|``.

    Parameters
    ----------
    gradient, prediction : ndarray of shape (n_actions, n_samples)
        The prediction of ineligible actions is set to zero.
    weight, curvature : ndarray of shape (n_samples,)
    mask : ndarray of bool, shape (n_actions, n_samples), or (0, 0) if all actions are eligible
    start, stop : int
        The block.
    totals_out : ndarray of int64, shape (N_MEASURED, N_LIMBS)
        Added to.
    largest_out : ndarray of shape (1,)
        ``max|f|``, if that is larger.
    """
    n_rows = stop - start
    slope, norm = np.zeros(n_rows), np.zeros(n_rows)
    largest = 0.0
    for a in range(gradient.shape[0]):
        f, g = prediction[a, start:stop], gradient[a, start:stop]
        if mask.shape[0] > 0:
            for i in range(n_rows):
                if not mask[a, start + i]:
                    f[i] = 0.0
        for i in range(n_rows):
            slope[i] += g[i] * f[i]
            norm[i] += f[i] * f[i]
        for i in range(n_rows):
            largest = max(largest, abs(f[i]))
    add_block(slope, totals_out[SLOPE])
    for i in range(n_rows):
        slope[i] = weight[start + i] * norm[i]
        norm[i] *= curvature[start + i]
    add_block(slope, totals_out[WEIGHTED_NORM])
    add_block(norm, totals_out[BEND])
    largest_out[0] = max(largest_out[0], largest)


@njit(nogil=True, cache=True)
def move_block(  # type: ignore[no-untyped-def]
    size, prediction, terms, outcomes, start, stop, score_out, gradient_out, totals_out, largest_out
):
    """Add a step to the scores of a block, and write its gradient and all sums of the history.

    Parameters
    ----------
    size : float
        Factor of the prediction; 0 computes without moving.
    prediction : ndarray of shape (n_actions, n_samples)
    terms : Terms
        Terms of the objective (`bopl.objective.RewardTerms`); matrices are (n_actions, n_samples), empty if not needed.
    outcomes : Outcomes
    start, stop : int
        The block.
    score_out, gradient_out : ndarray of shape (n_actions, n_samples)
    totals_out : ndarray of int64, shape (N_MOVED, N_LIMBS)
        Added to.
    largest_out : ndarray of shape (1,)
        ``max|G|``, if that is larger.
    """
    n_actions, n_rows = score_out.shape[0], stop - start
    has_mask, has_dense = outcomes.mask.shape[0] > 0, terms.dense.shape[0] > 0
    high = np.full(n_rows, -np.inf)
    for a in range(n_actions):
        score = score_out[a, start:stop]
        if size != 0.0:
            f = prediction[a, start:stop]
            for i in range(n_rows):
                score[i] += size * f[i]
        if has_mask:
            eligible = outcomes.mask[a, start:stop]
            for i in range(n_rows):
                high[i] = max(high[i], score[i]) if eligible[i] else high[i]
        else:
            for i in range(n_rows):
                high[i] = max(high[i], score[i])
    total = np.zeros(n_rows)
    for a in range(n_actions):  # the gradient's memory holds exp(score - max) until it is overwritten
        score, raw = score_out[a, start:stop], gradient_out[a, start:stop]
        for i in range(n_rows):
            raw[i] = fast_exp(score[i] - high[i])
        if has_mask:
            eligible = outcomes.mask[a, start:stop]
            for i in range(n_rows):
                raw[i] = raw[i] if eligible[i] else 0.0
        for i in range(n_rows):
            total[i] += raw[i]
    scale, expected = np.empty(n_rows), np.zeros(n_rows)
    for i in range(n_rows):
        scale[i] = 1.0 / total[i]
    if has_dense:
        for a in range(n_actions):
            raw, dense = gradient_out[a, start:stop], terms.dense[a, start:stop]
            for i in range(n_rows):
                expected[i] += raw[i] * dense[i]
        for i in range(n_rows):
            expected[i] *= scale[i]
    pull, summed = np.empty(n_rows), np.zeros((N_MOVED, n_rows))
    for i in range(n_rows):
        row = start + i
        action = outcomes.action_idx[row]
        prob = gradient_out[action, row] * scale[i]
        log_prob = score_out[action, row] - high[i] - math.log(total[i])
        pull[i] = terms.linear[row] * prob + terms.log[row]
        value = terms.linear[row] * prob + expected[i]
        if terms.log[row] > 0.0:
            value += terms.log[row] * (log_prob + 1.0)
        summed[VALUE, i] = value
        gain, weight = outcomes.gain[row], prob * outcomes.inverse[row]
        summed[EMPIRICAL, i] = gain * prob
        if gain < 0.0:
            summed[SURROGATE, i] = gain * prob
        elif gain > 0.0:
            summed[SURROGATE, i] = gain * (log_prob + 1.0)
        summed[WEIGHT, i] = weight
        summed[WEIGHT_SQUARE, i] = weight * weight
        summed[WEIGHT_REWARD, i] = weight * outcomes.reward[row]
    for k in range(GRADIENT_SQUARE):
        add_block(summed[k], totals_out[k])
    _finish_gradient(
        terms, outcomes, start, stop, scale, expected, pull, has_dense, gradient_out, totals_out, largest_out
    )


@njit(nogil=True, cache=True)
def _finish_gradient(  # type: ignore[no-untyped-def]
    terms, outcomes, start, stop, scale, expected, pull, has_dense, gradient_out, totals_out, largest_out
):
    """Turn ``exp(score - max)`` into the gradient of a block; add its square norm and its largest entry."""
    n_rows = stop - start
    square = np.zeros(n_rows)
    for i in range(n_rows):
        expected[i] += pull[i]
    for a in range(gradient_out.shape[0]):
        g = gradient_out[a, start:stop]
        if has_dense:
            dense = terms.dense[a, start:stop]
            for i in range(n_rows):
                g[i] = g[i] * scale[i] * (dense[i] - expected[i])
        else:
            for i in range(n_rows):
                g[i] = -(g[i] * scale[i]) * expected[i]
    for i in range(n_rows):
        gradient_out[outcomes.action_idx[start + i], start + i] += pull[i]
    largest = 0.0
    for a in range(gradient_out.shape[0]):
        g = gradient_out[a, start:stop]
        for i in range(n_rows):
            square[i] += g[i] * g[i]
        for i in range(n_rows):
            largest = max(largest, abs(g[i]))
    add_block(square, totals_out[GRADIENT_SQUARE])
    largest_out[0] = max(largest_out[0], largest)
