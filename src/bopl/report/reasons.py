"""Why the policy chooses as it does: SHAP values of a sample of contexts, by column, by action and by example.

Only differences between the scores of actions matter to a softmax, so that contributions are shown less their mean over
the actions that are explained: a contribution of c multiplies the odds of an action by ``exp(c)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._policy_reader import PolicyReader
from bopl._typing import FloatArray, IntArray
from bopl.log import BanditLog
from bopl.policy.explanation import explanation_work
from bopl.policy.summands import summands_of
from bopl.report.feature import Bins, Column, column_values
from bopl.report.movement import Movement
from bopl.report.plain import label, plain
from bopl.report.training_summary import boosted_parts, winner

MAX_CONTEXTS, MIN_CONTEXTS = 600, 40  # contexts that are explained
MAX_ACTIONS = 12  # ... each with so many actions
MAX_WORK = 400_000_000  # steps of the explanation, some seconds
MAX_FEATURES = 15  # in the chart of importance
MAX_EXAMPLES = 6
MIN_GAP = 0.01  # between the probabilities of two actions that the policy tells apart
MAX_PARTS = 6  # columns that an example names


@dataclass(frozen=True, eq=False)
class Reasons:
    """SHAP values of sampled contexts."""

    rows: IntArray  # (n_contexts,)
    actions: IntArray  # (n_explained,): positions of the actions explained
    feature: FloatArray  # (n_contexts, n_explained, n_features): less their mean over the actions explained
    action: FloatArray  # (n_contexts, n_explained)
    # What scores and values are multiplied by for a contribution of c to multiply odds by ``exp(c)``; infinity where
    # the policy always takes the highest score, and values are shown as they are.
    sharpness: float


def find_reasons(reader: PolicyReader, log: BanditLog, rows: IntArray) -> Reasons | None:
    """Explain the most likely actions in some contexts; None if the policy cannot explain itself."""
    policy, _ = reader.fitted
    ensembles = [part.ensemble_ for part in boosted_parts(policy)]
    if not any(ensemble.predictors for ensemble in ensembles):
        return None
    try:
        work = sum(explanation_work(ensemble) for ensemble in ensembles)
    except TypeError:  # a learner or a start that cannot be explained
        return None
    actions = _likely_actions(reader, rows)
    n_contexts = int(np.clip(MAX_WORK // (max(work, 1) * len(actions)), MIN_CONTEXTS, MAX_CONTEXTS))
    rows = np.sort(rows[:n_contexts])
    feature, action = _explain(policy, log, np.repeat(rows, len(actions)), np.tile(actions, len(rows)))
    feature = feature.reshape(len(rows), len(actions), log.n_features)
    action = action.reshape(len(rows), len(actions))
    return Reasons(
        rows,
        actions,
        feature - feature.mean(axis=1, keepdims=True),
        action - action.mean(axis=1, keepdims=True),
        _sharpness(policy),
    )


def _explain(policy: Any, log: BanditLog, rows: IntArray, action_idx: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what columns and action add to the scores of some (row, action) pairs, as the policy sharpens them."""
    explained = policy.explain(log.context[rows], log.actions[action_idx])
    factor = _sharpness(policy)
    factor = factor if np.isfinite(factor) else 1.0
    return factor * explained.feature, factor * explained.action


def _sharpness(policy: Any) -> float:
    """Return the inverse temperature at which a policy acts; that of its parts' mean score for a blend."""
    acting, parts = winner(policy), boosted_parts(policy)
    if len(parts) == 1:
        return float(parts[0].inverse_temperature)
    return float(
        acting.inverse_temperature * np.average([p.inverse_temperature for p in parts], weights=acting.weights_)
    )


def _likely_actions(reader: PolicyReader, rows: IntArray) -> IntArray:
    """Return the actions that the policy takes most often in some contexts."""
    share = np.asarray(reader.block(np.sort(rows)).action_prob).mean(axis=0)
    return np.argsort(-share, kind="stable")[:MAX_ACTIONS]


# -- Importance -----------------------------------------------------------------------------------------------------


def describe_importance(policy: Any, columns: Sequence[Column], reasons: Reasons | None) -> dict[str, Any] | None:
    """Return the columns that matter most: by what their splits gained, and by mean absolute SHAP value."""
    gain = _gain(policy)
    if reasons is None and (gain is None or not gain.any()):  # nothing is known of what it looks at
        return None
    shap = None if reasons is None else np.abs(reasons.feature).mean(axis=(0, 1))
    ranked = rank_columns(gain, shap)[:MAX_FEATURES]
    return {
        "features": [columns[idx].name for idx in ranked],
        "gain": None if gain is None else plain(gain[ranked]),
        "shap": None if shap is None else plain(shap[ranked]),
        "action_gain": None if gain is None else plain(float(policy.action_importance_)),
        "action_shap": None if reasons is None else plain(float(np.abs(reasons.action).mean())),
        "n_features": len(columns),
        "n_contexts": 0 if reasons is None else len(reasons.rows),
        "knows_logging": reasons is not None and _knows_logging(policy),
    }


def _knows_logging(policy: Any) -> bool:
    """Return whether a part of the scores is the logging policy's, which has other values than trees have."""
    return any(summands_of(part.ensemble_).terms for part in boosted_parts(policy))


def _gain(policy: Any) -> FloatArray | None:
    try:
        gain: FloatArray = policy.feature_importances_
    except AttributeError:
        return None
    return gain


def rank_columns(gain: FloatArray | None, shap: FloatArray | None) -> IntArray:
    """Return columns that matter at all, the most important first: by SHAP value if there is one, else by gain."""
    values = shap if shap is not None else gain
    assert values is not None
    order = np.argsort(-values, kind="stable")
    return order[values[order] > 0.0]


def important_columns(policy: Any, columns: Sequence[Column], reasons: Reasons | None, n_most: int) -> list[Column]:
    """Return the columns that matter most to the policy; none if that is not known."""
    shap = None if reasons is None else np.abs(reasons.feature).mean(axis=(0, 1))
    gain = None if reasons is not None else _gain(policy)
    if gain is None and shap is None:
        return []
    return [columns[idx] for idx in rank_columns(gain, shap)[:n_most]]


# -- By action ------------------------------------------------------------------------------------------------------


def describe_effects(log: BanditLog, divisions: Sequence[Bins], reasons: Reasons) -> dict[str, Any]:
    """Return what each bin of each column adds to the score of each explained action, on average."""
    return {
        "actions": [label(log.actions[idx]) for idx in reasons.actions],
        "n_actions": log.n_actions,
        "is_greedy": bool(np.isinf(reasons.sharpness)),
        "general": plain(reasons.action.mean(axis=0), 4),
        "features": [_effect(log, bins, reasons) for bins in divisions],
    }


def _effect(log: BanditLog, bins: Bins, reasons: Reasons) -> dict[str, Any]:
    place = bins.place(column_values(log, bins.column.idx, reasons.rows))
    found = [bin_idx for bin_idx in range(len(bins.labels)) if (place == bin_idx).any()]
    values = reasons.feature[:, :, bins.column.idx]  # (n_contexts, n_explained)
    return {
        "feature": bins.column.name,
        "labels": [bins.labels[bin_idx] for bin_idx in found],
        "values": plain(np.array([values[place == bin_idx].mean(axis=0) for bin_idx in found]).T, 3),  # by action, bin
    }


# -- Examples -------------------------------------------------------------------------------------------------------


def describe_examples(
    policy: Any, log: BanditLog, columns: Sequence[Column], movement: Movement, reasons: Reasons | None
) -> list[dict[str, Any]]:
    """Return the most frequent moves from a logged action to another one, each with the context of largest difference.

    The parts of an example say what favours the new action over the logged one: differences of SHAP values.
    """
    moves = _frequent_moves(log, movement)
    examples = [_describe_move(log, movement, rows) for rows in moves]
    if reasons is not None and examples:
        picked = np.array([example["row"] for example in examples])
        new, old = (_explain(policy, log, picked, side) for side in (movement.best[picked], log.action_idx[picked]))
        feature, action = new[0] - old[0], new[1] - old[1]
        for k, example in enumerate(examples):
            example |= _describe_parts(log, columns, int(picked[k]), feature[k], float(action[k]))
    return examples


def _frequent_moves(log: BanditLog, movement: Movement) -> list[IntArray]:
    """Return the rows of each of the most frequent (logged action, other first choice)."""
    moved = np.flatnonzero(movement.best_prob > movement.logged_prob + MIN_GAP)
    if len(moved) == 0:
        return []
    code = log.action_idx[moved].astype(np.int64) * log.n_actions + movement.best[moved]
    codes, count = np.unique(code, return_counts=True)
    frequent = codes[np.argsort(-count, kind="stable")[:MAX_EXAMPLES]]
    return [moved[code == chosen] for chosen in frequent]


def _describe_move(log: BanditLog, movement: Movement, rows: IntArray) -> dict[str, Any]:
    gap = movement.best_prob[rows] - movement.logged_prob[rows]
    row = int(rows[gap.argmax()])
    return {
        "row": row,
        "share": plain(len(rows) / log.n_samples),
        "from": label(log.actions[log.action_idx[row]]),
        "to": label(log.actions[movement.best[row]]),
        "propensity": plain(float(log.propensity[row]), 3),
        "from_prob": plain(float(movement.logged_prob[row]), 3),
        "to_prob": plain(float(movement.best_prob[row]), 3),
    }


def _describe_parts(
    log: BanditLog, columns: Sequence[Column], row: int, feature: FloatArray, action: float
) -> dict[str, Any]:
    order = np.argsort(-np.abs(feature), kind="stable")
    shown = [int(idx) for idx in order[:MAX_PARTS] if feature[idx] != 0.0]
    parts = [
        {
            "feature": columns[idx].name,
            "value": columns[idx].text(float(column_values(log, idx, np.array([row]))[0])),
            "effect": plain(float(feature[idx]), 3),
        }
        for idx in shown
    ]
    rest = float(feature[order[MAX_PARTS:]].sum())
    return {"parts": parts, "rest": plain(rest, 3), "general": plain(action, 3)}
