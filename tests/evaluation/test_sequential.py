"""Bounds on the difference of two policies that hold at every look."""

import numpy as np
import pytest

from bopl.evaluation.sequential import (
    anytime_difference,
    anytime_lower_bound,
    difference_terms,
    max_log_capital,
)

RANGE = (0.0, 1.0)


def stream(n_samples, uplift, rng, share=0.5, exploration=0.1):
    """Two actions; the new policy takes the second, the running one the first, and the second earns more."""
    new, running = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    served = (1.0 - exploration) * (share * new + (1.0 - share) * running) + exploration / 2.0
    action = (rng.random(n_samples) < served[1]).astype(int)
    reward = (rng.random(n_samples) < np.array([0.3, 0.3 + uplift])[action]).astype(float)
    limit = 2.0 / exploration
    return difference_terms(
        new[action],
        running[action],
        served[action],
        reward,
        reward_range=RANGE,
        max_new_weight=np.full(n_samples, min(limit, 1.0 / ((1.0 - exploration) * share))),
        max_running_weight=np.full(n_samples, min(limit, 1.0 / ((1.0 - exploration) * (1.0 - share)))),
    )


def test_terms_are_unbiased_and_within_what_was_known_before():
    terms = stream(200_000, 0.2, np.random.default_rng(0))
    assert abs(terms.term.mean() - 0.2) < 4.0 * terms.term.std() / np.sqrt(len(terms.term))
    assert (terms.term >= -terms.least).all()
    assert (terms.term <= terms.most).all()


def test_a_true_difference_is_found_on_the_right_side():
    rng = np.random.default_rng(1)
    better = anytime_difference(stream(4000, 0.2, rng), 0.95, reward_range=RANGE)
    worse = anytime_difference(stream(4000, -0.2, rng), 0.95, reward_range=RANGE)
    assert 0.0 < better.lower < 0.2 < better.upper
    assert worse.lower < -0.2 < worse.upper < 0.0


def test_looking_after_every_sample_finds_a_difference_that_is_not_there_no_more_often_than_stated():
    rng = np.random.default_rng(2)
    delta, n_streams = 0.1, 400
    # The largest capital over all times is what somebody sees who looks after every sample.
    found = [
        max_log_capital(one.term, one.least, 0.0) >= np.log(1.0 / delta)
        for one in (stream(800, 0.0, rng, share=0.1) for _ in range(n_streams))
    ]
    assert np.mean(found) <= delta


def test_the_capital_is_that_of_a_plain_loop():
    terms = stream(50, 0.1, np.random.default_rng(3))
    from bopl.evaluation.sequential import BETS, PARTS

    capital = PARTS.copy()
    assert capital.sum() == pytest.approx(1.0)
    highest = 0.0
    for term, least in zip(terms.term, terms.least, strict=True):
        capital *= 1.0 + BETS * (term - 0.05) / (least + 0.05)
        highest = max(highest, capital.sum())
    assert max_log_capital(terms.term, terms.least, 0.05) == pytest.approx(np.log(highest))


def test_more_samples_never_lower_the_lower_bound():
    terms = stream(3000, 0.1, np.random.default_rng(4))
    bounds = [anytime_lower_bound(terms.term[:n], terms.least[:n], 0.05, width=1.0) for n in (0, 100, 1000, 3000)]
    assert bounds == sorted(bounds)
    assert bounds[0] == -1.0


def test_a_reward_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"rewards must lie in \[0, 1\].*row 1 with 3"):
        difference_terms(
            np.ones(2),
            np.ones(2),
            np.ones(2),
            np.array([0.0, 3.0]),
            reward_range=RANGE,
            max_new_weight=np.ones(2),
            max_running_weight=np.ones(2),
        )


def test_a_weight_that_was_not_possible_is_refused():
    with pytest.raises(ValueError, match="the new policy's weight at row 0 is 10, above the 2"):
        difference_terms(
            np.ones(1),
            np.zeros(1),
            np.full(1, 0.1),
            np.ones(1),
            reward_range=RANGE,
            max_new_weight=np.full(1, 2.0),
            max_running_weight=np.full(1, 2.0),
        )
