"""Bounds that are looked at all the time are right all the time."""

import numpy as np
import pytest

from bopl.evaluation.running import RunningBound


def test_samples_one_by_one_and_in_blocks_give_the_same_interval():
    rng = np.random.default_rng(0)
    weight, reward = rng.exponential(size=400), rng.random(400)
    whole, pieces = RunningBound(), RunningBound()
    whole.add(weight, reward)
    for start in range(0, 400, 7):
        pieces.add(weight[start : start + 7], reward[start : start + 7])
    assert pieces.interval == whole.interval
    assert pieces.value == pytest.approx(np.mean(weight * reward), rel=1e-12)
    assert pieces.mean_weight == pytest.approx(weight.mean(), rel=1e-12)


def test_without_samples_everything_is_possible():
    running = RunningBound(reward_range=(-2.0, 5.0))
    assert running.interval == (-2.0, 5.0)
    assert np.isnan(running.value)
    assert np.isnan(running.mean_weight)


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.97])
def test_at_no_time_is_the_truth_outside_more_often_than_promised(rate):
    rng = np.random.default_rng(1)
    n_missed = 0
    for _ in range(100):
        running = RunningBound(0.9)
        for _ in range(20):
            running.add(np.ones(50), (rng.random(50) < rate).astype(float))
            low, high = running.interval
            if not low <= rate <= high:
                n_missed += 1
                break
    assert n_missed <= 16, "of 100 runs 10 may miss, and 16 with a probability of 4%"


def test_weights_are_accounted_for():
    rng = np.random.default_rng(2)
    action = rng.random(4000) < 0.2  # taken with probability 0.2, and by the policy with 0.8
    reward = np.where(action, 3.0, 1.0)
    running = RunningBound(0.95, (0.0, 4.0))
    running.add(np.where(action, 4.0, 0.25), reward)
    low, high = running.interval
    assert low < 0.8 * 3 + 0.2 * 1 < high
    assert high - low < 1.0
    assert running.mean_weight == pytest.approx(1.0, abs=0.1)


def test_the_interval_never_widens():
    rng = np.random.default_rng(3)
    running, last = RunningBound(), (0.0, 1.0)
    for _ in range(50):
        running.add(np.ones(20), rng.random(20))
        low, high = running.interval
        assert low >= last[0]
        assert high <= last[1]
        last = low, high
