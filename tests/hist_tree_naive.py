"""Plain-loop twins of the engine: pairs are enumerated, every candidate split is tried, sums are float64."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from bopl.learner.hist_tree import HistTree
from bopl.objective.base import StepTarget


@dataclass
class Pairs:
    """All eligible (context, action) pairs of a small problem, written out."""

    x: np.ndarray  # (n_pairs, d)
    action: np.ndarray
    gradient: np.ndarray
    weight: np.ndarray
    action_features: np.ndarray  # (A, d_a)
    categorical: tuple = ()


def make_log(context, n_actions, mask=None, features=None):
    reward = np.random.default_rng(0).random(context.shape[0])
    return SimpleNamespace(
        context=context, reward=reward, n_actions=n_actions, action_mask=mask, action_features=features
    )


def fit_tree(learner, context, gradient, weight, mask=None, features=None, round_idx=0, seed=0):
    bound = learner.bind(make_log(context, gradient.shape[1], mask, features), seed=seed)
    return bound.fit(StepTarget(gradient, weight, weight, weight), round_idx)


def expand(context, gradient, weight, mask=None, features=None, categorical=(), is_classifier=False):
    n, n_actions = gradient.shape
    row, action = np.divmod(np.arange(n * n_actions), n_actions)
    keep = np.ones(n * n_actions, bool) if mask is None else mask.ravel()
    pair_weight = np.abs(gradient.ravel()) if is_classifier else weight[row]
    features = np.zeros((n_actions, 0)) if features is None else np.asarray(features, np.float32)
    return Pairs(
        context[row][keep], action[keep], gradient.ravel()[keep], pair_weight[keep], features, tuple(categorical)
    )


def candidate_sides(pairs, rows):
    """Yield the left side, as a boolean array over ``rows``, of every split there is."""
    for j in range(pairs.x.shape[1]):
        x = pairs.x[rows, j]
        missing = np.isnan(x)
        values = np.unique(x[~missing])
        if j in pairs.categorical:
            yield from (~(x == v) for v in values)
            yield ~missing
            continue
        for v in values:
            yield (x < v) & ~missing
            yield (x < v) | missing
        yield ~missing
    action = pairs.action[rows]
    for a in np.unique(action):
        yield action != a
    for f in range(pairs.action_features.shape[1]):
        value = pairs.action_features[action, f]
        for v in np.unique(value)[1:]:
            yield value < v


def term(gradient, weight, reg):
    return gradient**2 / (weight + reg) if weight > 0 else 0.0


def gain_of(pairs, rows, is_left, settings):
    """Return the gain of a split, or -inf if a child is too light or too small."""
    g, w = pairs.gradient[rows], pairs.weight[rows]
    left_w, right_w = w[is_left].sum(), w[~is_left].sum()
    slack = 1e-9 * (left_w + right_w)
    if min(left_w, right_w) < settings.min_child_weight - slack or min(left_w, right_w) <= 0:
        return -np.inf
    if min(is_left.sum(), (~is_left).sum()) < settings.min_samples_leaf:
        return -np.inf
    reg = settings.reg_lambda
    return (
        term(g[is_left].sum(), left_w, reg)
        + term(g[~is_left].sum(), right_w, reg)
        - term(g.sum(), left_w + right_w, reg)
    )


def left_side(tree, node, pairs, rows):
    """Return which pairs a node of a finished tree sends left."""
    if tree.feature[node] >= 0:
        x = pairs.x[rows, tree.feature[node]]
        if tree.is_equal[node]:
            return ~((x == tree.threshold[node]) | (np.isnan(x) & np.isnan(tree.threshold[node])))
        return np.where(np.isnan(x), tree.default_left[node], x < tree.threshold[node])
    action = pairs.action[rows]
    if tree.action_feature[node] >= 0:
        return pairs.action_features[action, tree.action_feature[node]] < tree.threshold[node]
    return action != tree.action[node]


def check_tree(tree, pairs, settings, *, tolerance=1e-6, rtol=1e-4):
    """Assert that every split is a best one, every leaf cannot be split, and every value is right.

    Two splits of equal gain are a tie that rounding may decide either way, so gains are compared, not splits.
    """
    is_classifier = type(settings) is not HistTree
    todo = [(0, np.arange(len(pairs.x)), 0)]
    while todo:
        node, rows, depth = todo.pop()
        g, w = pairs.gradient[rows], pairs.weight[rows]
        best = max((gain_of(pairs, rows, side, settings) for side in candidate_sides(pairs, rows)), default=-np.inf)
        slack = tolerance * np.sum(g[w > 0] ** 2 / w[w > 0]) + 1e-9  # no split can gain more than the sum
        if tree.left[node] < 0:
            assert depth == settings.max_depth or best <= 1e-6 + slack, (node, depth, best)
            expected = np.where(g.sum() > 0, 1.0, -1.0) if is_classifier else g.sum() / (w.sum() + settings.reg_lambda)
            if w.sum() >= settings.min_child_weight and (not is_classifier or abs(g.sum()) > 1e-9):
                np.testing.assert_allclose(tree.value[node], expected, rtol=1e-9, atol=1e-9 * np.abs(g).sum() / w.sum())
            continue
        side = left_side(tree, node, pairs, rows)
        found = gain_of(pairs, rows, side, settings)
        assert found >= best - slack - rtol * abs(best), (node, depth, found, best)
        np.testing.assert_allclose(tree.gain[node], found, rtol=rtol, atol=slack)
        todo += [(tree.left[node], rows[side], depth + 1), (tree.right[node], rows[~side], depth + 1)]


def random_target(rng, n, n_actions, heavy=False):
    gradient = rng.normal(size=(n, n_actions))
    gradient -= gradient.mean(axis=1, keepdims=True)
    weight = rng.uniform(0.5, 2.0, n)
    if heavy:
        scale = 10.0 ** rng.uniform(-6, 6, n)
        gradient *= scale[:, None]
        weight *= scale
    return gradient, weight
