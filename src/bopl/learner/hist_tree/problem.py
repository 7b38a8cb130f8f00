"""A problem's rows: sums over its action set, scaled to integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import Grid, make_grid, off_grid, on_grid
from bopl.learner.hist_tree.histogram import GRADIENT_BITS, WEIGHT_BITS, pack, power_scale

WIDE_BITS = 62
LEAST_UNITS, MOST_UNITS = 16.0, 1024.0  # a weight of fewer units is badly rounded ...
UNITS_BUDGET = 1 << 23  # ... the bound falling as rows share the 31 bits ...
COARSE_SHARE = 64  # ... and one such row in this many asks for gradient and weight in an int64 each
ROUNDING = 1e-13  # a sum of gradients below this part of their absolute values is rounding

# Rows of the sums by action: gradient and weight on their grids, and the number of eligible pairs.
G_HIGH, G_LOW, W_HIGH, W_LOW, N_PAIRS, N_ACTION_SUMS = 0, 1, 2, 3, 4, 5


class Target(NamedTuple):
    """What a tree is fitted to."""

    gradient: NDArray[np.float64]  # (n_actions, n_samples): a problem of one action reads it in order
    weight: NDArray[np.float64]  # (n_samples,)
    mask: NDArray[np.bool_]  # (n_samples, n_actions), or empty
    has_mask: bool
    is_classifier: bool
    gradient_grid: Grid  # of gradients of pairs, and of rows summed over actions
    weight_grid: Grid


class Norms(NamedTuple):
    """Sums over rows of absolute gradients and of weights, on their grids."""

    gradient_high: Any  # int64
    gradient_low: Any
    weight_high: Any
    weight_low: Any


def make_grids(largest_gradient: float, largest_weight: float, n_rows: int, n_actions: int) -> tuple[Grid, Grid]:
    """Return the grids of gradients and weights: of pairs, and of rows summed over all actions."""
    return make_grid(n_actions * largest_gradient, n_rows), make_grid(n_actions * largest_weight, n_rows)


@njit(nogil=True, cache=True)
def _is_range(rows):  # type: ignore[no-untyped-def]
    """Return whether ascending rows are neighbours: loops over them then compile to vector code."""
    return len(rows) > 0 and np.int64(rows[len(rows) - 1]) - np.int64(rows[0]) == len(rows) - 1


@njit(nogil=True, cache=True)
def load_rows(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Write each row's gradient and weight over the action set, and each action's over the rows.

    Return the sum of the pairs' absolute gradients, in coarse units.
    """
    if not target.has_mask and not target.is_classifier:
        return _load_plain(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out)
    of_pairs = sum_actions(target, rows, actions, action_sums_out)
    for j in range(len(rows)):
        row = np.uint64(rows[j])
        gradient, weight, n_eligible = 0.0, 0.0, 0
        for k in range(len(actions)):
            a = np.uint64(actions[k])
            if not target.has_mask or target.mask[row, a]:
                gradient += target.gradient[a, row]
                weight += abs(target.gradient[a, row])
                n_eligible += 1
        row_gradient_out[row] = gradient
        row_weight_out[row] = weight if target.is_classifier else n_eligible * target.weight[row]
    return of_pairs


@njit(nogil=True, cache=True)
def _load_plain(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Without a mask, both kinds of sums come from one reading of the gradient, action by action."""
    action_sums_out[:] = 0
    grid, of_pairs = target.gradient_grid, np.int64(0)
    n_actions, is_range = float(len(actions)), _is_range(rows)
    first = np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        row_gradient_out[row] = 0.0
        row_weight_out[row] = n_actions * target.weight[row]
    weight_high, weight_low = _sum_rows(target.weight, rows, target.weight_grid)
    for k in range(len(actions)):
        column = target.gradient[np.uint64(actions[k])]
        total_high, total_low = np.int64(0), np.int64(0)
        if is_range:
            for j in range(np.uint64(len(rows))):
                g = column[first + j]
                row_gradient_out[first + j] += g
                high, low = on_grid(g, grid)
                total_high += high
                total_low += low
                of_pairs += abs(high)
        else:
            for j in range(np.uint64(len(rows))):
                row = np.uint64(rows[j])
                g = column[row]
                row_gradient_out[row] += g
                high, low = on_grid(g, grid)
                total_high += high
                total_low += low
                of_pairs += abs(high)
        a = actions[k]
        action_sums_out[G_HIGH, a], action_sums_out[G_LOW, a] = total_high, total_low
        action_sums_out[W_HIGH, a], action_sums_out[W_LOW, a] = weight_high, weight_low
        action_sums_out[N_PAIRS, a] = len(rows)
    return of_pairs


@njit(nogil=True, cache=True)
def _sum_rows(value, rows, grid):  # type: ignore[no-untyped-def]
    """Return the sum of some rows' values on a grid."""
    total_high, total_low = np.int64(0), np.int64(0)
    if _is_range(rows):
        first = np.uint64(rows[0])
        for j in range(np.uint64(len(rows))):
            high, low = on_grid(value[first + j], grid)
            total_high += high
            total_low += low
    else:
        for j in range(np.uint64(len(rows))):
            high, low = on_grid(value[np.uint64(rows[j])], grid)
            total_high += high
            total_low += low
    return total_high, total_low


@njit(nogil=True, cache=True)
def sum_actions(target, rows, actions, sums_out):  # type: ignore[no-untyped-def]
    """Write gradient, weight and number of eligible pairs of each action of the set over some rows.

    Return the sum of the absolute gradients of an action set with a mask or of a classifier, in coarse units.
    """
    sums_out[:] = 0
    of_pairs = np.int64(0)
    if not target.has_mask and not target.is_classifier:
        weight_high, weight_low = _sum_rows(target.weight, rows, target.weight_grid)
        for k in range(len(actions)):
            a = actions[k]
            high, low = _sum_rows(target.gradient[np.uint64(a)], rows, target.gradient_grid)
            sums_out[G_HIGH, a], sums_out[G_LOW, a] = high, low
            sums_out[W_HIGH, a], sums_out[W_LOW, a] = weight_high, weight_low
            sums_out[N_PAIRS, a] = len(rows)
        return of_pairs
    for j in range(len(rows)):
        row = np.uint64(rows[j])
        weight_high, weight_low = on_grid(target.weight[row], target.weight_grid)
        for k in range(len(actions)):
            a = np.uint64(actions[k])
            if not target.has_mask or target.mask[row, a]:
                g = target.gradient[a, row]
                high, low = on_grid(g, target.gradient_grid)
                sums_out[G_HIGH, a] += high
                sums_out[G_LOW, a] += low
                of_pairs += abs(high)
                if target.is_classifier:
                    high, low = on_grid(abs(g), target.weight_grid)
                    sums_out[W_HIGH, a] += high
                    sums_out[W_LOW, a] += low
                else:
                    sums_out[W_HIGH, a] += weight_high
                    sums_out[W_LOW, a] += weight_low
                sums_out[N_PAIRS, a] += 1
    return of_pairs


@njit(nogil=True, cache=True)
def action_floats(sums, actions, target, floats_out):  # type: ignore[no-untyped-def]
    """Write the sums by action as floats: gradient, weight, pairs."""
    for a in actions:
        floats_out[0, a] = off_grid(sums[G_HIGH, a], sums[G_LOW, a], target.gradient_grid)
        floats_out[1, a] = off_grid(sums[W_HIGH, a], sums[W_LOW, a], target.weight_grid)
        floats_out[2, a] = float(sums[N_PAIRS, a])


@njit(nogil=True, cache=True)
def sum_norms(target, rows, row_gradient, row_weight):  # type: ignore[no-untyped-def]
    """Return the sums of the rows' absolute gradients and of their weights."""
    gradient_high, gradient_low, weight_high, weight_low = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if _is_range(rows):
        first = np.uint64(rows[0])
        for j in range(np.uint64(len(rows))):
            high, low = on_grid(abs(row_gradient[first + j]), target.gradient_grid)
            gradient_high += high
            gradient_low += low
            high, low = on_grid(row_weight[first + j], target.weight_grid)
            weight_high += high
            weight_low += low
    else:
        for j in range(np.uint64(len(rows))):
            row = np.uint64(rows[j])
            high, low = on_grid(abs(row_gradient[row]), target.gradient_grid)
            gradient_high += high
            gradient_low += low
            high, low = on_grid(row_weight[row], target.weight_grid)
            weight_high += high
            weight_low += low
    return Norms(gradient_high, gradient_low, weight_high, weight_low)


@njit(nogil=True, cache=True)
def sum_leaf(target, rows, row_gradient, row_weight):  # type: ignore[no-untyped-def]
    """Return the sums of the rows' gradients and of their weights, each on its grid."""
    gradient_high, gradient_low = _sum_rows(row_gradient, rows, target.gradient_grid)
    weight_high, weight_low = _sum_rows(row_weight, rows, target.weight_grid)
    return gradient_high, gradient_low, weight_high, weight_low


@njit(nogil=True, cache=True)
def has_sums(target, norms, of_pairs):  # type: ignore[no-untyped-def]
    """Return False if the rows' gradients are zero but for rounding, as over all actions: no context split can gain."""
    of_rows = off_grid(norms.gradient_high, norms.gradient_low, target.gradient_grid)
    return of_rows > ROUNDING * (float(of_pairs) * target.gradient_grid.high_unit)


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
    n_coarse, sum_gradient, sum_weight, sum_abs = 0, np.int64(0), np.int64(0), np.int64(0)
    is_range, first = _is_range(rows), np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        scaled = row_weight[row] * weight_scale
        n_coarse += (scaled < fine) & (scaled > 0.0)
        g, w = np.int64(np.rint(row_gradient[row] * gradient_scale)), np.int64(np.rint(scaled))
        sum_gradient += g
        sum_weight += w
        sum_abs += abs(g)
        packed_out[row] = pack(g, w)
    return n_coarse, sum_gradient, sum_weight, sum_abs


@njit(nogil=True, cache=True)
def fine_units(n_rows):  # type: ignore[no-untyped-def]
    """Return how many units a weight needs not to be coarse in a problem of so many rows."""
    return min(max(UNITS_BUDGET / max(n_rows, 1), LEAST_UNITS), MOST_UNITS)


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
def count_pairs(target, rows, n_actions, actions, count_out):  # type: ignore[no-untyped-def]
    """Write each row's number of eligible actions in the set; return their sum."""
    total = np.int64(0)
    for row in rows:
        n_eligible = n_actions
        if target.has_mask:
            n_eligible = 0
            for a in actions:
                n_eligible += target.mask[row, a]
        count_out[row] = n_eligible
        total += n_eligible
    return total
