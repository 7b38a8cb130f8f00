"""Scores of splits, from the integer sums of one side; the other side is the rest of the node.

The score of a split is ``GL^2 / (WL + lambda) + GR^2 / (WR + lambda)``; the gain is that less the parent's term. The
loops have neither branches nor reductions of floats nor divisions that may raise, so that they compile to vector code.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import HALF, LOW_MASK

NO_SCORE = -1.0  # scores are never negative
ALMOST = 1.0 - 1e-9  # a score within this of the best is computed exactly


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _score(g, w, parent, reg, min_weight):  # type: ignore[no-untyped-def]
    """Return the score of one side; one that leaves either child below ``min_weight`` has none."""
    parent_gradient, parent_weight = parent
    is_valid = (w >= min_weight) & (w <= parent_weight - min_weight)
    w += reg
    other_g = parent_gradient - g
    other_w = (parent_weight + 2.0 * reg) - w
    # Both fractions over one denominator: a division costs as much as all the rest. Where a side is empty and there is
    # no ``reg`` it is 0 / 0, which the numpy error model lets pass and ``is_valid`` discards: min_weight is at least 1.
    score = (g * g * other_w + other_g * other_g * w) / (w * other_w)
    return score if is_valid else NO_SCORE


@njit(nogil=True, cache=True, error_model="numpy")
def score_packed(side, start, end, total, reg, min_weight, score_out):  # type: ignore[no-untyped-def]
    """Score sides ``start`` to ``end``, given by packed sums."""
    parent = float(total >> HALF), float(total & LOW_MASK)
    for b in range(start, end):
        score_out[b] = _score(float(side[b] >> HALF), float(side[b] & LOW_MASK), parent, reg, min_weight)


@njit(nogil=True, cache=True, error_model="numpy")
def score_wide(gradient, weight, n, total, reg, min_weight, score_out):  # type: ignore[no-untyped-def]
    """Score the first ``n`` sides, whose gradient and weight sums have an int64 each; ``total`` has the node's."""
    parent = float(total.gradient), float(total.weight)
    for b in range(n):
        score_out[b] = _score(float(gradient[b]), float(weight[b]), parent, reg, min_weight)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def may_beat(side, start, end, total, reg, best):  # type: ignore[no-untyped-def]
    """Return whether a side may score above ``best``, by a few multiplications each instead of a division.

    Without ``reg`` the score is ``(G^2 + (GL W - G WL)^2 / (WL WR)) / W``. Rounding is allowed for, so that this only
    ever spares the exact scores, and never decides between them.
    """
    parent_gradient, parent_weight = float(total >> HALF), float(total & LOW_MASK)
    to_beat = best * ALMOST
    # Only here may the compiler fuse a multiplication with an addition (``contract``): it changes last bits, which
    # ALMOST covers, and which no result ever shows.
    n_above = np.int64(0)  # a count compiles to vector code, "any" does not
    if reg == 0.0:
        excess = max(to_beat * parent_weight - parent_gradient * parent_gradient, 0.0)
        for b in range(start, end):
            w = float(side[b] & LOW_MASK)
            d = float(side[b] >> HALF) * parent_weight - parent_gradient * w
            n_above += np.int64(d * d > excess * (w * (parent_weight - w)))
        return n_above > 0
    parent_weight += 2.0 * reg
    for b in range(start, end):
        g = float(side[b] >> HALF)
        w = float(side[b] & LOW_MASK) + reg
        other_g = parent_gradient - g
        other_w = parent_weight - w
        n_above += np.int64(g * g * other_w + other_g * other_g * w > to_beat * (w * other_w))
    return n_above > 0


@njit(nogil=True, cache=True)
def first_above(score, bits, start, end, to_beat):  # type: ignore[no-untyped-def]
    """Return the index of the first largest of ``score[start:end]`` if that is above ``to_beat``, otherwise -1.

    Non-negative floats order as their bits do, and an integer maximum compiles to vector code. ``bits`` is the memory
    of ``score`` read as integers.
    """
    # NO_SCORE has the sign bit set, so as an integer it is below -1 and below every score.
    largest = np.int64(-1)
    for b in range(start, end):
        largest = max(largest, bits[b])
    if largest < 0:
        return np.int64(-1)
    for b in range(start, end):
        if bits[b] == largest:
            return np.int64(b) if score[b] > to_beat else np.int64(-1)
    return np.int64(-1)
