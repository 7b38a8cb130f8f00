"""`check_estimator`: what intervals, merging over files and the verdict rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation import Estimator, Need, ValueAccumulator, evaluate
from bopl.evaluation.estimator_registry import get_estimators
from bopl.evaluation.interval_registry import get_interval
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
    - What it declares is so: `needs`, `sharpened_by`, `is_unbiased`, `is_weighted_mean`, `has_bounded_terms`,
      `is_monotone_in_weight`, `shifts_with_rewards`.
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
        if not (known.needs_pilot or known.is_tuned_for_rounding):
            other = known.tuned(Pilot(_random_terms(seed + 1, has_logging), N_SAMPLES))
            require(tuned == other, "tuned chooses a setting from the samples: declare needs_pilot.")
        _check_needs(tuned, terms)
        _check_moments(tuned, terms)
        _check_zero(known, terms, has_logging)
        _check_expectation(tuned, seed, has_logging)
    _check_clipping(known, _random_terms(seed, False))
    _check_traits(known, _random_terms(seed, False))
    _check_parts(known, seed)


def _random_terms(seed: int, has_logging: bool) -> Terms:
    rng = np.random.default_rng(seed)
    reward, reward_hat, policy_hat, logging_hat = rng.normal(size=(4, N_SAMPLES))
    weight = rng.gamma(0.5, 2.0, size=N_SAMPLES)
    return Terms(weight, reward, reward_hat, policy_hat, logging_hat if has_logging else None)


def _check_needs(tuned: Estimator, terms: Terms) -> None:
    if not tuned.needs_model:
        try:
            tuned.moments(Terms(terms.importance_weight, terms.reward))
        except (AssertionError, AttributeError, TypeError) as error:
            raise AssertionError("moments fails without a reward model: declare Need.REWARD_MODEL in needs.") from error
    if terms.logging_reward_hat is not None:
        is_sharper = not np.array_equal(tuned.moments(terms), tuned.moments(replace(terms, logging_reward_hat=None)))
        require(
            not is_sharper or Need.LOGGING_DISTRIBUTION in tuned.sharpened_by | tuned.needs,
            "moments uses logging_reward_hat: sharpened_by must name Need.LOGGING_DISTRIBUTION.",
        )


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


def _check_expectation(tuned: Estimator, seed: int, has_logging: bool) -> None:
    """Compare with the truth in a small world, every action of which counts by its propensity."""
    rng = np.random.default_rng(seed)
    propensity, policy = rng.dirichlet(np.full(4, 2.0), size=(2, 5))  # (n_contexts, n_actions)
    reward, reward_hat = rng.normal(size=(2, *policy.shape))
    hats = [np.repeat(np.sum(one * reward_hat, axis=1), 4) for one in (policy, propensity)]
    terms = Terms((policy / propensity).ravel(), reward.ravel(), reward_hat.ravel(), hats[0])
    terms = replace(terms, logging_reward_hat=hats[1]) if has_logging else terms
    mean = propensity.ravel() @ tuned.moments(terms) / len(policy)
    truth = [np.sum(one * reward) / len(policy) for one in (policy, policy - propensity)]
    is_right = np.allclose([tuned.value(mean), tuned.uplift(mean)], truth, rtol=0.0, atol=1e-9)
    require(not tuned.is_unbiased or is_right, "is_unbiased is True, but the expectation is not the policy's value.")


def _check_traits(known: Estimator, terms: Terms) -> None:
    tuned, weight, reward = known.tuned(Pilot(terms, N_SAMPLES)), terms.importance_weight, terms.reward
    moments = tuned.moments(terms)
    value = tuned.value(moments.mean(axis=0))
    if known.is_weighted_mean:
        require(
            np.isclose(value, np.mean(weight * reward)), "is_weighted_mean is True, but the value is not mean(w r)."
        )
    limits, most = (float(reward.min()), float(reward.max())), float(weight.max())
    corners = replace(terms.at(np.arange(4)), importance_weight=np.repeat([0.0, most], 2), reward=np.tile(limits, 2))
    for which in (0, 1) if known.has_bounded_terms else ():
        for bound in tuned.bounded_terms(which, limits, most):
            is_within = np.ptp(tuned.moments(corners) @ bound.direction) <= bound.width * (1.0 + 1e-9)
            require(is_within, "has_bounded_terms is True, but terms differ by more than bounded_terms says.")
    if known.is_monotone_in_weight:
        grid = [replace(terms, importance_weight=np.append(one, weight[1:])) for one in np.linspace(0.0, 9.0, 30)]
        steps = np.diff([tuned.value(tuned.moments(one).mean(axis=0)) for one in grid])
        is_monotone = (steps >= -1e-12).all() or (steps <= 1e-12).all()
        require(is_monotone, "is_monotone_in_weight is True, but the value rises and falls with a sample's weight.")
    if known.shifts_with_rewards:
        moved = Terms(
            weight, *(1.0 + one for one in (reward, terms.reward_hat, terms.policy_reward_hat) if one is not None)
        )
        after = known.tuned(Pilot(moved, N_SAMPLES))
        change = after.value(after.moments(moved).mean(axis=0)) - value
        require(np.isclose(change, 1.0), "shifts_with_rewards is True, but rewards and value do not move together.")


def _check_clipping(known: Estimator, terms: Terms) -> None:
    """A reward with an enormous weight must count in proportion to the weight, unless the estimator clips."""
    tuned = known.tuned(Pilot(terms, N_SAMPLES))
    large = np.array([1e6, 1e7])
    is_clipped = bool(tuned.is_clipped(large).any()) or not np.array_equal(tuned.modified(large), large)
    require(known.clips_weights or not is_clipped, "clips_weights is False, but weights of a million are clipped.")
    if is_clipped or _largest_change(tuned, terms, 2.0) == 0.0:  # or does not use weights
        return
    effect = [_largest_change(tuned, terms, factor) for factor in (1e3, 1e6)]
    require(
        effect[1] > 10.0 * effect[0] or effect[0] == 0.0,
        "The moments of a sample do not grow with its weight: declare that it clips, by clips_weights, and say which "
        "weights, by is_clipped and modified: the verdict counts what is lost.",
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
