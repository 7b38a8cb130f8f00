"""The last step of a learning curve is told from noise by pairing both policies on the same samples."""

import numpy as np
import pytest

import bopl
from bopl.evaluation import learning_curve


def two_action_log(seed, n_samples=2000, *, effect=0.1, copies=1):
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 2, n_samples)
    reward = (rng.random(n_samples) < 0.3 + effect * action).astype(float)
    rows = np.repeat(np.arange(n_samples), copies)
    return bopl.BanditLog(
        np.zeros((len(rows), 1)), action[rows], reward[rows], np.full(len(rows), 0.5), group=rows, actions=[0, 1]
    )


def policy(share, log):
    return np.tile([1.0 - share, share], (len(log), 1))


def test_the_interval_of_the_gain_covers_the_truth_as_often_as_it_says():
    covered = 0
    for seed in range(200):
        log = two_action_log(seed)
        curve = learning_curve(log, {100: policy(0.5, log), 200: policy(0.8, log)})
        covered += curve.gain_ci_lower <= 0.03 <= curve.gain_ci_upper
    assert 0.91 <= covered / 200 <= 0.99


def test_the_gain_is_the_difference_of_the_uplifts():
    log = two_action_log(0)
    curve = learning_curve(log, {200: policy(0.9, log), 100: policy(0.4, log)})
    assert curve.n_trained == (100, 200)
    uplifts = [row["uplift"] for row in curve.plan.rows]
    assert curve.gain == pytest.approx(uplifts[1] - uplifts[0])


def test_copies_within_groups_do_not_narrow_the_interval():
    widths = []
    for copies in (1, 5):
        log = two_action_log(0, copies=copies)
        curve = learning_curve(log, {100: policy(0.5, log), 200: policy(0.8, log)})
        widths.append(curve.gain_ci_upper - curve.gain_ci_lower)
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)


@pytest.mark.parametrize(
    ("shares", "effect", "min_uplift", "expected", "sentence"),
    [
        ((0.1, 0.9), 0.3, None, True, "More data would probably still help: going from 100 to 200"),
        ((0.5, 0.5), 0.3, None, False, "More data would hardly help"),
        ((0.5, 0.51), 0.3, 0.05, False, "More data would hardly help"),
        ((0.5, 0.6), 0.0, None, None, "2,000 held-out samples cannot tell whether more data would help"),
    ],
)
def test_the_sentence_says_what_the_interval_allows(shares, effect, min_uplift, expected, sentence):
    log = two_action_log(1, effect=effect)
    policies = {n: policy(share, log) for n, share in zip((100, 200), shares, strict=True)}
    curve = learning_curve(log, policies, min_uplift=min_uplift)
    assert curve.still_rises is expected
    assert curve.sentence.startswith(sentence)


def test_the_gain_is_the_comparison_of_the_last_two():
    log = two_action_log(0)
    first, second = policy(0.4, log), policy(0.9, log)
    curve = learning_curve(log, {100: first, 200: second})
    row = bopl.compare(log, {"new": second}, against=first, estimators="snips").comparisons[0]
    assert (curve.gain, curve.gain_ci_lower, curve.gain_ci_upper) == (row.difference, row.ci_lower, row.ci_upper)


def test_too_few_held_out_samples_cannot_tell_and_say_why():
    log = two_action_log(0, 60, effect=0.9)
    curve = learning_curve(log, {100: policy(0.0, log), 200: policy(1.0, log)})
    assert curve.gain_ci_lower > 0.0
    assert curve.still_rises is None
    assert "worth 34 effective samples" in curve.complaint
    assert curve.sentence.endswith(curve.complaint)


def test_one_policy_makes_no_curve():
    log = two_action_log(0)
    with pytest.raises(ValueError, match="at least two sizes; got 1"):
        learning_curve(log, {100: policy(0.5, log)})


def test_sizes_must_be_numbers_of_samples():
    log = bopl.BanditLog(np.zeros((100, 1)), np.arange(100) % 2, np.arange(100) % 3, np.full(100, 0.5))
    policy = np.full((100, 2), 0.5)
    for given, message in (({"small": policy, "large": policy}, "must be an integer"), ([policy, policy], "a mapping")):
        with pytest.raises(TypeError, match=message):
            bopl.evaluation.learning_curve(log, given)
