"""The scale of a problem: its gradients and weights as integers, and what splits have to reach in their units.

Integer sums have no order, and gradient and weight packed into one int64 are added at once. The price is rounding: so a
problem has a scale of its own, a node whose integers have become too small starts again as a problem, and where 31 bits
cannot hold the weights, gradient and weight get an int64 each ("wide").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import off_grid
from bopl.learner.hist_tree.histogram import GRADIENT_BITS, WEIGHT_BITS, pack, power_scale
from bopl.learner.hist_tree.node import NodeSums, with_capacity
from bopl.learner.hist_tree.problem import are_neighbours, count_pairs, has_sums, load_problem, sum_norms
from bopl.learner.hist_tree.split import SplitRule

WIDE_BITS = 62  # of a sum in an int64 of its own, less the sign
MIN_UNITS, MAX_UNITS = 16.0, 1024.0  # a weight of fewer units is badly rounded ...
UNITS_BUDGET = 1 << 23  # ... the bound falling as rows share the 31 bits ...
COARSE_SHARE = 64  # ... and one such row in this many asks for gradient and weight in an int64 each
COARSE_MEAN = 256  # a row's mean integer below this means that rounding shows
COARSE_SHIFT = 4  # ... and a scale of its own gains a node of at most 1/2^4 of the sums that many bits
WIDE_COARSE_SHIFT = 6  # the same where gradient and weight have an int64 each


class Scale(NamedTuple):
    """The integers of a problem: what its gradients and weights are multiplied by, and what they add up to in all."""

    gradient: float
    weight: float
    is_wide: bool
    sum_weight: Any  # int64
    absolute: Any  # int64: sum of absolute gradients
    is_given: bool  # False: the problem is still to be given a scale of its own


NO_SCALE = Scale(1.0, 1.0, False, np.int64(0), np.int64(0), False)  # of a problem that is to have its own


class ScaledProblem(NamedTuple):
    """A problem in the integers of its own scale."""

    sums: NodeSums  # of the node that it is opened with
    absolute: Any  # int64: sum of that node's absolute gradients
    scale: Scale
    rule: SplitRule
    to_gain: float  # what a score in integers is multiplied by
    min_weight: float  # a lighter node is a leaf
    has_gradient: bool  # False if no context split can gain


@njit(nogil=True, cache=True)
def scales_of(target, norms):  # type: ignore[no-untyped-def]
    """Return what gradients and weights of a problem are multiplied by to be packed into one int64."""
    gradient = off_grid(norms.gradient_high, norms.gradient_low, target.gradient_grid)
    weight = off_grid(norms.weight_high, norms.weight_low, target.weight_grid)
    return power_scale(gradient, GRADIENT_BITS), power_scale(weight, WEIGHT_BITS)


@njit(nogil=True, cache=True)
def wide_scales_of(target, norms):  # type: ignore[no-untyped-def]
    """Return what gradients and weights of a problem are multiplied by to fill an int64 each."""
    gradient = off_grid(norms.gradient_high, norms.gradient_low, target.gradient_grid)
    weight = off_grid(norms.weight_high, norms.weight_low, target.weight_grid)
    return power_scale(gradient, WIDE_BITS - 1), power_scale(weight, WIDE_BITS - 1)


@njit(nogil=True, cache=True)
def quantize(rows, row_gradient, row_weight, gradient_scale, weight_scale, fine, packed_out):  # type: ignore[no-untyped-def]
    """Scale to integers and pack. Return the number of coarse weights, and the integer sums."""
    # Each row is rounded once, by itself, so its integers are the same in every problem, thread and piece that has the
    # scale. The scale bounds sums of absolute values: rounding adds half a unit a row to them, which leaves 2^31 rows.
    n_coarse, sum_gradient, sum_weight, sum_abs = 0, np.int64(0), np.int64(0), np.int64(0)
    is_range, first = are_neighbours(rows), np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        scaled = row_weight[row] * weight_scale
        n_coarse += (scaled < fine) & (scaled > 0.0)  # a weight of zero is exact in any scale
        g, w = np.int64(np.rint(row_gradient[row] * gradient_scale)), np.int64(np.rint(scaled))
        sum_gradient += g
        sum_weight += w
        sum_abs += abs(g)
        packed_out[row] = pack(g, w)
    return n_coarse, sum_gradient, sum_weight, sum_abs


@njit(nogil=True, cache=True)
def fine_units(n_rows):  # type: ignore[no-untyped-def]
    """Return how many units a weight needs not to be coarse in a problem of so many rows."""
    return min(max(UNITS_BUDGET / max(n_rows, 1), MIN_UNITS), MAX_UNITS)


@njit(nogil=True, cache=True)
def is_too_coarse(n_coarse, n_rows):  # type: ignore[no-untyped-def]
    """Return whether so many coarse weights ask for gradient and weight in an int64 each."""
    return n_coarse * COARSE_SHARE > n_rows


@njit(nogil=True, cache=True)
def quantize_wide(rows, row_value, scale, integer_out):  # type: ignore[no-untyped-def]
    """Scale gradients or weights to 62-bit integers; return their sum and absolute sum."""
    total, total_abs = np.int64(0), np.int64(0)
    for row in rows:
        integer_out[row] = np.int64(np.rint(row_value[row] * scale))
        total += integer_out[row]
        total_abs += abs(integer_out[row])
    return total, total_abs


@njit(nogil=True, cache=True)
def scale_problem(target, rows, actions, limits, scale, wide, scratch_out):  # type: ignore[no-untyped-def]
    """Turn a problem's rows into integers, by row in ``scratch_out.packed`` and ``scratch_out.pairs``.

    Parameters
    ----------
    target : Target
    rows, actions : ndarray of int32
    limits : Limits
    scale : Scale
        ``NO_SCALE`` if the problem is to have its own.
    wide : ndarray of int64
        Room for the weights of a wide scale, if there has been any.
    scratch_out : Scratch
        Its spare slot has the sums by action.

    Returns
    -------
    problem : ScaledProblem
    row_gradient, row_weight : ndarray of float64, shape (n_samples,)
        Unrounded sums over the actions.
    wide : ndarray of int64
        Working memory, if the scale is wide.
    """
    packed, spare = scratch_out.packed, scratch_out.action_sums[len(scratch_out.histogram)]
    row_gradient, row_weight, of_pairs = load_problem(
        target, rows, actions, scratch_out.row_gradient, scratch_out.row_weight, spare
    )
    has_gradient, is_given, is_wide = True, scale.is_given, scale.is_wide
    gradient, weight, absolute = np.int64(0), np.int64(0), np.int64(0)
    gradient_scale, weight_scale = scale.gradient, scale.weight
    if not is_given:
        norms = sum_norms(target, rows, row_gradient, row_weight)
        has_gradient = has_sums(target, norms, of_pairs)
        gradient_scale, weight_scale = scales_of(target, norms)
    # A problem tries the packed scale first, and is read a second time in the rare case that it is too coarse. A node
    # that came with its problem's scale takes that as it is: its integers must be those that its parent was split by.
    if not is_given or not is_wide:
        n_coarse, gradient, weight, absolute = quantize(
            rows, row_gradient, row_weight, gradient_scale, weight_scale, fine_units(len(rows)), packed
        )
        if not is_given and is_too_coarse(n_coarse, len(rows)):
            is_wide = True
            gradient_scale, weight_scale = wide_scales_of(target, norms)
    if is_wide:
        wide = with_capacity(wide, len(packed))
        gradient, absolute = quantize_wide(rows, row_gradient, gradient_scale, packed)
        weight, _ = quantize_wide(rows, row_weight, weight_scale, wide)
    pairs = np.int64(0)
    if limits.min_samples_leaf > 1:
        pairs = count_pairs(target, rows, len(actions), actions, scratch_out.pairs)
    if not is_given:
        scale = Scale(gradient_scale, weight_scale, is_wide, weight, absolute, True)
    problem = open_problem(NodeSums(gradient, weight, pairs), absolute, scale, limits, has_gradient)
    return problem, row_gradient, row_weight, wide


@njit(nogil=True, cache=True)
def open_problem(sums, absolute, scale, limits, has_gradient):  # type: ignore[no-untyped-def]
    """Return a problem that is opened with a node of these sums."""
    # At least one unit: a child whose weight rounds to nothing would be divided by zero.
    min_child = max(np.ceil(limits.min_child_weight * scale.weight), 1.0)
    # A scale too coarse for min_child_weight cannot say that a node is too light to split.
    min_weight = 2.0 * min_child if min_child >= COARSE_MEAN else 0.0
    reg, use_allowed = limits.reg_lambda * scale.weight, limits.colsample < 1.0
    rule = SplitRule(reg, min_child, limits.min_samples_leaf, scale.is_wide, use_allowed)
    # A score is gradient squared over weight; scales are powers of two, so this undoes them without rounding.
    to_gain = scale.weight / (scale.gradient * scale.gradient)
    return ScaledProblem(sums, absolute, scale, rule, to_gain, min_weight, has_gradient)


@njit(nogil=True, cache=True, inline="always")
def may_split(sums, problem):  # type: ignore[no-untyped-def]
    """Return whether a node is heavy enough, and has pairs enough, for two children."""
    has_pairs = problem.rule.min_pairs <= 1 or sums.pairs >= 2 * problem.rule.min_pairs
    return sums.weight >= problem.min_weight and has_pairs


@njit(nogil=True, cache=True)
def is_coarse(n_members, sums, absolute, problem):  # type: ignore[no-untyped-def]
    """Return whether a node's integers are so small that a scale of its own would show more than its problem's."""
    scale = problem.scale
    if scale.is_wide:
        return sums.weight <= scale.sum_weight >> WIDE_COARSE_SHIFT or absolute <= scale.absolute >> WIDE_COARSE_SHIFT
    # Two conditions each: small integers alone would make a problem of every small node, although a new scale gains
    # nothing where the node has most of the sums that set the old one.
    weight_is_coarse = sums.weight < n_members * COARSE_MEAN and sums.weight < scale.sum_weight >> COARSE_SHIFT
    gradient_is_coarse = absolute < n_members * COARSE_MEAN and absolute < scale.absolute >> COARSE_SHIFT
    return weight_is_coarse or gradient_is_coarse


@njit(nogil=True, cache=True)
def context_gain(score, sums, problem):  # type: ignore[no-untyped-def]
    """Return the gain of a node's best context split, 0 if it has none."""
    if score < 0.0:
        return 0.0
    parent = float(sums.gradient) * float(sums.gradient) / (float(sums.weight) + problem.rule.reg)
    return (score - parent) * problem.to_gain
