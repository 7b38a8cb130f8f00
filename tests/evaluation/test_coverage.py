"""A quick version of benchmarks/interval_coverage.py: fixed seeds, few logs, generous limits."""

import numpy as np
import pytest

import bopl
from bopl.simulation import coverage_worlds, hopeless_world, make_world

N_LOGS = 60
FIRST_SEED = 100_000  # other logs than those of the benchmark
WORLDS = coverage_worlds()
SIZES = {name: min(world.n_samples, 4000) for name, world in WORLDS.items()} | {"rare rewards": 12_000}


def evaluate_many(world, interval, *, n_samples, n_logs=N_LOGS, estimators=None, reward_model=True):
    rows = {}
    for seed in range(FIRST_SEED, FIRST_SEED + n_logs):
        sample = world.sample(seed, n_samples=n_samples)
        evaluation = bopl.evaluate(
            sample.log,
            sample.policy_prob,
            estimators=estimators,
            interval=interval,
            reward_model=sample.reward_hat if reward_model else None,
            logging_policy=sample.logging_prob if reward_model else None,
            reward_range=world.reward_range,
            min_propensity=world.min_propensity,
            n_replicates=200,
            random_state=seed,
        )
        for row in evaluation.rows:
            rows.setdefault(row["estimator"], []).append(row)
    return rows


def share_covered(rows, truth, prefix):
    return np.mean([row[f"{prefix}ci_lower"] <= truth <= row[f"{prefix}ci_upper"] for row in rows])


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_intervals_cover_the_truth_and_unbiased_estimators_have_no_bias(name, interval):
    world = WORLDS[name]
    found = evaluate_many(world, interval, n_samples=SIZES[name], estimators=["ips", "snips", "dr", "sndr", "beta_ips"])
    for estimator, rows in found.items():
        # 60 logs: nine in ten is two standard errors below what is promised.
        assert share_covered(rows, world.value, "") >= 0.85, estimator
        assert share_covered(rows, world.value - world.logging_value, "uplift_") >= 0.85, estimator
        if estimator in ("ips", "dr"):
            error = np.array([row["value"] for row in rows]) - world.value
            assert abs(error.mean()) < 3.0 * error.std(ddof=1) / np.sqrt(N_LOGS), estimator


def test_skewness_is_shared_out_between_both_ends():
    """Rare rewards make the estimate skewed to the right: a plain interval misses by being too low."""
    world = make_world("rare", rate=0.02, seed=11)
    rows = evaluate_many(world, "normal", n_samples=4000, n_logs=300, estimators="ips", reward_model=False)["ips"]
    plain = [abs(row["value"] - world.value) > 1.96 * row["std_err"] for row in rows]
    too_low = np.mean([row["ci_upper"] < world.value for row in rows])
    too_high = np.mean([row["ci_lower"] > world.value for row in rows])
    plainly_too_low = np.mean([row["value"] + 1.96 * row["std_err"] < world.value for row in rows])
    assert too_low < 0.05 < plainly_too_low
    assert too_high < 0.05
    assert too_low + too_high < np.mean(plain)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("interval", ["empirical_bernstein", "log_smoothing", "betting"])
def test_bounds_hold_at_least_as_often_as_they_say(name, interval):
    world = WORLDS[name]
    rows = evaluate_many(world, interval, n_samples=500, reward_model=False)["ips"]
    for truth, prefix in ((world.value, ""), (world.value - world.logging_value, "uplift_")):
        assert share_covered(rows, truth, prefix) >= 0.95


def test_a_log_that_cannot_answer_is_refused():
    rows = evaluate_many(hopeless_world(), "normal", n_samples=1000, estimators=["ips", "snips", "dr"])
    for found in rows.values():
        assert {row["verdict"] for row in found} == {"not trustworthy"}


def test_verdicts_are_seldom_wrong_and_found_where_they_can_be():
    world = WORLDS["far policy"]
    verdicts = [row["verdict"] for row in evaluate_many(world, "normal", n_samples=4000)["snips"]]
    assert "worse" not in verdicts  # the policy is better
    assert verdicts.count("better") > 0.9 * N_LOGS
