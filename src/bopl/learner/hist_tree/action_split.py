"""The best split of a node's action set: one action against the rest, or a threshold on a feature of the actions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.problem import action_floats
from bopl.learner.hist_tree.score import NO_SCORE

BY_IDENTITY = -1  # instead of a feature: one action goes right, the rest left


class ActionTable(NamedTuple):
    """Actions in the order of each action feature."""

    order: NDArray[np.int32]  # (n_action_features, n_actions)
    value: NDArray[np.float64]  # (n_action_features, n_actions)


@njit(nogil=True, cache=True)
def _split_score(left_gradient, left_weight, right_gradient, right_weight, reg):  # type: ignore[no-untyped-def]
    """Return the score of two children given by their sums."""
    return left_gradient * left_gradient / (left_weight + reg) + right_gradient * right_gradient / (right_weight + reg)


@njit(nogil=True, cache=True)
def _best_single(sums, actions, total, limits):  # type: ignore[no-untyped-def]
    """Return score and action of the best split of one action against the rest."""
    # In unrounded sums, unlike context splits: there are few actions, and sums of single actions may be tiny where the
    # problem's integers are coarse.
    gradient, weight, pairs = total
    best_score, best_action = NO_SCORE, -1
    for a in actions:
        lighter, fewer = min(sums.weight[a], weight - sums.weight[a]), min(sums.pairs[a], pairs - sums.pairs[a])
        if lighter >= limits.min_child_weight and lighter > 0.0 and fewer >= limits.min_samples_leaf:
            score = _split_score(
                gradient - sums.gradient[a],
                weight - sums.weight[a],
                sums.gradient[a],
                sums.weight[a],
                limits.reg_lambda,
            )
            if score > best_score:
                best_score, best_action = score, a
    return best_score, best_action


@njit(nogil=True, cache=True)
def _best_threshold(sums, is_member, order, value, total, to_beat, limits):  # type: ignore[no-untyped-def]
    """Return score and last action on the left of the best threshold on one feature that beats ``to_beat``, or -1."""
    gradient, weight, pairs = total
    best_score, best_action = to_beat, -1
    left_gradient, left_weight, left_pairs, last = 0.0, 0.0, 0.0, -1
    for a in order:
        if not is_member[a]:
            continue
        lighter, fewer = min(left_weight, weight - left_weight), min(left_pairs, pairs - left_pairs)
        is_open = lighter >= limits.min_child_weight and lighter > 0.0 and fewer >= limits.min_samples_leaf
        if last >= 0 and value[a] > value[last] and is_open:  # between actions of equal value there is no threshold
            score = _split_score(
                left_gradient, left_weight, gradient - left_gradient, weight - left_weight, limits.reg_lambda
            )
            if score > best_score:
                best_score, best_action = score, last
        left_gradient += sums.gradient[a]
        left_weight += sums.weight[a]
        left_pairs += sums.pairs[a]
        last = a
    return best_score, best_action


@njit(nogil=True, cache=True)
def best_action_split(sums, actions, action_table, limits):  # type: ignore[no-untyped-def]
    """Return the best split of an action set.

    Parameters
    ----------
    sums : ActionFloats
        Of each action over the node's contexts.
    actions : ndarray of int32
        The node's action set, ascending.
    action_table : ActionTable
    limits : Limits

    Returns
    -------
    gain : float
        Negative if there is no split.
    feature : int
        ``BY_IDENTITY``, or the action feature.
    action : int
        By identity: the action that goes right. Otherwise the last action, in the feature's order, that goes left.
    """
    gradient, weight, pairs = 0.0, 0.0, 0.0
    for a in actions:
        gradient += sums.gradient[a]
        weight += sums.weight[a]
        pairs += sums.pairs[a]
    # Summed in the order of the actions, which is ascending everywhere, so that the floats are the same everywhere.
    total = (gradient, weight, pairs)
    best_feature = BY_IDENTITY
    best_score, best_action = _best_single(sums, actions, total, limits)
    is_member = np.zeros(len(sums.gradient), np.bool_)
    for a in actions:
        is_member[a] = True
    for feature in range(len(action_table.order)):
        order, value = action_table.order[feature], action_table.value[feature]
        score, action = _best_threshold(sums, is_member, order, value, total, best_score, limits)
        if action >= 0:
            best_score, best_feature, best_action = score, feature, action
    if best_score < 0.0:
        return NO_SCORE, best_feature, best_action
    return best_score - gradient * gradient / (weight + limits.reg_lambda), best_feature, best_action


@njit(nogil=True, cache=True)
def find_action_split(action_sums, actions, action_table, limits, target, floats_out):  # type: ignore[no-untyped-def]
    """Return `best_action_split` of a node's integer sums; ``floats_out`` is overwritten."""
    action_floats(action_sums, actions, target, floats_out)
    return best_action_split(floats_out, actions, action_table, limits)


@njit(nogil=True, cache=True)
def mark_right(feature, action, actions, action_table, is_right_out):  # type: ignore[no-untyped-def]
    """Mark the actions of a set that an action split sends right."""
    for k in range(len(actions)):
        a = actions[k]
        if feature < 0:
            is_right_out[k] = a == action
        else:
            is_right_out[k] = action_table.value[feature, a] > action_table.value[feature, action]
