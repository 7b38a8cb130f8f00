"""A problem's rows: sums over its action set, scaled to integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.histogram import GRADIENT_BITS, WEIGHT_BITS, pack, power_scale

WIDE_BITS = 62
LEAST_UNITS, MOST_UNITS = 16.0, 1024.0  # a weight of fewer units is badly rounded ...
UNITS_BUDGET = 1 << 23  # ... the bound falling as rows share the 31 bits ...
COARSE_SHARE = 64  # ... and one such row in this many asks for gradient and weight in an int64 each
LANES = 4  # sums that run side by side
ROUNDING = 1e-13  # a sum of gradients below this part of their absolute values is rounding


class Target(NamedTuple):
    """What a tree is fitted to."""

    gradient: NDArray[np.float64]  # (n_actions, n_samples): a problem of one action reads it in order
    weight: NDArray[np.float64]  # (n_samples,)
    mask: NDArray[np.bool_]  # (n_samples, n_actions), or empty
    has_mask: bool
    is_classifier: bool


@njit(nogil=True, cache=True)
def _is_range(rows):  # type: ignore[no-untyped-def]
    """Return whether ascending rows are neighbours: loops over them then compile to vector code."""
    return len(rows) > 0 and np.int64(rows[len(rows) - 1]) - np.int64(rows[0]) == len(rows) - 1


@njit(nogil=True, cache=True, inline="always")
def _lane_rows(rows, first, is_range, j):  # type: ignore[no-untyped-def]
    """Return the rows at places j to j + 3."""
    if is_range:
        at = first + j
        return at, at + np.uint64(1), at + np.uint64(2), at + np.uint64(3)
    return (
        np.uint64(rows[j]),
        np.uint64(rows[j + np.uint64(1)]),
        np.uint64(rows[j + np.uint64(2)]),
        np.uint64(rows[j + np.uint64(3)]),
    )


@njit(nogil=True, cache=True)
def load_rows(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Write each row's gradient and weight over the action set, and each action's over the rows.

    Return False if the rows' gradients are zero but for rounding, as over all actions: no context split can gain then.
    """
    if not target.has_mask and not target.is_classifier:
        return _load_plain(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out)
    sum_actions(target, rows, actions, action_sums_out)
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
    return True


@njit(nogil=True, cache=True)
def _load_plain(target, rows, actions, row_gradient_out, row_weight_out, action_sums_out):  # type: ignore[no-untyped-def]
    """Without a mask, both kinds of sums come from one reading of the gradient, action by action."""
    action_sums_out[:] = 0.0
    gradients, weights = action_sums_out[0], action_sums_out[1]
    total_weight, of_pairs, of_rows = 0.0, 0.0, 0.0
    n_actions, is_range, first = float(len(actions)), _is_range(rows), np.uint64(rows[0])
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        row_gradient_out[row] = 0.0
        row_weight_out[row] = n_actions * target.weight[row]
        total_weight += target.weight[row]
    whole = np.uint64(len(rows)) & ~np.uint64(LANES - 1)
    for k in range(len(actions)):
        column = target.gradient[np.uint64(actions[k])]
        sums, absolutes = (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
        for j in range(np.uint64(0), whole, np.uint64(LANES)):
            at = _lane_rows(rows, first, is_range, j)
            g = (column[at[0]], column[at[1]], column[at[2]], column[at[3]])
            row_gradient_out[at[0]] += g[0]
            row_gradient_out[at[1]] += g[1]
            row_gradient_out[at[2]] += g[2]
            row_gradient_out[at[3]] += g[3]
            sums = (sums[0] + g[0], sums[1] + g[1], sums[2] + g[2], sums[3] + g[3])
            absolutes = (
                absolutes[0] + abs(g[0]), absolutes[1] + abs(g[1]), absolutes[2] + abs(g[2]), absolutes[3] + abs(g[3]),
            )  # fmt: skip
        of_action = (sums[0] + sums[1]) + (sums[2] + sums[3])
        of_pairs += (absolutes[0] + absolutes[1]) + (absolutes[2] + absolutes[3])
        for j in range(whole, np.uint64(len(rows))):
            row = first + j if is_range else np.uint64(rows[j])
            g_last = column[row]
            row_gradient_out[row] += g_last
            of_action += g_last
            of_pairs += abs(g_last)
        gradients[actions[k]] = of_action
    for j in range(len(rows)):
        of_rows += abs(row_gradient_out[np.uint64(rows[j])])
    for a in actions:
        weights[a] = total_weight
        action_sums_out[2, a] = len(rows)
    return of_rows > ROUNDING * of_pairs


@njit(nogil=True, cache=True)
def _sum_lanes(value, rows):  # type: ignore[no-untyped-def]
    """Sum the values of some rows in four interleaved sums: one alone waits for itself at every addition."""
    whole = np.uint64(len(rows)) & ~np.uint64(LANES - 1)
    is_range, first = _is_range(rows), np.uint64(rows[0]) if len(rows) > 0 else np.uint64(0)
    sums = (0.0, 0.0, 0.0, 0.0)
    for j in range(np.uint64(0), whole, np.uint64(LANES)):
        at = _lane_rows(rows, first, is_range, j)
        sums = (sums[0] + value[at[0]], sums[1] + value[at[1]], sums[2] + value[at[2]], sums[3] + value[at[3]])
    total = (sums[0] + sums[1]) + (sums[2] + sums[3])
    for j in range(whole, np.uint64(len(rows))):
        total += value[np.uint64(rows[j])]
    return total


@njit(nogil=True, cache=True)
def sum_actions(target, rows, actions, sums_out):  # type: ignore[no-untyped-def]
    """Write gradient, weight and number of eligible pairs of each action of the set over some rows."""
    sums_out[:] = 0.0
    gradients, weights, counts = sums_out[0], sums_out[1], sums_out[2]
    if not target.has_mask and not target.is_classifier:
        weight = _sum_lanes(target.weight, rows)
        for k in range(len(actions)):
            gradients[actions[k]] = _sum_lanes(target.gradient[np.uint64(actions[k])], rows)
            weights[actions[k]] = weight
            counts[actions[k]] = len(rows)
        return
    for j in range(len(rows)):
        row = np.uint64(rows[j])
        for k in range(len(actions)):
            a = np.uint64(actions[k])
            if not target.has_mask or target.mask[row, a]:
                g = target.gradient[a, row]
                gradients[a] += g
                weights[a] += abs(g) if target.is_classifier else target.weight[row]
                counts[a] += 1.0


@njit(nogil=True, cache=True)
def quantize(rows, row_gradient, row_weight, packed_out):  # type: ignore[no-untyped-def]
    """Scale to integers and pack. Return the two scales and the integer sums, or scale 0 if 31 bits are too few."""
    absolute, total = 0.0, 0.0
    is_range, first = _is_range(rows), np.uint64(rows[0])
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        absolute += abs(row_gradient[row])
        total += row_weight[row]
    gradient_scale, weight_scale = power_scale(absolute, GRADIENT_BITS), power_scale(total, WEIGHT_BITS)
    fine = min(max(UNITS_BUDGET / max(len(rows), 1), LEAST_UNITS), MOST_UNITS)
    n_coarse, sum_gradient, sum_weight, sum_abs = 0, np.int64(0), np.int64(0), np.int64(0)
    for j in range(np.uint64(len(rows))):
        row = first + j if is_range else np.uint64(rows[j])
        scaled = row_weight[row] * weight_scale
        n_coarse += (scaled < fine) & (scaled > 0.0)
        g, w = np.int64(np.rint(row_gradient[row] * gradient_scale)), np.int64(np.rint(scaled))
        sum_gradient += g
        sum_weight += w
        sum_abs += abs(g)
        packed_out[row] = pack(g, w)
    if n_coarse * COARSE_SHARE > len(rows):
        return 0.0, 0.0, sum_gradient, sum_weight, sum_abs
    return gradient_scale, weight_scale, sum_gradient, sum_weight, sum_abs


@njit(nogil=True, cache=True)
def quantize_wide(rows, row_value, integer_out):  # type: ignore[no-untyped-def]
    """Scale gradients or weights to 62-bit integers; return the scale, their sum and absolute sum."""
    absolute = 0.0
    for row in rows:
        absolute += abs(row_value[row])
    scale = power_scale(absolute, WIDE_BITS - 1)
    total, total_abs = np.int64(0), np.int64(0)
    for row in rows:
        integer_out[row] = np.int64(np.rint(row_value[row] * scale))
        total += integer_out[row]
        total_abs += abs(integer_out[row])
    return scale, total, total_abs


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
