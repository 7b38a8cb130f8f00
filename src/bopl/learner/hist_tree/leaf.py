"""Leaves: what they predict, from unrounded sums."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl.learner.hist_tree.grid import off_grid
from bopl.learner.hist_tree.node import put_leaf
from bopl.learner.hist_tree.problem import sum_leaf


@njit(nogil=True, cache=True)
def leaf_value(gradient, weight, reg_lambda, min_child_weight, is_classifier):  # type: ignore[no-untyped-def]
    """Return a leaf's value; like XGBoost's it is 0 below ``min_child_weight`` (only a root can be)."""
    # The classifier of Algorithm 4 predicts the sign of the gradient, the regression of Algorithm 3 its mean.
    if is_classifier:
        return 1.0 if gradient > 0.0 else -1.0
    if weight < min_child_weight or weight <= 0.0:
        return 0.0
    return gradient / (weight + reg_lambda)


@njit(nogil=True, cache=True)
def set_leaf_value(sums, limits, target, node_out):  # type: ignore[no-untyped-def]
    """Write a leaf's sums, given as integers on the grids, and its value; return the value."""
    gradient_high, gradient_low, weight_high, weight_low = sums
    gradient = off_grid(gradient_high, gradient_low, target.gradient_grid)
    weight = off_grid(weight_high, weight_low, target.weight_grid)
    value = leaf_value(gradient, weight, limits.reg_lambda, limits.min_child_weight, target.is_classifier)
    node_out.sum_gradient, node_out.sum_weight, node_out.value = gradient, weight, value
    return value


@njit(nogil=True, cache=True)
def write_leaf(rows, row_gradient, row_weight, actions, limits, target, node_out, step_out):  # type: ignore[no-untyped-def]
    """Make a leaf of a node: sum its unrounded gradients, and write the value to the table and to every pair it holds.

    ``step_out`` is (n_actions, n_samples).
    """
    put_leaf(node_out)
    value = set_leaf_value(sum_leaf(target, rows, row_gradient, row_weight), limits, target, node_out)
    for k in range(len(actions)):
        steps = step_out[np.uint64(actions[k])]
        for j in range(len(rows)):
            steps[np.uint64(rows[j])] = value
