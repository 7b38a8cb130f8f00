"""The planned number of decisions has the promised power, and the formulas agree with the evaluation."""

import numpy as np
import pytest

import bopl
from bopl.evaluation import detectable_effect, plan, required_samples


def click_log(seed, n_samples, *, share=0.3, group=None):
    """Return a log of two actions that earn 0.3 and 0.4."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n_samples) < share).astype(int)
    reward = (rng.random(n_samples) < np.array([0.3, 0.4])[action]).astype(float)
    propensity = np.array([1 - share, share])[action]
    return bopl.BanditLog(np.zeros((n_samples, 1)), action, reward, propensity, actions=[0, 1], group=group)


def test_the_planned_decisions_have_about_the_promised_power():
    truth = 0.4 - (0.7 * 0.3 + 0.3 * 0.4)
    row = plan(click_log(0, 20_000), {"second": np.tile([0.0, 1.0], (20_000, 1))}, min_uplift=truth).rows[0]
    n_samples = round(row["n_for_min_uplift"])
    told = 0
    for seed in range(300):
        log = click_log(seed + 1, n_samples)
        found = bopl.evaluate(log, np.tile([0.0, 1.0], (n_samples, 1)), estimators="snips").row()
        told += found["uplift_ci_lower"] > 0.0
    assert 0.72 <= told / 300 <= 0.88


def test_several_policies_are_planned_for_verdicts_that_hold_together():
    truth = 0.4 - (0.7 * 0.3 + 0.3 * 0.4)

    def candidates(n):
        return {f"{share:.2f}": np.tile([share, 1.0 - share], (n, 1)) for share in (0.0, 0.01, 0.02, 0.03, 0.04)}

    row = plan(click_log(0, 20_000), candidates(20_000), min_uplift=truth).rows[0]
    n_samples = round(row.n_for_min_uplift)
    told = 0
    for seed in range(100):
        found = bopl.evaluate(click_log(seed + 1, n_samples), candidates(n_samples), estimators="snips")
        told += found.decision("0.00").verdict == "better"
    assert 0.7 <= told / 100 <= 0.9
    alone = plan(click_log(0, 20_000), candidates(20_000), min_uplift=truth, simultaneous=False).rows[0]
    assert alone.n_for_min_uplift < 0.75 * row.n_for_min_uplift


@pytest.mark.parametrize("group", [None, 4])
def test_planned_decisions_are_enough_for_a_verdict(group):
    def log_of(seed, n):
        rng = np.random.default_rng(seed)
        action = rng.integers(2, size=n)
        click = (rng.random(n) < np.array([0.01, 0.05])[action]).astype(float)
        parts = None if group is None else np.arange(n) // group
        return bopl.BanditLog(np.zeros((n, 1)), action, click, np.full(n, 0.5), actions=[0, 1], group=parts)

    def second(n):
        return np.tile([0.1, 0.9], (n, 1))

    row = plan(log_of(0, 40_000), second(40_000)).rows[0]
    n_samples = round(row["n_for_uplift"])
    verdicts = [bopl.evaluate(log_of(seed, n_samples), second(n_samples)).decision()["verdict"] for seed in range(40)]
    assert verdicts.count("better") >= 26  # a power of 0.8
    assert row["n_for_upper"] == row["n_for_uplift"] <= row["n_for_lower"]


def test_a_plan_takes_as_many_groups_as_a_verdict():
    log = click_log(0, 4000, group=np.arange(4000) % 10)
    assert plan(log, np.tile([0.0, 1.0], (4000, 1)), min_uplift=1.0).rows[0]["n_for_min_uplift"] >= 3 * 4000


def test_detectable_effect_is_the_inverse_of_required_samples():
    n_samples = required_samples(0.7, 0.02, confidence=0.9, power=0.7)
    assert detectable_effect(0.7, n_samples, confidence=0.9, power=0.7) == pytest.approx(0.02)
    assert required_samples(0.7, 0.01) == pytest.approx(4.0 * required_samples(0.7, 0.02))
    assert required_samples(0.7, 0.0) == required_samples(0.7, -0.1) == np.inf


@pytest.mark.parametrize("n_groups", [None, 500])
def test_uplift_and_interval_are_those_of_the_evaluation(n_groups):
    group = None if n_groups is None else np.arange(8000) % n_groups
    log = click_log(3, 8000, group=group)
    policy = np.tile([0.4, 0.6], (8000, 1))
    row, found = plan(log, policy).rows[0], bopl.evaluate(log, policy, estimators="snips").row()
    assert row["uplift"] == pytest.approx(found["uplift"])
    width = found["uplift_ci_upper"] - found["uplift_ci_lower"]
    assert row["uplift_ci_upper"] - row["uplift_ci_lower"] == pytest.approx(width, rel=0.02)


def test_before_there_is_a_policy_every_logged_action_is_planned_for():
    log = click_log(4, 4000)
    rows = plan(log, min_uplift=0.02).rows
    assert [row["policy"] for row in rows] == ["always 0", "always 1"]
    assert rows[1]["n_for_min_uplift"] > rows[0]["n_for_min_uplift"]  # the rarer action is known less well
    assert list(plan(log).table["policy"]) == ["always 0", "always 1"]


def test_an_uplift_that_may_be_zero_takes_for_ever_at_the_lower_end():
    log = click_log(5, 300)
    row = plan(log, np.tile([0.68, 0.32], (300, 1))).rows[0]
    assert row["uplift_ci_lower"] <= 0.0
    assert row["n_for_lower"] == np.inf


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="power must"):
        plan(click_log(0, 100), power=1.0)
    with pytest.raises(ValueError, match="min_uplift must"):
        plan(click_log(0, 100), min_uplift=0.0)
    with pytest.raises(TypeError, match="plan takes a BanditLog; got list"):
        plan([])


@pytest.mark.parametrize("factor", [1e-162, 1e77, 1e300])
def test_plans_and_curves_do_not_depend_on_the_unit_of_the_rewards(factor):
    log = click_log(0, 2000)
    scaled, policy = log.with_reward(log.reward * factor), np.tile([0.3, 0.7], (2000, 1))
    plain, row = plan(log, policy).rows[0], plan(scaled, policy).rows[0]
    assert row["n_for_uplift"] == pytest.approx(plain["n_for_uplift"])
    assert row["n_for_ab_test"] == pytest.approx(plain["n_for_ab_test"])
    assert row["uplift_ci_lower"] == pytest.approx(factor * plain["uplift_ci_lower"])
    sizes = {10: np.tile([0.5, 0.5], (2000, 1)), 20: policy}
    curves = [bopl.evaluation.learning_curve(one, sizes) for one in (log, scaled)]
    assert curves[1].gain_ci_lower == pytest.approx(factor * curves[0].gain_ci_lower)


def test_nothing_is_planned_from_rewards_that_are_all_the_same():
    action = np.arange(2000) % 2
    for reward in (0.0, 1.0, 0.1):
        log = bopl.BanditLog(np.zeros((2000, 1)), action, np.full(2000, reward), np.full(2000, 0.5))
        row = bopl.evaluation.plan(log, {"new": np.tile([0.2, 0.8], (2000, 1))}, min_uplift=0.1).rows[0]
        assert row.uplift == row.uplift_ci_lower == row.uplift_ci_upper == 0.0
        assert np.isnan([row.detectable, row.n_for_min_uplift, row.n_for_ab_test]).all()


def test_a_plan_counts_the_groups_that_buy_where_groups_keep_their_action():
    rng = np.random.default_rng(0)
    user, n_users = np.repeat(np.arange(500), 10), 500
    reward = (rng.random(n_users) < 0.01)[user] * 1.0
    needed = []
    for action in (rng.integers(2, size=n_users)[user], rng.integers(2, size=len(user))):
        log = bopl.BanditLog(np.zeros((len(user), 1)), action, reward, np.full(len(user), 0.5), group=user)
        found = bopl.evaluation.plan(log, {"new": np.tile([0.3, 0.7], (len(user), 1))}, min_uplift=10.0)
        needed.append(found.rows[0]["n_for_min_uplift"])
    assert needed[0] > 1.5 * needed[1]
