"""`check_objective`: what boosting and the certificate rely on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bopl._typing import BoolArray, FloatArray
from bopl.objective import BoundObjective, Objective, RowWise, TrainingData
from bopl.objective.registry import check_objective as check_can_be_saved
from bopl.objective.registry import describe, get_objective
from bopl.objective.softmax import log_softmax
from bopl.testing.logs import random_log, require, require_equal


def check_objective(objective: str | Objective, *, n_logs: int = 8, seed: int = 0) -> None:
    """Raise `AssertionError` unless an objective keeps its promises on random logs.

    - It has a ``name``, a ``title`` and ``needs_reward_model``, and its settings can be written as JSON.
    - The gradient is minus the derivative of the risk in the scores, times the number of samples; rows sum to zero.
    - The curvature of the risk is at most ``curvature``, so that the certificate holds.
    - No policy has a lower risk than ``optimal_risk``.
    - Sample weights count.
    - Whatever belongs to a sample moves with it when the samples are reordered; of a `RowWise` one, also into a part.

    Parameters
    ----------
    objective : str or Objective
        The name of a registered objective, or the object.
    n_logs : int, default=8
        Number of logs of each kind: with and without masks, with and without sample weights.
    seed : int, default=0
        Seed of the logs.
    """
    known = get_objective(objective)
    for trait, kind in (("name", str), ("title", str), ("needs_reward_model", bool)):
        require(isinstance(getattr(known, trait, None), kind), f"The objective needs {trait}, of type {kind.__name__}.")
    check_can_be_saved(known)
    json.dumps(describe(known))
    for number, data in enumerate(_samples(n_logs, seed)):
        _check_bound(known, data, np.random.default_rng([seed, number]))


def _samples(n_logs: int, seed: int) -> Iterator[TrainingData]:
    for number in range(4 * n_logs):
        log = random_log(seed + number, n_samples=12, min_propensity=10.0 ** -(1 + number % 3), has_mask=number % 2 > 0)
        rng = np.random.default_rng([seed, number, 7])
        weight = rng.exponential(size=log.n_samples) if number % 4 > 1 else None
        estimate = rng.normal(size=(log.n_samples, log.n_actions))
        yield TrainingData(log, estimate, None if weight is None else weight / weight.mean())


def _check_bound(objective: Objective, data: TrainingData, rng: np.random.Generator) -> None:
    bound, n_samples, mask = objective.bind(data), data.n_samples, data.action_mask
    score = rng.normal(scale=2.0, size=(n_samples, data.n_actions))
    log_prob = log_softmax(score, mask)
    gradient = bound.gradient(log_prob)
    shape = (n_samples, data.n_actions)
    require(gradient.shape == shape, f"gradient must have the shape {shape}; it has {gradient.shape}.")
    size = float(np.abs(gradient).max()) + float(np.abs(bound.curvature).max()) + 1e-12
    require_equal(
        gradient.sum(axis=1), np.zeros(n_samples), "Every row of the gradient must sum to zero.", atol=1e-9 * size
    )
    for name, values in (("weight", bound.weight), ("curvature", bound.curvature)):
        is_sound = np.shape(values) == (n_samples,) and np.isfinite(values).all() and (np.asarray(values) >= 0).all()
        require(is_sound, f"{name} must hold a number of at least zero for each sample.")
    _check_derivative(bound, score, gradient, mask, size)
    for scale in (0.01, 1.0, 10.0):
        move = rng.normal(scale=scale, size=shape)
        move = move if mask is None else np.where(mask, move, 0.0)
        change = n_samples * (bound.risk(log_softmax(score + move, mask)) - bound.risk(log_prob))
        limit = -np.sum(gradient * move) + 0.5 * np.sum(bound.curvature * (move**2).sum(axis=1))
        require(
            change <= limit + 1e-9 * size * n_samples * (1.0 + scale),
            f"The curvature of the risk must be at most `curvature`: a step changes the risk by {change:.6g}, above "
            f"{limit:.6g}.",
        )
    _check_worst(bound, data, size)
    best, reached = bound.optimal_risk(), bound.risk(log_prob)
    require(
        reached >= best - 1e-9 * size,
        f"No policy may have a lower risk than optimal_risk: one has {reached:.6g}, below {best:.6g}.",
    )
    _check_weights(objective, data, log_prob, size)
    order = rng.permutation(n_samples)
    require_equal(
        objective.bind(data.take(order)).gradient(log_prob[order]),
        gradient[order],
        "The gradient must not depend on the order of the samples: take everything that belongs to a sample from data.",
        atol=1e-12 * size,
    )
    if isinstance(objective, RowWise):
        some = order[: n_samples // 2]
        estimate, weight = (None if one is None else one[some] for one in (data.reward_estimate, data.sample_weight))
        part = TrainingData(data.log.subset(some), estimate, weight)
        require_equal(
            objective.for_parts(objective.sums_of(data)).bind(part).gradient(log_prob[some]),
            gradient[some],
            "The objective inherits RowWise, so a sample's terms may depend on that sample and on sums_of only.",
            atol=1e-12 * size,
        )


def _check_worst(bound: BoundObjective, data: TrainingData, size: float) -> None:
    """Move single samples where the softmax has its largest curvature: two actions, probabilities (3 ± √3)/6."""
    for row, (logged, mask) in enumerate(zip(data.action_idx, _eligible(data), strict=True)):
        others = np.flatnonzero(mask & (np.arange(data.n_actions) != logged))
        if not len(others):
            continue
        for likely in (3.0 + np.sqrt(3.0), 3.0 - np.sqrt(3.0)):
            score = np.zeros((data.n_samples, data.n_actions))
            score[row] = -50.0
            score[row, [logged, others[0]]] = np.log(likely), np.log(6.0 - likely)
            move = np.zeros_like(score)
            move[row, [logged, others[0]]] = 0.01, -0.01
            log_prob, moved = (log_softmax(one, data.action_mask) for one in (score, score + move))
            change = data.n_samples * (bound.risk(moved) - bound.risk(log_prob))
            limit = -np.sum(bound.gradient(log_prob) * move) + 0.5 * bound.curvature[row] * np.sum(move**2)
            require(
                change <= limit + 1e-9 * size,
                "The curvature of the risk must be at most `curvature`: for a single sample it is larger.",
            )


def _eligible(data: TrainingData) -> BoolArray:
    mask = data.action_mask
    return np.ones((data.n_samples, data.n_actions), dtype=np.bool_) if mask is None else mask


def _check_weights(objective: Objective, data: TrainingData, log_prob: FloatArray, size: float) -> None:
    """Compare the gradients of samples that count once and three times."""
    plain = np.ones(data.n_samples) if data.sample_weight is None else data.sample_weight
    once, thrice = (objective.bind(replace(data, sample_weight=factor * plain)) for factor in (1.0, 3.0))
    require_equal(
        thrice.gradient(log_prob),
        3.0 * once.gradient(log_prob),
        "Samples must be weighted by data.sample_weight, if it is not None.",
        atol=1e-9 * size,
    )


def _check_derivative(
    bound: BoundObjective, score: FloatArray, gradient: FloatArray, mask: BoolArray | None, size: float
) -> None:
    """Compare with central differences."""
    step, found = 1e-6, np.zeros_like(gradient)
    for cell in np.ndindex(score.shape):
        move = np.zeros_like(score)
        move[cell] = step
        up, down = (bound.risk(log_softmax(moved, mask)) for moved in (score + move, score - move))
        found[cell] = -(up - down) / (2.0 * step) * len(score)
    require_equal(
        gradient,
        found,
        "The gradient must be minus the derivative of the risk, times the number of samples.",
        rtol=1e-4,
        atol=1e-5 * size,
    )
