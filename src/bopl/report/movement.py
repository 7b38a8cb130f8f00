"""From the logging policy to the new one: one pass over the log that keeps a few numbers per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from bopl._policy_reader import PolicyReader, row_blocks
from bopl._typing import AnyArray, FloatArray, IntArray
from bopl._weight import effective_sample_size, mean_std_err, tail_index, top_share
from bopl.log import BanditLog
from bopl.report.feature import Bins, column_values
from bopl.report.plain import label, plain

MAX_ACTIONS = 40  # that are shown by name; the others are taken together
BINS_PER_DECADE = 10  # of the histogram of weights
MIN_WEIGHT = 0.01  # all below share the first bin


@dataclass(frozen=True, eq=False)
class Movement:
    """What a policy does on the rows of a log."""

    # (n_samples,): importance weight; the policy's probability of the logged action, and of its own first choice
    weight: FloatArray
    logged_prob: FloatArray
    best_prob: FloatArray
    best: IntArray  # (n_samples,): that choice
    new_count: FloatArray  # (n_actions,): expected number of times the policy takes each action
    places: Sequence[AnyArray]  # (n_samples,): bin of every sample, by division
    new_by_bin: Sequence[FloatArray]  # (n_bins, n_actions): ``new_count``, by division


def follow_policy(reader: PolicyReader, log: BanditLog, divisions: Sequence[Bins]) -> Movement:
    """Read the probabilities of all samples of a log once, block by block."""
    n_samples = log.n_samples
    if not reader.has_all_actions:
        raise TypeError("a report needs the probabilities of all actions: pass a policy with predict_proba.")
    logged_prob, best_prob = np.empty(n_samples), np.empty(n_samples, np.float32)
    best, new_count = np.empty(n_samples, np.int32), np.zeros(log.n_actions)
    places = [bins.place(column_values(log, bins.column.idx)).astype(np.int8) for bins in divisions]
    new_by_bin = [np.zeros((len(bins.labels), log.n_actions)) for bins in divisions]
    for rows in row_blocks(n_samples, log.n_actions):
        block = reader.block(rows)
        action_prob: AnyArray = np.asarray(block.action_prob)
        logged_prob[rows] = block.logged_prob
        best[rows] = action_prob.argmax(axis=1)
        best_prob[rows] = action_prob.max(axis=1)
        new_count += action_prob.sum(axis=0)
        for place, total in zip(places, new_by_bin, strict=True):
            for bin_idx in range(len(total)):
                total[bin_idx] += action_prob[place[rows] == bin_idx].sum(axis=0)
    return Movement(logged_prob / log.propensity, logged_prob, best_prob, best, new_count, places, new_by_bin)


# -- Actions --------------------------------------------------------------------------------------------------------


def shown_actions(log: BanditLog, movement: Movement) -> IntArray:
    """Return the actions that are shown by name, those with the larger share under either policy first."""
    logged = np.bincount(log.action_idx, minlength=log.n_actions)
    order = np.argsort(-np.maximum(logged, movement.new_count), kind="stable")
    return order if log.n_actions <= MAX_ACTIONS + 1 else order[:MAX_ACTIONS]


def describe_actions(log: BanditLog, movement: Movement, shown: IntArray) -> dict[str, Any]:
    """Return the share of every shown action under both policies, and what it earned where it was logged."""
    logged = np.bincount(log.action_idx, minlength=log.n_actions).astype(np.float64)
    earned = np.bincount(log.action_idx, weights=log.reward, minlength=log.n_actions)
    n_others = log.n_actions - len(shown)
    counts = [_with_others(values, shown) for values in (logged, movement.new_count, earned)]
    with np.errstate(invalid="ignore"):
        reward = counts[2] / counts[0]
    return {
        "labels": [label(log.actions[idx]) for idx in shown] + ([f"{n_others:,} others"] if n_others else []),
        "n_others": n_others,
        "logging": plain(counts[0] / log.n_samples),
        "new": plain(counts[1] / log.n_samples),
        "logged_reward": plain(reward),
        "agreement": plain(float(movement.logged_prob.mean())),
    }


def _with_others(by_action: AnyArray, shown: IntArray) -> AnyArray:
    """Return values of the shown actions along the last axis, and the sum of all others behind them."""
    kept = by_action[..., shown]
    if len(shown) == by_action.shape[-1]:
        return kept
    rest = by_action.sum(axis=-1, keepdims=True) - kept.sum(axis=-1, keepdims=True)
    return np.concatenate([kept, np.maximum(rest, 0.0)], axis=-1)


# -- Segments -------------------------------------------------------------------------------------------------------


def describe_segments(
    log: BanditLog, movement: Movement, divisions: Sequence[Bins], shown: IntArray, confidence: float
) -> list[dict[str, Any]]:
    """Return shares of the actions and uplift, by bins of each column."""
    return [
        {
            "feature": bins.column.name,
            "bins": [
                _describe_bin(log, movement, place == bin_idx, new[bin_idx], text, shown, confidence)
                for bin_idx, text in enumerate(bins.labels)
                if (place == bin_idx).any()
            ],
        }
        for bins, place, new in zip(divisions, movement.places, movement.new_by_bin, strict=True)
    ]


def _describe_bin(
    log: BanditLog, movement: Movement, inside: AnyArray, new: FloatArray, text: str, shown: IntArray, confidence: float
) -> dict[str, Any]:
    n_inside = int(inside.sum())
    logged = np.bincount(log.action_idx[inside], minlength=log.n_actions).astype(np.float64)
    uplift = (movement.weight[inside] - 1.0) * log.reward[inside]
    error = mean_std_err(uplift, None if log.group is None else log.group[inside])
    reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
    mean = float(uplift.mean())
    return {
        "label": text,
        "n": n_inside,
        "logging": plain(_with_others(logged, shown) / n_inside, 4),
        "new": plain(_with_others(new, shown) / n_inside, 4),
        "reward": plain(float(log.reward[inside].mean())),
        "uplift": plain([mean, mean - reach, mean + reach]),
    }


# -- Weights --------------------------------------------------------------------------------------------------------


def describe_weights(log: BanditLog, movement: Movement) -> dict[str, Any]:
    """Return a histogram of the importance weights, by number and by weight, and what their tail is like."""
    weight = movement.weight
    highest = max(float(weight.max()), 10.0 * MIN_WEIGHT)
    n_bins = int(np.ceil(BINS_PER_DECADE * np.log10(highest / MIN_WEIGHT) + 1e-9))
    edges = MIN_WEIGHT * 10.0 ** (np.arange(n_bins + 1) / BINS_PER_DECADE)
    place = np.clip(np.searchsorted(edges, weight, side="right"), 0, n_bins)  # bin 0 lies below the first edge
    total = float(weight.sum())
    mass = np.bincount(place, weights=weight, minlength=n_bins + 1)
    contribution = weight * np.abs(log.reward)
    top = top_share(weight, contribution, len(weight), float(contribution.sum()))
    return {
        "edges": plain(edges, 4),
        "decisions": plain(np.bincount(place, minlength=n_bins + 1) / len(weight), 4),
        "mass": plain(mass / total if total > 0.0 else mass, 4),
        "n_samples": len(weight),
        "effective": plain(effective_sample_size(weight)),
        "mean": plain(total / len(weight)),
        "max": plain(float(weight.max())),
        "median": plain(float(np.median(weight))),
        "top_share": plain(top),
        "tail_index": plain(tail_index(weight, len(weight))),
    }
