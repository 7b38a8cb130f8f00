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
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import Threads
from bopl._kernel import njit
from bopl._typing import FloatArray, IntArray
from bopl.learner.hist_tree.predict import as_float_context
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree, split_columns

MAX_ENTRIES = 1 << 25  # of a tree's tables, which have one for each node and point
MIN_SPAN = 16  # pairs that are worth a thread


class Game(NamedTuple):
    """One tree, node by node, with the split *above* each node: in preorder, the root first.

    A pair is inside a node if it passes all splits on the node's column so far (o = 1), else outside (o = 0). What a
    node does to the product of factors, and what its column earns there, depends on the pair through this bit alone.
    """

    parent: NDArray[np.int32]  # (n_nodes,): the node of the split
    above: NDArray[np.int32]  # (n_nodes,): the nearest node above with the same column; 0, the root, if there is none
    column: NDArray[np.int32]  # (n_nodes,): what the parent's split looks at
    # (2, n_nodes, n_points): by what the product over columns changes at each point t, outside and inside, if the pair
    # is inside ``above``.
    factor: NDArray[np.float64]
    # (n_nodes,): the same if it is outside ``above``; it is then outside here, and its column earns nothing anew.
    shrinkage: NDArray[np.float64]
    # (2, n_nodes, n_points): what the column contributes of the leaves below, by point, outside and inside.
    contribution: NDArray[np.float64]
    feature: NDArray[np.int32]  # from here on as in `Tree`
    threshold: NDArray[np.float32]
    is_equal: NDArray[np.bool_]
    default_left: NDArray[np.bool_]
    right: NDArray[np.int32]
    right_actions: NDArray[np.uint64]
    value: NDArray[np.float64]


class Ancestry(NamedTuple):
    """What leads to each node, and what that lets through; arrays are (n_nodes,)."""

    parent: NDArray[np.int32]
    above: NDArray[np.int32]  # as in `Game`
    column: NDArray[np.int32]  # -1 for the root
    share: NDArray[np.float64]  # z: share of weight that the node's column lets through so far


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
    contribution = np.zeros((len(row), first.n_columns))
    spans, expected = _spans(len(row), n_jobs), 0.0
    with Threads(n_jobs) as threads:
        for tree, factor in zip(trees, coefficient, strict=True):
            game, mean = make_game(tree)
            expected += float(factor) * mean

            def run(span: slice, game: Game = game, factor: float = float(factor)) -> None:
                _explain_span(context, row[span], action[span], game, factor, contribution[span])

            threads.each(run, spans)
    return contribution, expected


def work_of(trees: Sequence[Tree]) -> int:
    """Return about how many steps one pair takes: nodes times points, over all trees."""
    return sum(make_game(tree)[0].factor[0].size for tree in trees)


def _spans(n_pairs: int, n_jobs: int) -> list[slice]:
    n_spans = max(min(n_jobs, n_pairs // MIN_SPAN), 1)
    bounds = np.linspace(0, n_pairs, n_spans + 1).astype(int)
    return [slice(int(start), int(end)) for start, end in pairwise(bounds)]


@lru_cache(maxsize=256)
def quadrature(n_columns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights on [0, 1] that integrate polynomials of degree below ``n_columns`` exactly."""
    point, weight = np.polynomial.legendre.leggauss(max(-(-n_columns // 2), 1))
    return 0.5 * (point + 1.0), 0.5 * weight


def make_game(tree: Tree) -> tuple[Game, float]:
    """Return the game of a tree, and the tree's mean output."""
    parent, above, column = (np.full(tree.n_nodes, first, np.int32) for first in (0, 0, -1))
    lineage = Ancestry(parent, above, column, np.ones(tree.n_nodes))
    most, mean = _look_up(tree.left, tree.right, split_columns(tree), tree.sum_weight, tree.value, lineage)
    point, weight = quadrature(int(most))
    if tree.n_nodes * len(point) > MAX_ENTRIES:
        raise ValueError(
            f"a tree of {tree.n_nodes:,} nodes that looks at {int(most)} columns on one path is too large to explain."
        )
    factor, shrinkage, contribution = _tables(lineage.share, lineage.above, point, weight)
    game = Game(
        parent=lineage.parent,
        above=lineage.above,
        column=lineage.column,
        factor=factor,
        shrinkage=shrinkage,
        contribution=contribution,
        feature=tree.feature,
        threshold=tree.threshold,
        is_equal=tree.is_equal,
        default_left=tree.default_left,
        right=tree.right,
        right_actions=tree.right_actions,
        value=tree.value,
    )
    return game, float(mean)


@njit(nogil=True, cache=True)
def _look_up(left, right, column, cover, value, lineage_out):  # type: ignore[no-untyped-def]
    """Say for every node which split leads to it, and z, the share of weight that its column lets through so far.

    Returns the most columns on a path, and the tree's mean output.
    """
    parent_out, above_out, split_out, share_out = lineage_out
    n_nodes = len(left)
    reach = np.ones(n_nodes)
    n_known = np.zeros(n_nodes, np.int64)
    mean, most = 0.0, 0
    for node in range(n_nodes):
        if left[node] < 0:
            mean += reach[node] * value[node]
            most = max(most, n_known[node])
            continue
        # Up to the last split on the same column: a column's factor is one, however often a path asks for it. Trees are
        # shallow, so going up costs less than a table of columns by node.
        same = node
        while same > 0 and split_out[same] != column[node]:
            same = parent_out[same]
        for child in (left[node], right[node]):
            passed = cover[child] / cover[node] if cover[node] > 0.0 else 0.5  # no training weight: either side alike
            parent_out[child], split_out[child], above_out[child] = node, column[node], same
            share_out[child] = passed * share_out[same]
            reach[child] = passed * reach[node]
            n_known[child] = n_known[node] + (1 if same == 0 else 0)
    return most, mean


def _tables(
    share: NDArray[np.float64], above: IntArray, point: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return ``factor``, ``shrinkage`` and ``contribution`` of a `Game`.

    With ``s = (o - z) / (z + (o - z) t)`` a column's part of a leaf is the integral of ``v · product · s``, where z and
    o are those of the lowest node with the column: hence the difference of s between a node and the one above it.
    """
    # Quadrature points lie inside (0, 1), so neither ``inside`` nor ``1 - point`` is ever zero.
    z = share[:, None]  # (n_nodes, 1)
    inside = z + (1.0 - z) * point  # (n_nodes, n_points); 1 at the root
    outside = z * (1.0 - point)
    slope_inside = (1.0 - z) / inside
    slope_outside = np.broadcast_to(-1.0 / (1.0 - point), inside.shape)
    factor = np.stack([outside, inside]) / inside[above]
    contribution = weight * (np.stack([slope_outside, slope_inside]) - slope_inside[above])
    shrinkage = np.divide(share, share[above], out=np.zeros_like(share), where=share[above] > 0.0)
    return factor, shrinkage, contribution


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
def _explain_span(context, row, action, game, coefficient, contribution_out):  # type: ignore[no-untyped-def]
    """Add one tree's SHAP values of some pairs to ``contribution_out``."""
    n_nodes, n_points = game.factor.shape[1:]
    is_right, is_inside = np.zeros(n_nodes, np.bool_), np.zeros(n_nodes, np.bool_)
    product = np.empty((n_nodes, n_points))
    for k in range(len(row)):
        _go_down(context[row[k]], action[k], game, is_right, is_inside, product)
        _go_up(game, coefficient, is_inside, product, contribution_out[k])


@njit(nogil=True, cache=True)
def _go_down(x, action, game, is_right_out, is_inside_out, product_out):  # type: ignore[no-untyped-def]
    """Write, for every node and point t, the product of ``z + (o - z) t`` over the columns above it."""
    # Preorder: a parent's product is there before its children ask for it.
    factor, n_points = game.factor, product_out.shape[1]
    for t in range(n_points):
        product_out[0, t] = 1.0
    is_inside_out[0] = True
    for node in range(len(game.parent)):
        if game.feature[node] != LEAF_FEATURE:
            is_right_out[node] = _goes_right(x, action, game, node)
        if node == 0:
            continue
        parent = game.parent[node]
        if is_inside_out[game.above[node]]:
            is_inside = is_right_out[parent] == (game.right[parent] == node)
            is_inside_out[node] = is_inside
            side = 1 if is_inside else 0
            for t in range(n_points):
                product_out[node, t] = product_out[parent, t] * factor[side, node, t]
        else:
            is_inside_out[node] = False
            for t in range(n_points):
                product_out[node, t] = product_out[parent, t] * game.shrinkage[node]


@njit(nogil=True, cache=True)
def _go_up(game, coefficient, is_inside, product_out, contribution_out):  # type: ignore[no-untyped-def]
    """Turn products into sums of ``v · product`` over the leaves below every node; add what its column contributes."""
    # The reverse of preorder: both children's sums are there before their parent's. The order of additions depends on
    # the tree alone, so that values are the same on any number of threads.
    contribution, n_points = game.contribution, product_out.shape[1]
    for node in range(len(game.parent) - 1, 0, -1):
        right = game.right[node]
        for t in range(n_points):
            if right < 0:
                product_out[node, t] *= game.value[node]
            else:
                product_out[node, t] = product_out[node + 1, t] + product_out[right, t]
        if is_inside[game.above[node]]:
            side = 1 if is_inside[node] else 0
            earned = 0.0
            for t in range(n_points):
                earned += product_out[node, t] * contribution[side, node, t]
            contribution_out[game.column[node]] += coefficient * earned
