"""Our tree and another library's, walked together from the root over the pairs that reach each node.

A split is what it does to the pairs of its node, whatever column and threshold it is written with. At each node both
trees must split alike, or both splits must be best ones: of a gain that the library's own arithmetic cannot tell from
the largest. Below such a tie the trees are different problems, and the walk does not go on there; `check_tree` has
looked at all of our own nodes by then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import xgboost as xgb

from bopl.learner.hist_tree import HistTree
from hist_tree_naive import MIN_GAIN, ROUNDING, candidate_sides, check_tree, left_side, score_sides

FLOAT32 = 2.0**-22  # XGBoost adds two scores and subtracts a third, each of them rounded to float32
FLOAT64 = 2.0**-46
DRIFT = 2.0**-48  # float64 sums of some hundred rows, of which others are subtracted
LEAF_TOLERANCE = 1e-5  # of a leaf's value


@dataclass
class ReferenceTree:
    """A tree of another library over the columns ``[x; onehot(a); features of a]``; node 0 is the root."""

    left: np.ndarray
    right: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    epsilon: float  # relative error of its scores
    inherits_sums: bool = False  # a child's sums are what its sibling leaves of the parent's
    is_closed: bool = False  # x <= threshold goes left, rather than x < threshold

    def side(self, node, expanded):
        x = expanded[:, self.column[node]]
        below = x <= self.threshold[node] if self.is_closed else x < self.threshold[node]
        return np.where(np.isnan(x), self.missing_left[node], below)

    def describe(self, node):
        if self.left[node] < 0:
            return "a leaf"
        return f"column {self.column[node]} {'<=' if self.is_closed else '<'} {self.threshold[node]:g}"


@dataclass
class Tie:
    """A node at which the trees differ because two splits, or a split and none, are worth the same."""

    depth: int
    rows: np.ndarray = field(repr=False)  # the node's pairs
    ours: str
    theirs: str
    our_gain: float
    their_gain: float


@dataclass
class Comparison:
    n_same: int = 0  # nodes at which both trees do the same, leaves included
    ties: list[Tie] = field(default_factory=list)


def describe(tree, node):
    if tree.left[node] < 0:
        return "a leaf"
    if tree.feature[node] >= 0:
        return f"x[{tree.feature[node]}] {'==' if tree.is_equal[node] else '<'} {tree.threshold[node]:g}"
    if tree.action_feature[node] >= 0:
        return f"action feature {tree.action_feature[node]} < {tree.threshold[node]:g}"
    return f"action {tree.action[node]}"


def expanded_matrix(pairs):
    n_actions = len(pairs.action_features)
    identity = np.eye(n_actions, dtype=np.float32)
    return np.hstack([pairs.x, identity[pairs.action], pairs.action_features[pairs.action]]).astype(np.float32)


def fit_xgboost(context, gradient, weight, settings, *, method, mask=None, features=None):
    """Fit one XGBoost tree on the expanded matrix, ineligible pairs with neither gradient nor weight."""
    n, n_actions = gradient.shape
    by_action = np.eye(n_actions) if features is None else np.hstack([np.eye(n_actions), features])
    expanded = np.hstack([np.repeat(context, n_actions, axis=0), np.tile(by_action, (n, 1))]).astype(np.float32)
    eligible = np.ones((n, n_actions)) if mask is None else mask
    matrix = xgb.DMatrix(expanded, np.zeros(len(expanded)))
    params = {
        "tree_method": method, "max_depth": settings.max_depth, "min_child_weight": settings.min_child_weight,
        "reg_lambda": settings.reg_lambda, "eta": 1.0, "base_score": 0.0, "nthread": 1,
    }  # fmt: skip
    booster = xgb.Booster(params, [matrix])
    booster.boost(matrix, 0, grad=-(gradient * eligible).ravel(), hess=(weight[:, None] * eligible).ravel())
    nodes = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"][0]
    condition = np.array(nodes["split_conditions"], np.float32)
    return ReferenceTree(
        np.array(nodes["left_children"]), np.array(nodes["right_children"]), np.array(nodes["split_indices"]),
        condition, np.array(nodes["default_left"], bool), condition, FLOAT32, inherits_sums=method == "hist",
    )  # fmt: skip


def from_sklearn(classifier):
    """Return a fitted DecisionTreeClassifier of the classes -1 and 1."""
    tree = classifier.tree_
    value = classifier.classes_[tree.value[:, 0].argmax(axis=1)]
    missing_left = tree.missing_go_to_left.astype(bool)
    return ReferenceTree(
        tree.children_left, tree.children_right, tree.feature, tree.threshold, missing_left, value, FLOAT64,
        is_closed=True,
    )  # fmt: skip


def compare_trees(tree, reference, pairs, settings, *, rounding=ROUNDING):
    """Assert that two trees are the same but for ties, and return how many nodes that was shown for, and the ties."""
    check_tree(tree, pairs, settings, rounding=rounding)
    walk = _Walk(tree, reference, pairs, settings)
    todo = [(0, 0, np.flatnonzero(pairs.weight > 0), 0)]  # pairs without weight may go anywhere
    while todo:
        todo += walk.step(*todo.pop())
    return walk.found


class _Walk:
    def __init__(self, tree, reference, pairs, settings):
        self.tree, self.reference, self.pairs, self.settings = tree, reference, pairs, settings
        self.expanded = expanded_matrix(pairs)
        self.found = Comparison()

    def step(self, ours, theirs, rows, depth):
        """Compare one node of each tree; return the pairs of nodes below."""
        is_leaf = self.tree.left[ours] < 0, self.reference.left[theirs] < 0
        if all(is_leaf):
            self.compare_leaves(ours, theirs, rows)
            self.found.n_same += 1
            return []
        if not any(is_leaf):
            our_side = left_side(self.tree, ours, self.pairs, rows)
            their_side = self.reference.side(theirs, self.expanded[rows])
            below = [self.reference.left[theirs], self.reference.right[theirs]]
            if np.array_equal(our_side, ~their_side):  # which side is called left makes no difference
                their_side, below = our_side, below[::-1]
            if np.array_equal(our_side, their_side):
                self.found.n_same += 1
                return [
                    (self.tree.left[ours], below[0], rows[our_side], depth + 1),
                    (self.tree.right[ours], below[1], rows[~our_side], depth + 1),
                ]
        self.explain(ours, theirs, rows, depth)
        return []

    def drift(self, rows):
        """Return by how much the reference's sums of gradients and of weights may be off."""
        base = slice(None) if self.reference.inherits_sums else rows
        return DRIFT * np.abs(self.pairs.gradient[base]).sum(), DRIFT * self.pairs.weight[base].sum()

    def compare_leaves(self, ours, theirs, rows):
        value, weight = self.tree.value[ours], self.pairs.weight[rows].sum()
        of_gradient, of_weight = self.drift(rows)
        drift = (of_gradient + abs(value) * of_weight) / max(weight - of_weight, np.finfo(float).tiny)
        is_a_coin_flip = type(self.settings) is not HistTree and abs(self.pairs.gradient[rows].sum()) <= of_gradient
        if not is_a_coin_flip:
            np.testing.assert_allclose(self.reference.value[theirs], value, rtol=LEAF_TOLERANCE, atol=drift)

    def explain(self, ours, theirs, rows, depth):
        """Assert that the reference, too, did with a node what is best up to its own rounding; note the tie."""
        scores = score_sides(self.pairs, rows, candidate_sides(self.pairs, rows), self.settings)
        border = self.drift(rows)[1] + FLOAT32 * self.settings.min_child_weight
        is_valid = scores.is_valid(self.settings, border)
        gain_at_least = scores.gain - self.error(scores, rows)
        sure = np.max(gain_at_least, where=is_valid, initial=-np.inf)  # a gain that it cannot have missed
        our_gain = their_gain = 0.0
        if self.tree.left[ours] >= 0:
            side = left_side(self.tree, ours, self.pairs, rows)
            our_gain = float(score_sides(self.pairs, rows, side[None], self.settings).gain[0])
        if self.reference.left[theirs] < 0:
            assert depth == self.settings.max_depth or sure <= MIN_GAIN, (depth, "theirs is a leaf", our_gain, sure)
        else:
            side = self.reference.side(theirs, self.expanded[rows])
            chosen = score_sides(self.pairs, rows, side[None], self.settings)
            their_gain = float(chosen.gain[0])
            assert chosen.is_valid(self.settings, -border), (depth, "theirs is not valid", chosen)
            is_best = their_gain + self.error(chosen, rows)[0] >= sure
            assert is_best or sure <= MIN_GAIN, (depth, our_gain, their_gain, sure)  # scikit-learn splits for any gain
        texts = describe(self.tree, ours), self.reference.describe(theirs)
        self.found.ties.append(Tie(depth, rows, *texts, our_gain, their_gain))

    def error(self, scores, rows):
        """Return how far the reference's rounding may move each score."""
        of_gradient, of_weight = self.drift(rows)
        return self.reference.epsilon * scores.score + scores.by_gradient * of_gradient + scores.by_weight * of_weight
