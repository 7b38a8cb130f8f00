"""Compiled passes over the scores: one before the step size is known, one after.

Both work on blocks of samples, so that what a block needs stays in the cache. What belongs to a sample is computed for
all samples of the block at once (elementwise, which compilers may do several at a time without changing a bit), then
added to exact sums (`bopl._exact`): no total depends on blocks, threads or the order of the samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._exact import Limbs
from bopl._exact_kernel import BLOCK, add_block
from bopl._kernel import njit
from bopl._limbs import TO_INTEGER

BLOCK_BYTES = 1 << 17  # of one matrix in a block: scores, gradient and prediction of it fit the second-level cache
MIN_BLOCK, MAX_BLOCK = 64, BLOCK

# Columns of the totals of `measure_block`.
SLOPE, WEIGHTED_NORM, BEND, N_MEASURED = 0, 1, 2, 3
# Columns of the totals of `move_block`.
VALUE, EMPIRICAL, SURROGATE, WEIGHT, WEIGHT_SQUARE, WEIGHT_REWARD, GRADIENT_SQUARE, N_MOVED = range(8)

_LOG2E = 1.4426950408889634
# ln 2 in two parts (Cody and Waite): the high one ends in zeros, so that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MIN_EXPONENT = -708.0  # exp of anything smaller is zero for our purposes: it would be subnormal


class BlockSums(NamedTuple):
    """What the blocks of one thread add up to."""

    limbs: Limbs  # (n_sums, N_LIMBS)
    largest: NDArray[np.float64]  # (1,) an array, because kernels write to it


class BlockSoftmax(NamedTuple):
    """The softmax of a block's samples, each array (n_rows,): ``prob = exp(score - high) * scale``."""

    high: NDArray[np.float64]  # largest score of an eligible action
    total: NDArray[np.float64]  # sum of exp(score - high); at least 1, so neither scale nor logarithm can fail
    scale: NDArray[np.float64]  # 1 / total


def block_rows(n_actions: int) -> int:
    """Return the number of samples of a block; it depends only on the actions, never on threads or samples."""
    return int(min(max(BLOCK_BYTES // (8 * n_actions), MIN_BLOCK), MAX_BLOCK))


@njit(nogil=True, cache=True, inline="always")
def fast_exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0, within two units in the last place; below -708 it is zero.

    Plain arithmetic without branches: the compiler does several at a time, and every machine gives the same bits.
    """
    bounded = max(x, _MIN_EXPONENT)
    # exp(x) = 2^power · exp(r): the power is x / ln 2 rounded, which stays in the low bits of ``shifted``.
    shifted = bounded * _LOG2E + TO_INTEGER
    power = shifted - TO_INTEGER
    r = (bounded - power * _LN2_HIGH) - power * _LN2_LOW  # |r| <= ln(2) / 2
    # Taylor series to r^13 / 13!, innermost first; what follows is below 5e-18, a twentieth of a last unit.
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
    # 2^power is a float whose exponent field is power + 1023 and whose other bits are zero.
    scale = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * scale if x > _MIN_EXPONENT else 0.0


@njit(nogil=True, cache=True)
def measure_block(gradient, prediction, weight, curvature, mask, span, sums_out):  # type: ignore[no-untyped-def]
    """Write the numbers that determine the step size: ``ΣG·f``, ``Σw‖f‖²``, ``Σs‖f‖²`` and ``max|f|``.

    Parameters
    ----------
    gradient, prediction : ndarray of shape (n_actions, n_samples)
        The prediction of ineligible actions is set to zero.
    weight, curvature : ndarray of shape (n_samples,)
    mask : ndarray of bool, shape (n_actions, n_samples), or (0, 0) if all actions are eligible
    span : tuple of int
        First sample of the block, and the one after its last.
    sums_out : BlockSums
        ``limbs`` are added to; ``largest`` becomes ``max|f|`` if that is larger.
    """
    start, stop = span
    n_rows = stop - start
    slope, norm = np.zeros(n_rows), np.zeros(n_rows)
    largest = 0.0
    # Action outside, sample inside: arrays are by action, so the inner loops read memory in order, and each sample has
    # an accumulator of its own: the order of its additions is that of the actions, whatever the vector width.
    for a in range(gradient.shape[0]):
        f, g = prediction[a, start:stop], gradient[a, start:stop]
        if mask.shape[0] > 0:
            for i in range(n_rows):
                if not mask[a, start + i]:
                    f[i] = 0.0
        for i in range(n_rows):
            slope[i] += g[i] * f[i]
            norm[i] += f[i] * f[i]
        for i in range(n_rows):  # apart: a maximum of floats in the same loop keeps it from compiling to vector code
            largest = max(largest, abs(f[i]))
    add_block(slope, sums_out.limbs[SLOPE])
    for i in range(n_rows):
        slope[i] = weight[start + i] * norm[i]
        norm[i] *= curvature[start + i]
    add_block(slope, sums_out.limbs[WEIGHTED_NORM])
    add_block(norm, sums_out.limbs[BEND])
    sums_out.largest[0] = max(sums_out.largest[0], largest)


@njit(nogil=True, cache=True)
def move_block(size, prediction, terms, outcomes, span, score_out, gradient_out, sums_out):  # type: ignore[no-untyped-def]
    """Add a step to the scores of a block, and write its gradient and all sums of the history.

    Parameters
    ----------
    size : float
        Factor of the prediction; 0 computes without moving.
    prediction : ndarray of shape (n_actions, n_samples)
    terms : Terms
        Terms of the objective (`bopl.objective.RewardTerms`); matrices are (n_actions, n_samples), empty if not needed.
    outcomes : Outcomes
    span : tuple of int
        First sample of the block, and the one after its last.
    score_out, gradient_out : ndarray of shape (n_actions, n_samples)
    sums_out : BlockSums
        ``limbs``, N_MOVED of them, are added to; ``largest`` becomes ``max|G|`` if that is larger.
    """
    high = _move_scores(size, prediction, outcomes.mask, span, score_out)
    # Until it is overwritten at the end, the gradient's memory holds exp(score - max).
    total = _exponentiate(score_out, outcomes.mask, span, high, gradient_out)
    softmax = BlockSoftmax(high, total, 1.0 / total)
    expected = _expected_dense(terms.dense, span, softmax.scale, gradient_out)
    pull = _sum_samples(terms, outcomes, span, softmax, expected, score_out, gradient_out, sums_out.limbs)
    _finish_gradient(terms.dense, outcomes.action_idx, span, softmax.scale, expected, pull, gradient_out, sums_out)


@njit(nogil=True, cache=True)
def _move_scores(size, prediction, mask, span, score_out):  # type: ignore[no-untyped-def]
    """Add ``size · prediction`` to the scores; return each sample's largest score of an eligible action."""
    start, stop = span
    n_rows = stop - start
    high = np.full(n_rows, -np.inf)
    for a in range(score_out.shape[0]):
        score = score_out[a, start:stop]
        if size != 0.0:
            f = prediction[a, start:stop]
            for i in range(n_rows):
                score[i] += size * f[i]
        if mask.shape[0] > 0:
            eligible = mask[a, start:stop]
            for i in range(n_rows):
                high[i] = max(high[i], score[i]) if eligible[i] else high[i]
        else:
            for i in range(n_rows):
                high[i] = max(high[i], score[i])
    return high


@njit(nogil=True, cache=True)
def _exponentiate(score, mask, span, high, raw_out):  # type: ignore[no-untyped-def]
    """Write exp(score - high), 0 for ineligible actions; return each sample's sum over actions."""
    start, stop = span
    n_rows = stop - start
    total = np.zeros(n_rows)
    for a in range(score.shape[0]):
        own, raw = score[a, start:stop], raw_out[a, start:stop]
        for i in range(n_rows):
            raw[i] = fast_exp(own[i] - high[i])
        if mask.shape[0] > 0:
            eligible = mask[a, start:stop]
            for i in range(n_rows):
                raw[i] = raw[i] if eligible[i] else 0.0
        for i in range(n_rows):
            total[i] += raw[i]
    return total


@njit(nogil=True, cache=True)
def _expected_dense(dense, span, scale, raw):  # type: ignore[no-untyped-def]
    """Return the policy's mean of the dense term for each sample of a block, 0 without one."""
    start, stop = span
    n_rows = stop - start
    expected = np.zeros(n_rows)
    if dense.shape[0] > 0:
        for a in range(raw.shape[0]):
            own, reward = raw[a, start:stop], dense[a, start:stop]
            for i in range(n_rows):
                expected[i] += own[i] * reward[i]
        for i in range(n_rows):
            expected[i] *= scale[i]
    return expected


@njit(nogil=True, cache=True)
def _sum_samples(terms, outcomes, span, softmax, expected, score, raw, limbs_out):  # type: ignore[no-untyped-def]
    """Add the sums of the history but the last; return what pulls the score of each sample's logged action up."""
    start, stop = span
    n_rows = stop - start
    pull, summed = np.empty(n_rows), np.zeros((GRADIENT_SQUARE, n_rows))
    for i in range(n_rows):
        row = start + i
        action = outcomes.action_idx[row]
        prob = raw[action, row] * softmax.scale[i]
        # Not log(prob): a probability that underflows to zero still has a logarithm.
        log_prob = score[action, row] - softmax.high[i] - math.log(softmax.total[i])
        pull[i] = terms.linear[row] * prob + terms.log[row]
        value = terms.linear[row] * prob + expected[i]
        if terms.log[row] > 0.0:  # 0 · log(0) would be NaN
            value += terms.log[row] * (log_prob + 1.0)
        summed[VALUE, i] = value
        # The history shows the paper's risks whatever is boosted: -gain · prob (Eq. "ips_estimator"), and its bound
        # -gain · (log prob + 1) for gains above zero (Eq. "surrogate_log_loss", Eq. "surrogate_objective").
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
        add_block(summed[k], limbs_out[k])
    return pull


@njit(nogil=True, cache=True)
def _finish_gradient(dense, action_idx, span, scale, expected, pull, gradient_out, sums_out):  # type: ignore[no-untyped-def]
    """Turn ``exp(score - max)`` into the gradient of a block; add its square norm and its largest entry.

    With p the probabilities and q the dense term, ``G_a = p_a · (q_a - Σ p·q - pull)``, and ``pull`` more at the logged
    action: every score falls by the share of probability that the logged action takes from it. ``expected`` is
    overwritten.
    """
    start, stop = span
    n_rows = stop - start
    square = np.zeros(n_rows)
    for i in range(n_rows):
        expected[i] += pull[i]
    for a in range(gradient_out.shape[0]):
        g = gradient_out[a, start:stop]
        if dense.shape[0] > 0:
            own = dense[a, start:stop]
            for i in range(n_rows):
                g[i] = g[i] * scale[i] * (own[i] - expected[i])
        else:
            for i in range(n_rows):
                g[i] = -(g[i] * scale[i]) * expected[i]
    for i in range(n_rows):
        gradient_out[action_idx[start + i], start + i] += pull[i]
    largest = 0.0
    for a in range(gradient_out.shape[0]):
        g = gradient_out[a, start:stop]
        for i in range(n_rows):
            square[i] += g[i] * g[i]
        for i in range(n_rows):
            largest = max(largest, abs(g[i]))
    add_block(square, sums_out.limbs[GRADIENT_SQUARE])
    sums_out.largest[0] = max(sums_out.largest[0], largest)
