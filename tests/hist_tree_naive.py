"""The engine's plain twin: pairs are enumerated, every split is tried, and each side is summed by itself in float64."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from bopl.learner.base import FittedStep
from bopl.learner.hist_tree import HistTree
from bopl.objective.protocol import StepTarget

MIN_GAIN = 1e-6  # what a split must gain, here as in XGBoost
# Half a unit of a row's integers as part of the node's mean row: 30 bits hold all gradients of a problem, which makes
# this much for some thousand rows; integers are scaled anew before the mean row of a node falls below 256 units.
ROUNDING, HEAVY_ROUNDING = 2.0**-18, 2.0**-9


@dataclass
class Pairs:
    """All eligible (context, action) pairs of a small problem, written out."""

    x: np.ndarray  # (n_pairs, d)
    action: np.ndarray
    gradient: np.ndarray
    weight: np.ndarray
    action_features: np.ndarray  # (A, d_a)
    categorical: tuple = ()
    cuts: tuple = ()  # where each context column may be split, if not between any two values


def make_log(context, n_actions, mask=None, features=None):
    reward = np.random.default_rng(0).random(context.shape[0])
    return SimpleNamespace(
        context=context, reward=reward, n_actions=n_actions, action_mask=mask, action_features=features
    )


def fit_tree(learner, context, gradient, weight, mask=None, features=None, round_idx=0, seed=0):
    bound = learner.bind(make_log(context, gradient.shape[1], mask, features), seed=seed)
    if bound.row_order is None:
        return bound.fit(StepTarget(gradient, weight), round_idx)
    gradient, weight = gradient[bound.row_order], weight[bound.row_order]
    fitted = bound.fit(StepTarget(gradient, weight), round_idx)
    prediction = np.empty_like(fitted.prediction)
    prediction[bound.row_order] = fitted.prediction
    return FittedStep(fitted.predictor, prediction)


def expand(context, gradient, weight, mask=None, features=None, categorical=(), is_classifier=False, cuts=()):
    n, n_actions = gradient.shape
    row, action = np.divmod(np.arange(n * n_actions), n_actions)
    pair_weight = np.abs(gradient.ravel()) if is_classifier else weight[row]
    keep = np.ones(n * n_actions, bool) if mask is None else mask.ravel()
    features = np.zeros((n_actions, 0)) if features is None else np.asarray(features, np.float32)
    x, g = context[row][keep], gradient.ravel()[keep]
    return Pairs(x, action[keep], g, pair_weight[keep], features, tuple(categorical), tuple(cuts))


def candidate_sides(pairs, rows):
    """Return every split there is, as booleans of shape (n_candidates, n_rows) that say which pairs go left."""
    sides = [np.ones(len(rows), bool)]  # no split at all; it keeps the array from being empty and gains nothing
    for j in range(pairs.x.shape[1]):
        x = pairs.x[rows, j]
        missing = np.isnan(x)
        values = np.unique(x[~missing])
        if j in pairs.categorical:
            sides += [x != v for v in values]
        else:
            for v in pairs.cuts[j] if pairs.cuts else values:
                sides += [(x < v) & ~missing, (x < v) | missing]
        sides.append(~missing)
    action = pairs.action[rows]
    sides += [action != a for a in np.unique(action)]
    for f in range(pairs.action_features.shape[1]):
        value = pairs.action_features[action, f]
        sides += [value < v for v in np.unique(value)]
    return np.array(sides)


@dataclass
class Scores:
    """What some splits of one node are worth; arrays over the splits."""

    gain: np.ndarray
    score: np.ndarray  # the children's terms together
    lightest: np.ndarray  # weight of the lighter child
    smallest: np.ndarray  # pairs in the smaller child
    by_gradient: np.ndarray  # derivative of the gain in the sums of gradients, and
    by_weight: np.ndarray  # in the sums of weights, at worst

    def is_valid(self, settings, border=0.0):
        """Return which splits leave ``min_child_weight`` and ``border`` more on both sides, and enough pairs."""
        is_heavy = (self.lightest >= settings.min_child_weight + border) & (self.lightest > max(border, 0.0))
        return is_heavy & (self.smallest >= settings.min_samples_leaf)

    def best(self, settings, border):
        """Return the largest gain of a split that is valid even if weights are off by ``border``."""
        return np.max(self.gain, where=self.is_valid(settings, border), initial=-np.inf)


def score_sides(pairs, rows, sides, settings):
    """Score splits by ``GL²/(WL + λ) + GR²/(WR + λ)``, each side summed by itself so that no light one is a rest."""
    columns = np.column_stack([pairs.gradient[rows], pairs.weight[rows], np.ones(len(rows))])
    gradient, weight, n = np.moveaxis(np.stack([sides @ columns, ~sides @ columns]), -1, 0)  # (2, n_splits) each
    value = np.divide(gradient, weight + settings.reg_lambda, out=np.zeros_like(weight), where=weight > 0)
    score = (gradient * value).sum(axis=0)
    total_gradient, total_weight, _ = columns.sum(axis=0)
    parent = total_gradient**2 / (total_weight + settings.reg_lambda) if total_weight > 0 else 0.0
    by_gradient, by_weight = 2 * np.abs(value).sum(axis=0), (value**2).sum(axis=0)
    return Scores(score - parent, score, weight.min(axis=0), n.min(axis=0), by_gradient, by_weight)


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


def rounding_slack(pairs, rows, score, rounding):
    """Return how far rounding moves a score if rows are off by ``rounding`` of the mean row, up as often as down.

    The score of a side with sums G and W moves by ``2|G|/W · ΔG + (G/W)² · ΔW``. The sums move by ``ε Σ|g| / √n`` and
    ``ε W / √n``, and ``(Σ|g|)² <= W Σ g²/w``.
    """
    g, w = pairs.gradient[rows], pairs.weight[rows]
    return rounding * (score + 2 * np.sqrt(score * np.sum(g[w > 0] ** 2 / w[w > 0]))) / np.sqrt(len(rows))


def check_tree(tree, pairs, settings, *, rounding=ROUNDING):
    """Assert that every split is a best one, every leaf cannot be split, and every value is right.

    Two splits of equal gain are a tie that rounding may decide either way, so gains are compared, not splits.
    """
    todo = [(0, np.arange(len(pairs.x)), 0)]
    while todo:
        node, rows, depth = todo.pop()
        scores = score_sides(pairs, rows, candidate_sides(pairs, rows), settings)
        border = rounding * pairs.weight[rows].sum() / np.sqrt(len(rows))
        best = scores.best(settings, border)
        slack = rounding_slack(pairs, rows, scores.score.max(), rounding)
        if tree.left[node] < 0:
            assert depth == settings.max_depth or best <= MIN_GAIN + slack, (node, depth, best)
            check_leaf(tree.value[node], pairs, rows, settings)
            continue
        side = left_side(tree, node, pairs, rows)
        found = score_sides(pairs, rows, side[None], settings)
        assert found.is_valid(settings, -border), (node, depth, found)
        assert found.gain[0] >= best - slack, (node, depth, found.gain, best, slack)
        np.testing.assert_allclose(tree.gain[node], found.gain[0], rtol=0, atol=slack)
        todo += [(tree.left[node], rows[side], depth + 1), (tree.right[node], rows[~side], depth + 1)]


def check_leaf(value, pairs, rows, settings):
    g, w = pairs.gradient[rows].sum(), pairs.weight[rows].sum()
    error = 1e-12 * np.abs(pairs.gradient[rows]).sum()
    if type(settings) is not HistTree:
        assert abs(g) <= error or value == np.sign(g)
    elif w >= settings.min_child_weight and w > 0:  # a root may be lighter; its value is 0
        np.testing.assert_allclose(value, g / (w + settings.reg_lambda), rtol=1e-9, atol=error / w)


def random_target(rng, n, n_actions, kind="continuous"):
    """Return gradients whose rows sum to zero (up to rounding) and weights, all of them numbers of float32.

    ``"continuous"`` has no ties; ``"tied"`` has few different numbers; ``"heavy"`` spans twelve orders of magnitude.
    """
    if kind == "tied":
        gradient, weight = rng.integers(-2, 3, (n, n_actions)) / 2, np.ones(n)
    else:
        gradient, weight = rng.normal(size=(n, n_actions)), rng.uniform(0.5, 2.0, n)
    gradient -= gradient.mean(axis=1, keepdims=True) if kind != "tied" else 0.0
    gradient[:, -1] -= gradient.sum(axis=1)
    scale = 10.0 ** rng.uniform(-6, 6, n) if kind == "heavy" else np.ones(n)
    gradient, weight = gradient * scale[:, None], weight * scale
    return gradient.astype(np.float32).astype(float), weight.astype(np.float32).astype(float)


def random_mask(rng, n, n_actions):
    """Return a mask in which actions are eligible more or less often, and every row has an eligible one."""
    mask = rng.random((n, n_actions)) < rng.uniform(0.2, 1.0, n_actions)
    mask[np.arange(n), rng.integers(n_actions, size=n)] = True
    return mask
