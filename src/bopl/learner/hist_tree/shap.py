"""SHAP values of trees: what each column of ``[x; onehot(a); features of a]`` adds to the score of a pair.

The players of the game are the columns, and a tree's output without some of them is the mean over both sides of their
splits, weighted by the children's ``sum_weight`` (Lundberg, Erion and Lee, 2018: path-dependent TreeSHAP). If every
column is known with probability t, a leaf of value v counts with ``v · prod_j (z_j + (o_j - z_j) t)``: j runs over the
columns on its path, z_j is the share of weight that j's splits let through, and o_j is 1 if the pair passes them all.
A Shapley value is the integral over t in [0, 1] of the derivative in one column's own probability (Owen, 1972):

    phi_i = sum_leaves v · integral (o_i - z_i) · prod_{j≠i} (z_j + (o_j - z_j) t) dt

The integrand is a polynomial of a degree below the number of columns on the path, so Gauss-Legendre quadrature with
half as many points is exact, and its factors are positive. Sums over leaves are gathered from the bottom up: a pair
costs (nodes × points) steps, not (leaves × depth²).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bopl._typing import FloatArray, IntArray
from bopl.learner.hist_tree.export import _split_columns
from bopl.learner.hist_tree.predict import as_float_context
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree

MIN_SPAN = 16  # pairs that are worth a thread


class Game(NamedTuple):
    """One tree, node by node, with the split *above* each node: in preorder, the root first.

    Attributes
    ----------
    parent : ndarray of int32, shape (n_nodes,)
    column : ndarray of int32
        What the parent's split looks at; -1 for the root.
    above : ndarray of int32
        The nearest node above with the same column, -1 if there is none.
    share : ndarray of float64
        z: the share of weight that all splits on this column let through, from the root to here.
    feature, threshold, is_equal, default_left, right, right_actions
        As in `Tree`.
    value : ndarray of float64
        Leaf values.
    """

    parent: NDArray[np.int32]
    column: NDArray[np.int32]
    above: NDArray[np.int32]
    share: NDArray[np.float64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    is_equal: NDArray[np.bool_]
    default_left: NDArray[np.bool_]
    right: NDArray[np.int32]
    right_actions: NDArray[np.uint64]
    value: NDArray[np.float64]


def explain_pairs(
    trees: Sequence[Tree],
    coefficient: Sequence[float],
    context: Any,
    row: IntArray,
    action: IntArray,
    *,
    n_jobs: int = 1,
) -> tuple[FloatArray, float]:
    """Return SHAP values of ``Σ coefficient · tree`` for (context, action) pairs.

    Parameters
    ----------
    trees : sequence of Tree
    coefficient : sequence of float
    context : ndarray of shape (n_samples, n_features)
    row, action : ndarray of shape (n_pairs,)
        Pair k is the context in ``row[k]`` with the action in position ``action[k]``.
    n_jobs : int
        Threads; the result does not depend on it.

    Returns
    -------
    contribution : ndarray of shape (n_pairs, n_features + n_actions + n_action_features)
        By column of ``[x; onehot(a); features of a]``.
    expected : float
        Score without any column known: ``expected + contribution.sum(axis=1)`` is the score.
    """
    first = trees[0]
    context = as_float_context(context, first.n_features)
    row, action = np.ascontiguousarray(row, np.int64), np.ascontiguousarray(action, np.int64)
    contribution = np.zeros((len(row), first.n_features + first.n_actions + first.n_action_features))
    games = [_make_game(tree) for tree in trees]
    spans = _spans(len(row), n_jobs)

    def explain(span: slice) -> None:
        for (game, n_columns, _), factor in zip(games, coefficient, strict=True):
            point, weight = quadrature(n_columns)
            _explain_span(context, row[span], action[span], game, point, weight, float(factor), contribution[span])

    if len(spans) == 1:
        explain(spans[0])
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(explain, spans))
    expected = sum(float(factor) * mean for (_, _, mean), factor in zip(games, coefficient, strict=True))
    return contribution, float(expected)


def work_of(trees: Sequence[Tree]) -> int:
    """Return about how many steps one pair takes: nodes times points, over all trees."""
    return sum(tree.n_nodes * len(quadrature(_make_game(tree)[1])[0]) for tree in trees)


def _spans(n_pairs: int, n_jobs: int) -> list[slice]:
    n_spans = max(min(4 * n_jobs, n_pairs // MIN_SPAN), 1) if n_jobs > 1 else 1
    bounds = np.linspace(0, n_pairs, n_spans + 1).astype(int)
    return [slice(int(start), int(end)) for start, end in pairwise(bounds)]


@lru_cache(maxsize=256)
def quadrature(n_columns: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights on [0, 1] that integrate polynomials of degree below ``n_columns`` exactly."""
    point, weight = np.polynomial.legendre.leggauss(max(-(-n_columns // 2), 1))
    return 0.5 * (point + 1.0), 0.5 * weight


def _make_game(tree: Tree) -> tuple[Game, int, float]:
    """Return the game of a tree, the most columns on a path of it, and its mean output."""
    column, _ = _split_columns(tree)
    parent, split, above = (np.full(tree.n_nodes, -1, np.int32) for _ in range(3))
    share = np.ones(tree.n_nodes)
    n_columns, mean = _look_up(tree.left, tree.right, column, tree.sum_weight, tree.value, parent, split, above, share)
    game = Game(
        parent=parent,
        column=split,
        above=above,
        share=share,
        feature=tree.feature,
        threshold=tree.threshold,
        is_equal=tree.is_equal,
        default_left=tree.default_left,
        right=tree.right,
        right_actions=tree.right_actions,
        value=tree.value,
    )
    return game, int(n_columns), float(mean)


@njit(nogil=True, cache=True)
def _look_up(left, right, column, cover, value, parent_out, split_out, above_out, share_out):  # type: ignore[no-untyped-def]
    """Say for every node which split leads to it; return the most columns on a path, and the tree's mean output."""
    n_nodes = len(left)
    reach = np.ones(n_nodes)
    n_known = np.zeros(n_nodes, np.int64)
    mean, most = 0.0, 0
    for node in range(n_nodes):
        if left[node] < 0:
            mean += reach[node] * value[node]
            most = max(most, n_known[node])
            continue
        for child in (left[node], right[node]):
            passed = cover[child] / cover[node] if cover[node] > 0.0 else 0.5
            same = node
            while same >= 0 and split_out[same] != column[node]:
                same = parent_out[same]
            parent_out[child], split_out[child], above_out[child] = node, column[node], same
            share_out[child] = passed if same < 0 else passed * share_out[same]
            reach[child] = passed * reach[node]
            n_known[child] = n_known[node] + (1 if same < 0 else 0)
    return most, mean


@njit(nogil=True, cache=True)
def _goes_right(x, action, game, node):  # type: ignore[no-untyped-def]
    """Return whether a pair goes right at a split."""
    if game.feature[node] == ACTION_SPLIT:
        word = game.right_actions[node, action // WORD_BITS]
        return (word >> np.uint64(action % WORD_BITS)) & np.uint64(1) != np.uint64(0)
    value = x[game.feature[node]]
    if game.is_equal[node]:
        return value == game.threshold[node] or (np.isnan(value) and np.isnan(game.threshold[node]))
    if np.isnan(value):
        return not game.default_left[node]
    return not value < game.threshold[node]


@njit(nogil=True, cache=True)
def _explain_span(context, row, action, game, point, weight, coefficient, contribution_out):  # type: ignore[no-untyped-def]
    """Add one tree's SHAP values of some pairs to ``contribution_out``."""
    n_nodes, n_points = len(game.parent), len(point)
    is_right, is_inside = np.zeros(n_nodes, np.bool_), np.zeros(n_nodes, np.bool_)
    product, total = np.empty((n_nodes, n_points)), np.empty((n_nodes, n_points))
    for k in range(len(row)):
        _go_down(context[row[k]], action[k], game, point, is_right, is_inside, product)
        _go_up(game, point, weight, coefficient, is_inside, product, total, contribution_out[k])


@njit(nogil=True, cache=True)
def _go_down(x, action, game, point, is_right_out, is_inside_out, product_out):  # type: ignore[no-untyped-def]
    """Write, for every node and point t, the product of ``z + (o - z) t`` over the columns above it."""
    product_out[0, :] = 1.0
    is_inside_out[0] = True
    for node in range(len(game.parent)):
        if game.feature[node] != LEAF_FEATURE:
            is_right_out[node] = _goes_right(x, action, game, node)
        if node == 0:
            continue
        parent, above, share = game.parent[node], game.above[node], game.share[node]
        is_inside = is_right_out[parent] == (game.right[parent] == node)
        if above >= 0:
            is_inside = is_inside and is_inside_out[above]
        is_inside_out[node] = is_inside
        if product_out[parent, 0] == 0.0:  # nothing gets here: neither the pair nor any weight
            product_out[node, :] = 0.0
            continue
        slope = (1.0 if is_inside else 0.0) - share
        for t in range(len(point)):
            product_out[node, t] = product_out[parent, t] * (share + slope * point[t])
        if above >= 0:
            old_share = game.share[above]
            old_slope = (1.0 if is_inside_out[above] else 0.0) - old_share
            for t in range(len(point)):
                product_out[node, t] /= old_share + old_slope * point[t]


@njit(nogil=True, cache=True)
def _go_up(game, point, weight, coefficient, is_inside, product, total_out, contribution_out):  # type: ignore[no-untyped-def]
    """Sum ``v · product`` over the leaves below every node, and credit the column of the split above it.

    With ``s = (o - z) / (z + (o - z) t)`` the column's part of a leaf is the integral of ``v · product · s``, where s
    is that of the lowest node with the column: hence the difference of s between a node and the one above it.
    """
    for node in range(len(game.parent) - 1, 0, -1):
        if game.feature[node] == LEAF_FEATURE:
            for t in range(len(point)):
                total_out[node, t] = game.value[node] * product[node, t]
        else:
            for t in range(len(point)):
                total_out[node, t] = total_out[node + 1, t] + total_out[game.right[node], t]
        above, share = game.above[node], game.share[node]
        if product[node, 0] == 0.0 or (above >= 0 and not is_inside[above]):
            continue  # outside before, outside now: s is the same
        slope = (1.0 if is_inside[node] else 0.0) - share
        credit = 0.0
        for t in range(len(point)):
            credit += weight[t] * total_out[node, t] * slope / (share + slope * point[t])
        if above >= 0:
            old_share = game.share[above]
            old_slope = 1.0 - old_share
            for t in range(len(point)):
                credit -= weight[t] * total_out[node, t] * old_slope / (old_share + old_slope * point[t])
        contribution_out[game.column[node]] += coefficient * credit
