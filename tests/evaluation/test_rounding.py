"""Rounded propensities do not make the logging policy better than itself, and exact ones change nothing."""

import numpy as np
import pytest

import bopl
from bopl.log.rounding import find_grid
from bopl.objective.softmax import softmax
from bopl.policy.base import draw_actions


def verdicts(decimals, n_logs=20, n=20_000):
    found = []
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        prob = 0.9 * softmax(rng.normal(size=(n, 8)) * 1.2) + 0.1 / 8
        action = draw_actions(prob, rng)
        own = prob[np.arange(n), action]
        log = bopl.BanditLog(np.ones((n, 1)), action, rng.random(n) < 0.3, own.round(decimals), actions=range(8))
        found += [row["verdict"] for row in bopl.evaluate(log, own, estimators=["ips", "snips"]).rows]
    return found


@pytest.mark.parametrize("decimals", [2, 3])
def test_the_logging_policy_is_not_better_than_itself_where_propensities_are_rounded(decimals):
    assert verdicts(decimals).count("better") <= 2


@pytest.mark.parametrize(
    ("values", "n_actions", "is_rounded"),
    [
        ([0.25], 4, False),
        ([0.5], 2, False),
        ([0.02, 0.92], 5, False),
        ([0.05, 0.85], 4, False),
        ([0.1, 0.3, 0.6], 3, False),
        ([0.33, 0.34], 3, False),
        ([0.33], 3, True),
        ([0.333], 3, True),
        ([0.33, 0.67], 2, True),
        ([0.14], 7, True),
        (np.arange(1, 60) / 100, 5, True),
    ],
)
def test_designs_with_round_numbers_are_told_from_rounded_ones(values, n_actions, is_rounded):
    assert find_grid(np.array(values)).may_be_rounded(n_actions) == is_rounded


def test_digits_and_decimals_give_the_half_unit():
    assert find_grid(np.random.default_rng(0).random(50)) is None
    grid = find_grid(np.float32([0.34, 0.012, 0.0051]).astype(float))
    np.testing.assert_allclose(grid.half_unit(np.array([0.34, 0.012, 0.0051])), [0.005, 0.0005, 0.00005])


def test_exact_propensities_widen_nothing_and_rounded_ones_say_so():
    rng = np.random.default_rng(0)
    action = rng.integers(4, size=2000)
    policy = np.tile([0.4, 0.3, 0.2, 0.1], (2000, 1))
    log = bopl.BanditLog(np.ones((2000, 1)), action, rng.random(2000), np.full(2000, 0.25))
    row = bopl.evaluate(log, policy, estimators="ips").row()
    assert "rounded" not in row["reason"]
    third = bopl.BanditLog(np.ones((2000, 1)), action % 3, rng.random(2000), np.full(2000, 0.33))
    assert "look rounded" in bopl.evaluate(third, policy[:, :3] / 0.9, estimators="snips").row()["reason"]
