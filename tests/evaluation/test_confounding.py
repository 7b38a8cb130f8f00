"""Hidden confounding: bounds under the marginal sensitivity model, and the odds at which a verdict falls."""

from itertools import product

import numpy as np
import pytest

import bopl
from bopl.evaluation.confounding import Sensitivity, describe_confounding
from bopl.evaluation.estimator import IPS, SNIPS, ClippedIPS
from bopl.evaluation.interval import Normal
from bopl.evaluation.model_based import DoublyRobust, SelfNormalisedDR
from bopl.evaluation.paired import Difference
from bopl.evaluation.row import TippingPoint
from bopl.evaluation.sample_terms import Terms

ESTIMATORS = [IPS(), SNIPS(origin=0.0), DoublyRobust(), SelfNormalisedDR()]


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    propensity, prob = rng.uniform(0.1, 0.9, size=n), rng.uniform(0.0, 1.0, size=n)
    reward, hat = rng.normal(size=n), rng.normal(size=n)
    return Terms(prob / propensity, reward, hat, hat + 0.1 * rng.normal(size=n), hat), propensity


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: one.name)
def test_bounds_are_those_of_every_corner_tried(estimator):
    for seed in range(3):
        terms, propensity = sample(8, seed)
        sensitivity = Sensitivity(estimator, terms, propensity)
        box = sensitivity.box(1.7)
        found = []
        for corner in product([False, True], repeat=8):
            weight = np.where(corner, box.high, box.low)
            moments = estimator.moments(Terms(weight, *list(vars(terms).values())[1:]))
            found.append(float(estimator.uplift(moments.mean(axis=0))))
        np.testing.assert_allclose(sensitivity.uplift(1.7), (min(found), max(found)))


def test_snips_bounds_solve_the_fractional_programme():
    from scipy.optimize import linprog

    terms, propensity = sample(12)
    sensitivity = Sensitivity(SNIPS(origin=0.0), terms, propensity)
    box = sensitivity.box(2.0)
    # Charnes and Cooper: weights z = t w with sum(z) = 1 and t >= 0.
    n = len(box.low)
    bounds = np.vstack([np.column_stack([np.eye(n), -box.high]), np.column_stack([-np.eye(n), box.low])])
    solved = linprog(
        np.append(terms.reward, 0.0), bounds, np.zeros(2 * n), [np.append(np.ones(n), 0.0)], [1.0], bounds=(0, None)
    )
    assert sensitivity.uplift(2.0)[0] == pytest.approx(solved.fun - terms.reward.mean())


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: one.name)
def test_odds_of_one_give_the_ordinary_estimate_and_bounds_widen_with_the_odds(estimator):
    terms, propensity = sample(400)
    sensitivity = Sensitivity(estimator, terms, propensity)
    estimate = float(estimator.uplift(estimator.moments(terms).mean(axis=0)))
    assert sensitivity.uplift(1.0) == pytest.approx((estimate, estimate))
    ends = np.array([sensitivity.bounds(odds) for odds in (1.0, 1.2, 2.0, 5.0)])
    assert (np.diff(ends[:, 0]) < 0.0).all()
    assert (np.diff(ends[:, 1]) > 0.0).all()


def one_log(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.integers(2, size=n)
    log = bopl.BanditLog(rng.normal(size=(n, 1)), action, rng.random(n) < 0.3 + 0.2 * action, np.full(n, 0.5))
    return log, np.tile([0.2, 0.8], (n, 1))


@pytest.mark.parametrize("has_groups", [False, True])
def test_at_odds_of_one_the_interval_is_that_of_the_evaluation(has_groups):
    log, policy = one_log()
    if has_groups:
        log = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, group=np.arange(4000) // 4)
    row = bopl.evaluate(log, policy, estimators="snips").row()
    weight = policy[np.arange(4000), log.action_idx] / log.propensity
    own = Sensitivity(
        SNIPS(origin=float(log.reward[0])), Terms(weight, log.reward), log.propensity, log.group, Normal()
    )
    assert own.bounds(1.0) == pytest.approx((row["uplift_ci_lower"], row["uplift_ci_upper"]))


def test_verdicts_fall_at_the_odds_that_are_told():
    log, policy = one_log()
    evaluation = bopl.evaluate(log, {"new": policy}, estimators=["snips"], confounding=True)
    (found,) = evaluation.confounding
    assert found["verdict"] == "better"
    weight = policy[np.arange(4000), log.action_idx] / log.propensity
    own = Sensitivity(SNIPS(origin=float(log.reward[0])), Terms(weight, log.reward), log.propensity)
    assert own.bound(0.999 * found["odds"], upper=False) > 0.0 > own.bound(1.001 * found["odds"], upper=False)
    assert "falls if an unmeasured cause shifts the odds" in evaluation.notes[-1]
    assert evaluation.to_dict()["confounding"][0]["odds"] == found["odds"]


def test_a_worse_policy_has_odds_too_and_an_undecided_one_has_none():
    log, policy = one_log()
    worse = bopl.evaluate(log, policy[:, ::-1], estimators=["ips"], confounding=True)
    assert worse.confounding[0]["odds"] > 1.0
    noise = bopl.BanditLog(log.context, log.action, np.random.default_rng(1).random(4000), log.propensity)
    assert bopl.evaluate(noise, policy, confounding=True).confounding == ()


def test_it_is_told_of_estimated_propensities_and_of_logged_ones_only_on_request():
    log, policy = one_log()
    assert bopl.evaluate(log, policy).confounding == ()
    estimated = log.with_propensity(log.propensity, source="estimated")
    assert len(bopl.evaluate(estimated, policy).confounding) == 2
    assert bopl.evaluate(estimated, policy, confounding=False).confounding == ()


def test_the_truth_lies_within_the_bounds_of_a_confounder_of_known_strength():
    """A hidden u moves the odds of action 1 by a factor of 2 up or down, and the reward with them."""
    n, policy, covered, naive = 4000, np.tile([0.0, 1.0], (4000, 1)), 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hidden = rng.integers(2, size=n)
        action = (rng.random(n) < np.where(hidden, 2 / 3, 1 / 3)).astype(int)
        reward = (rng.random(n) < 0.2 + 0.5 * hidden).astype(float)  # the action does nothing at all
        log = bopl.BanditLog(rng.normal(size=(n, 1)), action, reward, np.full(n, 0.5))
        own = Sensitivity(
            SNIPS(origin=0.0), Terms(policy[np.arange(n), action] / 0.5, log.reward), log.propensity, interval=Normal()
        )
        lower, upper = own.bounds(2.0)
        covered, naive = covered + (lower < 0.0 < upper), naive + (own.bounds(1.0)[0] < 0.0)
    assert covered >= 19
    assert naive == 0


def test_a_verdict_that_nothing_overturns_says_so():
    found = [TippingPoint("new", "dr", "better", odds=float("inf"))]
    assert "more than 100 (dr)" in describe_confounding(found)[0]


def test_a_verdict_falls_where_the_smallest_uplift_of_interest_is_not_exceeded_any_more():
    log, policy = one_log()
    odds = [
        bopl.evaluate(log, policy, estimators="snips", confounding=True, min_uplift=least).confounding[0]["odds"]
        for least in (0.0, 0.02)
    ]
    assert 1.0 < odds[1] < odds[0]


def test_verdicts_that_hold_together_fall_at_the_level_that_each_of_them_has():
    log, policy = one_log()
    alone = bopl.evaluate(log, {"new": policy}, estimators="snips", confounding=True).confounding[0]
    many = {"new": policy, **{f"half {idx}": 0.5 * policy + 0.25 for idx in range(9)}}
    together = bopl.evaluate(log, many, estimators="snips", confounding=True).confounding[0]
    assert 1.0 < together["odds"] < alone["odds"]


@pytest.mark.parametrize("factor", [1e-162, 1e77])
def test_the_odds_do_not_depend_on_the_unit_of_the_rewards(factor):
    log, policy = one_log()
    odds = [
        bopl.evaluate(log.with_reward(log.reward * one), policy, estimators="snips", confounding=True).confounding
        for one in (1.0, factor)
    ]
    assert odds[0][0]["odds"] == pytest.approx(odds[1][0]["odds"])


# -- Of the verdict itself, not of another answer ---------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: one.name)
def test_bounds_of_a_difference_are_those_of_every_corner_tried(estimator):
    pair = Difference(estimator, estimator)
    for seed in range(5):
        first, propensity = sample(8, seed)
        second = Terms(first.importance_weight[::-1], *list(vars(sample(8, seed)[0]).values())[1:])
        sensitivity = Sensitivity(pair, first, propensity, other=second)
        boxes = [Sensitivity(estimator, one, propensity).box(1.3) for one in (first, second)]
        found = []
        for corner in product([False, True], repeat=8):
            moments = pair.paired_moments(*(box.at(np.array(corner)) for box in boxes))
            found.append(float(pair.uplift(moments.mean(axis=0))))
        np.testing.assert_allclose(sensitivity.uplift(1.3), (min(found), max(found)))


def test_a_verdict_against_the_running_policy_has_odds_of_its_own():
    log, policy = one_log()
    better = {"new": policy}
    for running, verdict in (([0.4, 0.6], "better"), ([0.02, 0.98], "worse")):
        evaluation = bopl.evaluate(
            log, better, against=np.tile(running, (4000, 1)), estimators="snips", confounding=True
        )
        assert evaluation.row("new").verdict == "better"  # than the logging policy, in both cases
        (found,) = evaluation.confounding
        assert (found.policy, found.verdict) == ("new", evaluation.decision("new")["verdict"]) == ("new", verdict)
        assert 1.0 < found.odds < np.inf


def test_what_a_verdict_allows_for_brings_the_odds_down():
    log, policy = one_log()
    costs = log.with_reward(log.reward - 1.0)
    evaluation = bopl.evaluate(costs, policy, estimators=ClippedIPS(1.55), confounding=True)
    assert "3% of the policy's probability is clipped off" in evaluation.decision()["reason"]
    weight = policy[np.arange(4000), log.action_idx] / log.propensity
    own = Sensitivity(ClippedIPS(1.55), Terms(weight, costs.reward), log.propensity)
    assert evaluation.confounding[0].odds < 0.95 * own.tipping_odds(upper=False)
    # So does rounding, and a verdict that just holds falls at odds of one.
    rounded = log.with_propensity(np.where(np.arange(4000) % 7, 0.5, 0.49))
    exact, doubted = (
        bopl.evaluate(rounded, policy, estimators="snips", exact_propensity=one, confounding=True).confounding[0].odds
        for one in (True, False)
    )
    assert doubted < exact
    lower = bopl.evaluate(log, policy, estimators="snips").row().uplift_ci_lower
    just = bopl.evaluate(log, policy, estimators="snips", min_uplift=0.9999 * lower, confounding=True)
    assert just.confounding[0].odds == pytest.approx(1.0, abs=1e-3)


def test_a_verdict_that_rests_on_a_guard_has_no_odds_on_the_main_reward():
    log, policy = one_log()
    falling = 1.0 - log.action_idx + 0.1 * np.random.default_rng(0).normal(size=4000)
    log = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, other_rewards={"revenue": falling})
    for guard, verdict, n_found in (("revenue>=-1%", "worse", 0), ("revenue>=-99%", "better", 1)):
        evaluation = bopl.evaluate(log, policy, estimators="snips", guards=guard, confounding=True)
        assert evaluation.decision()["verdict"] == verdict
        assert len(evaluation.confounding) == n_found
