"""A problem's rows: their sums over the action set, by row and by action.

Sums that leave a thread or a piece are integers on the grids of a round (`grid`), so that they have no order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import Grid, make_grid, off_grid, on_grid

ROUNDING = 1e-13  # a sum of gradients below this part of their absolute values is rounding: some 500 units of 2^-52

# Sums of one action over the rows of a node; an array by action can be read as integers, to be added up.
ACTION_SUMS = np.dtype(
    [
        ("gradient_high", np.int64),  # on the grid of gradients
        ("gradient_low", np.int64),
        ("weight_high", np.int64),  # on the grid of weights
        ("weight_low", np.int64),
        ("pairs", np.int64),  # eligible ones
    ]
)


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


class ActionFloats(NamedTuple):
    """Sums by action as floats; each array is (n_actions,), zero outside the action set."""

    gradient: NDArray[np.float64]
    weight: NDArray[np.float64]
    pairs: NDArray[np.float64]


def make_grids(largest_gradient: float, largest_weight: float, n_rows: int, n_actions: int) -> tuple[Grid, Grid]:
    """Return the grids of gradients and weights: of pairs, and of rows summed over all actions."""
    return make_grid(n_actions * largest_gradient, n_rows), make_grid(n_actions * largest_weight, n_rows)


@njit(nogil=True, cache=True)
def are_neighbours(rows):  # type: ignore[no-untyped-def]
    """Return whether ascending rows are neighbours: loops over them then compile to vector code.

    Loops that this pays for are written twice: with the index in one loop or the other, compilers do not see that loads
    follow each other. A tree's root has such rows, and other nodes may: contexts of one leaf lie together (`locality`).
    """
    return len(rows) > 0 and np.int64(rows[len(rows) - 1]) - np.int64(rows[0]) == len(rows) - 1


@njit(nogil=True, cache=True)
def load_problem(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Return each row's gradient and weight over the action set, and the sum of the pairs' absolute gradients.

    With a single action that every row has there is nothing to add up: the arrays are the target's own, and nothing is
    written.
    """
    if len(actions) == 1 and not target.has_mask and not target.is_classifier:
        return target.gradient[actions[0]], target.weight, np.int64(0)
    of_pairs = load_rows(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out)
    return row_gradient_out, row_weight_out, of_pairs


@njit(nogil=True, cache=True)
def load_rows(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Write each row's gradient and weight over the action set, and each action's over the rows.

    Return the sum of the pairs' absolute gradients, in coarse units.
    """
    if not target.has_mask and not target.is_classifier:
        return _load_plain(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out)
    of_pairs = sum_actions(target, rows, actions, action_sums_out)
    # A row's floats are added in the order of its actions, which is the same everywhere: only sums over rows, whose
    # order is not, have to be integers.
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
    clear_sums(action_sums_out)
    grid, of_pairs = target.gradient_grid, np.int64(0)
    n_actions, is_range = float(len(actions)), are_neighbours(rows)
    first = np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        row_gradient_out[row] = 0.0
        row_weight_out[row] = n_actions * target.weight[row]
    weight_high, weight_low = _sum_rows(target.weight, rows, target.weight_grid)
    # Coarse units alone are enough for ``of_pairs``: it is only ever compared with a sum that is 1e13 times smaller.
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
        sums = action_sums_out[actions[k]]
        sums.gradient_high, sums.gradient_low = total_high, total_low
        sums.weight_high, sums.weight_low = weight_high, weight_low
        sums.pairs = len(rows)
    return of_pairs


@njit(nogil=True, cache=True)
def _sum_rows(value, rows, grid):  # type: ignore[no-untyped-def]
    """Return the sum of some rows' values on a grid."""
    total_high, total_low = np.int64(0), np.int64(0)
    if are_neighbours(rows):
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
def sum_actions(target, rows, actions, action_sums_out):  # type: ignore[no-untyped-def]
    """Write gradient, weight and number of eligible pairs of each action of the set over some rows.

    Return the sum of the absolute gradients of an action set with a mask or of a classifier, in coarse units.
    """
    clear_sums(action_sums_out)
    of_pairs = np.int64(0)
    if not target.has_mask and not target.is_classifier:
        weight_high, weight_low = _sum_rows(target.weight, rows, target.weight_grid)
        for k in range(len(actions)):
            a = np.uint64(actions[k])
            sums = action_sums_out[a]
            sums.gradient_high, sums.gradient_low = _sum_rows(target.gradient[a], rows, target.gradient_grid)
            sums.weight_high, sums.weight_low = weight_high, weight_low
            sums.pairs = len(rows)
        return of_pairs
    for j in range(len(rows)):
        row = np.uint64(rows[j])
        weight_high, weight_low = on_grid(target.weight[row], target.weight_grid)
        for k in range(len(actions)):
            a = np.uint64(actions[k])
            if not target.has_mask or target.mask[row, a]:
                g, sums = target.gradient[a, row], action_sums_out[a]
                high, low = on_grid(g, target.gradient_grid)
                sums.gradient_high += high
                sums.gradient_low += low
                of_pairs += abs(high)
                if target.is_classifier:
                    high, low = on_grid(abs(g), target.weight_grid)
                    sums.weight_high += high
                    sums.weight_low += low
                else:
                    sums.weight_high += weight_high
                    sums.weight_low += weight_low
                sums.pairs += 1
    return of_pairs


@njit(nogil=True, cache=True)
def clear_sums(action_sums_out):  # type: ignore[no-untyped-def]
    """Set the sums of all actions to zero."""
    for a in range(len(action_sums_out)):
        sums = action_sums_out[a]
        sums.gradient_high = sums.gradient_low = sums.weight_high = sums.weight_low = sums.pairs = 0


@njit(nogil=True, cache=True)
def subtract_sums(taken, action_sums_out):  # type: ignore[no-untyped-def]
    """Take one child's sums by action off its parent's, which become the other child's.

    Exact, unlike a difference of floats: a child without weight has a sum of zero, not of rounding.
    """
    for a in range(len(action_sums_out)):
        sums = action_sums_out[a]
        sums.gradient_high -= taken[a].gradient_high
        sums.gradient_low -= taken[a].gradient_low
        sums.weight_high -= taken[a].weight_high
        sums.weight_low -= taken[a].weight_low
        sums.pairs -= taken[a].pairs


@njit(nogil=True, cache=True)
def action_floats(action_sums, actions, target, floats_out):  # type: ignore[no-untyped-def]
    """Write the sums of the actions of a set as `ActionFloats`."""
    for a in actions:
        sums = action_sums[a]
        floats_out.gradient[a] = off_grid(sums.gradient_high, sums.gradient_low, target.gradient_grid)
        floats_out.weight[a] = off_grid(sums.weight_high, sums.weight_low, target.weight_grid)
        floats_out.pairs[a] = float(sums.pairs)


@njit(nogil=True, cache=True)
def sum_norms(target, rows, row_gradient, row_weight):  # type: ignore[no-untyped-def]
    """Return the sums of the rows' absolute gradients and of their weights."""
    gradient_high, gradient_low, weight_high, weight_low = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if are_neighbours(rows):
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
