"""`check_estimator`: what intervals, merging over files and the verdict rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation import Estimator, ValueAccumulator, evaluate
from bopl.evaluation.estimator_registry import get_estimators
from bopl.evaluation.interval import get_interval
from bopl.evaluation.sample_terms import Pilot, Terms
from bopl.reward import BoostedRewardModel
from bopl.testing.logs import random_log, require, require_equal

N_SAMPLES = 80


def check_estimator(estimator: str | Estimator, *, seed: int = 0) -> None:
    """Raise `AssertionError` unless an estimator keeps its promises on random samples.

    - It has a ``name``, and `moments` has one row per sample.
    - The gradients are the derivatives of `value` and `uplift` in the means of the moments.
    - If the policy is the logging policy, the uplift and every sample's influence on it are exactly zero.
    - `clips_weights` says whether the estimator clips large weights: the verdict depends on it.
    - It depends neither on the order of the samples nor on how a log is divided into files.

    Parameters
    ----------
    estimator : str or Estimator
        The name of a registered estimator, or the object.
    seed : int, default=0
        Seed of the samples.
    """
    (known,) = get_estimators(estimator, get_interval("normal", 0.95), has_reward_model=True)
    require(isinstance(known.name, str) and known.name, "An estimator needs a name.")
    for has_logging in (False, True):
        terms = _random_terms(seed, has_logging)
        tuned = known.tuned(Pilot(terms, N_SAMPLES))
        _check_moments(tuned, terms)
        _check_zero(known, terms, has_logging)
    _check_clipping(known, _random_terms(seed, False))
    _check_parts(known, seed)


def _random_terms(seed: int, has_logging: bool) -> Terms:
    rng = np.random.default_rng(seed)
    reward, reward_hat, policy_hat, logging_hat = rng.normal(size=(4, N_SAMPLES))
    weight = rng.gamma(0.5, 2.0, size=N_SAMPLES)
    return Terms(weight, reward, reward_hat, policy_hat, logging_hat if has_logging else None)


def _check_moments(tuned: Estimator, terms: Terms) -> None:
    moments = tuned.moments(terms)
    require(moments.ndim == 2 and len(moments) == N_SAMPLES, "moments must have one row per sample.")
    require(np.isfinite(moments).all(), "moments must be finite where weights and rewards are.")
    mean = moments.mean(axis=0)
    for name, function, gradient in (
        ("value", tuned.value, tuned.value_gradient(mean)),
        ("uplift", tuned.uplift, tuned.uplift_gradient(mean)),
    ):
        steps = 1e-6 * np.eye(len(mean))
        found = [(function(mean + step) - function(mean - step)) / 2e-6 for step in steps]
        require_equal(
            gradient,
            found,
            f"{name}_gradient must be the derivatives of {name} with respect to the means.",
            rtol=1e-5,
            atol=1e-7,
        )
        stacked = function(np.stack([mean, mean]))
        require_equal(stacked, [function(mean)] * 2, f"{name} must take means of shape (…, n_moments).")
    order = np.random.default_rng(0).permutation(N_SAMPLES)
    require_equal(
        tuned.moments(terms.at(order)),
        moments[order],
        "The moments of a sample must not depend on other samples.",
        atol=1e-12,
    )


def _check_zero(known: Estimator, terms: Terms, has_logging: bool) -> None:
    predicted = terms.policy_reward_hat
    level = Terms(np.ones(N_SAMPLES), terms.reward, terms.reward_hat, predicted, predicted if has_logging else None)
    tuned = known.tuned(Pilot(level, N_SAMPLES))
    moments = tuned.moments(level)
    mean = moments.mean(axis=0)
    promise = "If the policy is the logging policy its uplift must be exactly zero: write (w - 1) r, not w r - r."
    require_equal(tuned.uplift(mean), 0.0, promise)
    require_equal(tuned.uplift_influence(moments, mean), np.zeros(N_SAMPLES), promise)


def _check_clipping(known: Estimator, terms: Terms) -> None:
    """A reward with an enormous weight must count in proportion to the weight, unless the estimator clips."""
    tuned = known.tuned(Pilot(terms, N_SAMPLES))
    large = np.array([1e6, 1e7])
    is_clipped = bool(tuned.is_clipped(large).any()) or not np.array_equal(tuned.modified(large), large)
    require(known.clips_weights or not is_clipped, "clips_weights is False, but weights of a million are clipped.")
    if known.clips_weights or _largest_change(tuned, terms, 2.0) == 0.0:  # or does not use weights
        return
    effect = [_largest_change(tuned, terms, factor) for factor in (1e3, 1e6)]
    require(
        effect[1] > 10.0 * effect[0] or effect[0] == 0.0,
        "clips_weights is False, but the moments of a sample do not grow with its weight: declare that it clips.",
    )


def _largest_change(tuned: Estimator, terms: Terms, factor: float) -> float:
    """Return how much the first sample's moments change if its weight is multiplied."""
    weight: FloatArray = terms.importance_weight.copy()
    weight[0] = max(weight[0], 1.0) * factor
    moved = replace(terms, importance_weight=weight)
    return float(np.abs(tuned.moments(moved)[0] - tuned.moments(terms)[0]).max())


def _check_parts(known: Estimator, seed: int) -> None:
    log = random_log(seed, n_samples=300, min_propensity=0.2)
    prob = np.random.default_rng(seed).dirichlet(np.ones(log.n_actions), size=log.n_samples)
    given: dict[str, Any] = {"estimators": [known]}
    if known.needs_model:
        given["reward_model"] = BoostedRewardModel(n_rounds=3, random_state=0).fit(random_log(seed + 1, n_samples=100))
    whole = evaluate(log, {"new": prob}, **given).row()
    if known.needs_pilot:
        return
    accumulator = ValueAccumulator({"new": None}, n_samples=log.n_samples, **given)
    for rows in (slice(0, 1), slice(1, 120), slice(120, 300)):
        accumulator.add(log.subset(rows), policies={"new": prob[rows]})
    parts = accumulator.result().row()
    for name in ("value", "uplift", "uplift_ci_lower", "uplift_ci_upper"):
        require_equal(
            parts[name], whole[name], f"{name} must not depend on how a log is divided.", rtol=1e-9, atol=1e-12
        )
