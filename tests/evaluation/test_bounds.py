"""Bounds that cannot be broken: their exact probability of missing, summed over everything that can happen."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import bopl
from bopl.evaluation import ClippedIPS
from bopl.evaluation.betting import betting_lower_bound
from bopl.evaluation.interval_registry import get_interval
from bopl.evaluation.log_smoothing import smoothed_lower_bound

chances = st.floats(0.001, 0.999)
deltas = st.sampled_from([0.2, 0.05, 0.025, 0.001])


@settings(max_examples=60)
@given(n=st.integers(1, 60), chance=chances, size=st.floats(0.01, 1e4), floor=st.sampled_from([0.0, 1.0]), delta=deltas)
def test_smoothed_bound_misses_with_at_most_its_probability(n, chance, size, floor, delta):
    """Terms of two values: the bound depends on how many are large, and that is binomial."""
    mean = chance * size - (1.0 - chance) * floor
    missed = 0.0
    for count in range(n + 1):
        terms = np.repeat([size, -floor], [count, n - count])
        if smoothed_lower_bound(terms, delta, floor=floor) > mean + 1e-9 * max(abs(mean), 1.0):
            missed += binom.pmf(count, n, chance)
    assert missed <= delta


@settings(max_examples=40)
@given(n=st.integers(1, 9), chance=chances, scale=st.floats(0.01, 1.0), delta=deltas)
def test_betting_bound_misses_with_at_most_its_probability(n, chance, scale, delta):
    """The order counts, so all 2^n logs are looked at."""
    large = scale / chance  # the mean is the scale, however rare the large term
    missed = 0.0
    for draws in product((0, 1), repeat=n):
        if betting_lower_bound(large * np.array(draws, dtype=float), delta) > scale + 1e-9:
            missed += chance ** sum(draws) * (1.0 - chance) ** (n - sum(draws))
    assert missed <= delta


def two_action_log(n, n_first, n_rewarded, propensity):
    """A log in which the first action was taken with a propensity; its rewards are 1 or 0, the other's always 0."""
    action = np.repeat([0, 1], [n_first, n - n_first])
    reward = (np.arange(n) < n_rewarded).astype(float)
    return bopl.BanditLog(
        np.ones((n, 1)), action, reward, np.where(action == 0, propensity, 1.0 - propensity), actions=[0, 1]
    )


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(2, 9),
    propensity=st.floats(0.05, 0.95),
    chance=chances,
    prob=st.floats(0.0, 1.0),
    interval=st.sampled_from(["empirical_bernstein", "log_smoothing"]),
    estimator=st.sampled_from(["ips", "cut"]),
)
def test_intervals_of_a_whole_evaluation_miss_with_at_most_their_probability(
    n, propensity, chance, prob, interval, estimator
):
    """Every log of a small world: how often each action was taken, and how often the first was rewarded."""
    estimator = ClippedIPS(1.5) if estimator == "cut" and interval == "empirical_bernstein" else "ips"
    value, uplift = prob * chance, (prob - propensity) * chance
    missed = np.zeros(2)
    for n_first in range(n + 1):
        for n_rewarded in range(n_first + 1):
            log = two_action_log(n, n_first, n_rewarded, propensity)
            row = bopl.evaluate(
                log,
                np.tile([prob, 1.0 - prob], (n, 1)),
                estimators=estimator,
                interval=interval,
                confidence=0.6,
                reward_range=(0.0, 1.0),
                min_propensity=min(propensity, 1.0 - propensity),
            ).row()
            chance_of_log = binom.pmf(n_first, n, propensity) * binom.pmf(n_rewarded, n_first, chance)
            missed += chance_of_log * np.array(
                [
                    not row["ci_lower"] - 1e-9 <= value <= row["ci_upper"] + 1e-9,
                    not row["uplift_ci_lower"] - 1e-9 <= uplift <= row["uplift_ci_upper"] + 1e-9,
                ]
            )
    assert (missed <= 0.4).all()


@pytest.mark.parametrize("interval", ["empirical_bernstein", "log_smoothing", "betting"])
def test_bounds_claim_nothing_of_the_uplift_where_no_reward_was_seen(interval):
    """Without a reward every term of the uplift is zero, but only of the logging policy it is known to be."""
    log = two_action_log(50, 25, 0, 0.5).subset(np.random.default_rng(0).permutation(50))  # bets look at the order
    row = bopl.evaluate(log, np.tile([0.9, 0.1], (50, 1)), interval=interval).row()
    assert row["uplift_ci_lower"] < 0.0 < row["uplift_ci_upper"]


@given(
    rewards=st.lists(st.floats(-3.0, 2.0), min_size=2, max_size=12),
    propensity=st.floats(0.05, 0.95),
    prob=st.floats(0.0, 1.0),
    interval=st.sampled_from(["empirical_bernstein", "log_smoothing", "betting"]),
)
@settings(deadline=None)
def test_bounds_lie_in_the_range_of_the_rewards(rewards, propensity, prob, interval):
    n = len(rewards)
    action = np.arange(n) % 2
    log = bopl.BanditLog(
        np.ones((n, 1)), action, rewards, np.where(action == 0, propensity, 1.0 - propensity), actions=[0, 1]
    )
    policy = np.tile([prob, 1.0 - prob], (n, 1))
    row = bopl.evaluate(log, policy, interval=interval, reward_range=(-3.0, 2.0)).row()
    # Each end holds by itself; where an unlikely draw makes both fail at once they cross, and nobody is misled.
    for name, low, high in (("ci", -3.0, 2.0), ("uplift_ci", -5.0, 5.0)):
        lower, upper = row[f"{name}_lower"], row[f"{name}_upper"]
        assert all(low <= end <= high for end in (lower, upper))
        assert lower <= upper or row["verdict"] == "not trustworthy"


def test_cutting_weights_leaves_the_bound_on_the_value_and_makes_it_sharper():
    rng = np.random.default_rng(0)
    first = rng.random(20_000) < 0.01
    reward = np.where(first, 1.0, rng.random(20_000) < 0.2)
    log = bopl.BanditLog(np.ones((20_000, 1)), (~first).astype(int), reward, np.where(first, 0.01, 0.99))
    policy = np.tile([0.05, 0.95], (20_000, 1))
    arguments = {"interval": "empirical_bernstein", "reward_range": (0.0, 1.0), "min_propensity": 0.0001}
    plain, cut = (bopl.evaluate(log, policy, estimators=one, **arguments).row() for one in ("ips", ClippedIPS(3.0)))
    truth = 0.05 + 0.95 * 0.2
    for row in (plain, cut):
        assert row["ci_lower"] <= truth <= row["ci_upper"]
    # The estimate itself is cut by 0.02; its interval is for the value all the same.
    assert cut["value"] < truth - 0.01
    assert cut["ci_upper"] - cut["ci_lower"] < 0.5 * (plain["ci_upper"] - plain["ci_lower"])


def test_an_unknown_kind_of_interval_is_refused():
    with pytest.raises(ValueError, match="interval must be one of"):
        get_interval("magic", 0.95)


@pytest.mark.parametrize("interval", ["empirical_bernstein", "log_smoothing", "betting"])
def test_rounded_propensities_widen_a_bound_within_the_range_of_the_rewards_only(interval):
    log = bopl.BanditLog(np.ones((2, 1)), [0, 1], [0.0, 1.0], [0.09, 0.91], actions=[0, 1])
    row = bopl.evaluate(log, np.tile([0.0, 1.0], (2, 1)), interval=interval, reward_range=(-3.0, 2.0)).row()
    assert -3.0 <= row.ci_lower < row.ci_upper <= 2.0
    assert -5.0 <= row.uplift_ci_lower < row.uplift_ci_upper <= 5.0
