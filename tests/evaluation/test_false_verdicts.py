"""Logs with a known truth in which verdicts were wrong more often than promised; without seeds that were looked for."""

import numpy as np
import pytest

import bopl
from bopl._errors import LoggerDifferenceWarning
from bopl.evaluation import SNIPS
from bopl.evaluation.interval import Evidence
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.sample_terms import Terms
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

N_LOGS = 100
TOO_MANY = 8  # of 100 logs: where 2.5% are promised, one run in 200 has so many


# -- Margins that are shares ------------------------------------------------------------------------------------------


def noisy_log(seed, step, *, n=2000, base=1.0):
    """Return a log of two actions with noisy rewards; the second earns ``step`` more than the first."""
    rng = np.random.default_rng(seed)
    action = rng.integers(2, size=n)
    reward = base + step * (action - 0.5) + 5.0 * rng.normal(size=n)
    return bopl.BanditLog(
        np.zeros((n, 1)), action, reward, np.full(n, 0.5), actions=[0, 1], other_rewards={"r": reward}
    )


def at_the_share(seed, kind):
    """Return whether a policy was said to pass a margin that is a share, at which it is exactly."""
    first, second = np.tile([0.9, 0.1], (2000, 1)), np.tile([0.1, 0.9], (2000, 1))
    if kind == "min_uplift":  # 2 per decision, of 1
        found = bopl.evaluate(noisy_log(seed, 5.0), second, estimators="snips", min_uplift="200%")
    elif kind == "against":  # 4 beside 1
        log, new = noisy_log(seed, 5.0, base=3.0), np.tile([0.3, 0.7], (2000, 1))
        found = bopl.compare(log, {"policy": new}, against=first, estimators="snips", min_uplift="300%")
    else:
        found = bopl.evaluate(noisy_log(seed, 5.0), second, estimators="snips", guards="r<=+200%")
    return found.decision("policy").verdict == "better"


@pytest.mark.parametrize("kind", ["min_uplift", "against", "guard"])
def test_what_is_earned_now_is_noisy_too_where_a_margin_is_a_share_of_it(kind):
    assert sum(at_the_share(seed, kind) for seed in range(N_LOGS)) < TOO_MANY


def test_an_interval_is_wider_by_the_noise_of_a_share_of_what_is_earned_now():
    rng = np.random.default_rng(0)
    weight, reward = rng.choice([0.4, 1.6], size=500), rng.normal(2.0, 3.0, size=500)
    estimator = SNIPS(0.0)
    evidence = Evidence(estimator, SampleSums.of(estimator.moments(Terms(weight, reward))))
    of_uplift = estimator.uplift_influence(estimator.moments(Terms(weight, reward)), evidence.sums.mean)
    held = [of_uplift + share * (reward - reward.mean()) for share in (-0.5, 0.5)]
    assert evidence.share_factor(0.5) == pytest.approx(max(one.std() for one in held) / of_uplift.std())
    assert evidence.share_factor(0.5) > 1.0 == evidence.share_factor(0.0)


def test_a_difference_per_decision_and_a_small_share_are_held_against_the_interval_itself():
    log, second = noisy_log(0, 6.0), np.tile([0.1, 0.9], (2000, 1))
    plain = bopl.evaluate(log, second, estimators="snips").row()
    assert f"at least {plain.uplift_ci_lower:.4g} with" in plain.reason
    for given in (0.01, "1%"):
        row = bopl.evaluate(log, second, estimators="snips", min_uplift=given).row()
        assert (row.verdict, row.uplift_ci_lower) == ("better", plain.uplift_ci_lower)
        assert f"at least {plain.uplift_ci_lower:.3g}" in row.reason


# -- Rare large weights -----------------------------------------------------------------------------------------------


def heavy_log(seed, sign, n=1500):
    """Return a log in which actions do not matter and some propensities are tiny, and a policy."""
    rng = np.random.default_rng(seed)
    prob = softmax(1.2 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, 10)))
    action = draw_actions(prob, rng)
    reward = sign * (1.0 + 0.3 * rng.normal(size=n))
    log = bopl.BanditLog(np.zeros((n, 1)), action, reward, prob[np.arange(n), action], actions=range(10))
    return log, 0.5 * prob + 0.05


@pytest.mark.parametrize(("sign", "verdict"), [(-1.0, "better"), (1.0, "worse")])
def test_large_weights_that_a_log_happens_not_to_have_make_no_policy_better_or_worse(sign, verdict):
    """Plain weighted means take them for nothing."""
    found = []
    for seed in range(N_LOGS):
        log, policy = heavy_log(seed, sign)
        found += [row.verdict for row in bopl.evaluate(log, policy, estimators=["ips", "clipped_ips"]).rows]
    assert found.count(verdict) < TOO_MANY


def test_nor_do_they_where_a_reward_model_is_off():
    found = []
    for seed in range(N_LOGS):
        log, policy = heavy_log(seed, -1.0)
        found.append(bopl.evaluate(log, policy, estimators="dr", reward_model=np.full((1500, 10), -0.5)).row().verdict)
    assert found.count("better") < TOO_MANY


def test_weights_that_scatter_evenly_are_not_missing():
    rng = np.random.default_rng(0)
    action = np.repeat([0, 1, 2, 3], [510, 510, 510, 470])
    log = bopl.BanditLog(np.zeros((2000, 1)), action, -1.0 * (rng.random(2000) < 0.5), np.full(2000, 0.25))
    row = bopl.evaluate(log, np.tile([0.0, 0.0, 0.0, 1.0], (2000, 1)), estimators="ips").row()
    assert row.mean_weight < 0.99
    assert "missing" not in row.reason


# -- Several loggers --------------------------------------------------------------------------------------------------


def three_loggers(seed, trend, n=1500):
    """Return a log of three loggers one after the other whose rewards rise with time."""
    rng = np.random.default_rng(seed)
    context, who = rng.normal(size=(n, 2)), np.repeat([0, 1, 2], n // 3)
    probs = [0.9 * softmax(1.2 * context @ rng.normal(size=(2, 4))) + 0.025 for _ in range(3)]
    action = draw_actions(np.choose(who[:, None], probs), rng)
    logged = np.column_stack([prob[np.arange(n), action] for prob in probs])
    reward = context[:, 0] + trend * np.arange(n) / n + rng.normal(size=n)
    log = bopl.BanditLog(context, action, reward, logged[np.arange(n), who], actions=range(4))
    return log, who, logged, np.tile([0.7, 0.1, 0.1, 0.1], (n, 1))


MISMATCHED = r"earned .*contexts or rewards changed from one to the other, or one was trained on rows"


def test_no_verdict_rests_on_a_mixture_of_loggers_whose_rewards_changed():
    for seed in range(5):
        log, who, logged, policy = three_loggers(seed, trend=2.0)
        with pytest.warns(LoggerDifferenceWarning, match=MISMATCHED):
            mixed = log.balanced(who, logged)
        decided = bopl.evaluate(mixed, policy).decision("policy")
        assert decided.verdict == "not trustworthy"
        assert decided.reason.startswith("The logging policies earned different rewards with the same actions")
        assert bopl.evaluate(log, policy).decision("policy").verdict != "not trustworthy"


def test_no_verdict_rests_on_a_mixture_with_a_logger_that_was_trained_on_these_rows():
    """Where it gives rewarded actions higher probabilities, and the mixture smaller weights."""
    rng = np.random.default_rng(0)
    who, first = np.repeat([0, 1], 2000), rng.integers(4, size=2000)
    learned = np.full((4000, 4), 0.25)
    click = rng.random(4000) < 0.2
    learned[np.flatnonzero(click[:2000])] = 0.1
    learned[np.flatnonzero(click[:2000]), first[click[:2000]]] = 0.7
    action = np.concatenate([first, draw_actions(learned[2000:], rng)])
    logged = np.column_stack([np.full(4000, 0.25), learned[np.arange(4000), action]])
    log = bopl.BanditLog(rng.normal(size=(4000, 1)), action, click, logged[np.arange(4000), who], actions=range(4))
    policy = np.tile([0.4, 0.2, 0.2, 0.2], (4000, 1))
    with pytest.warns(LoggerDifferenceWarning, match=MISMATCHED):
        mixed = log.balanced(who, logged)
    assert bopl.evaluate(mixed, policy, estimators="snips").row().verdict == "not trustworthy"
    assert bopl.evaluate(log, policy, estimators="snips").row().verdict == "inconclusive"


def test_loggers_in_one_world_pass_however_different_their_choices():
    for seed in range(20):
        log, who, logged, policy = three_loggers(seed, trend=0.0)
        row = bopl.evaluate(log.balanced(who, logged), policy, estimators="snips").row()
        assert "alike under all logging policies" in row.reason


# -- Few users who do all the buying ----------------------------------------------------------------------------------


def bought(seed, sign=1.0, *, share=0.01, together=True, **settings):
    """Return the evaluation of a policy that earns the same, on 1,000 users of whom few buy, each time."""
    rng = np.random.default_rng(seed)
    user, n_users = np.repeat(np.arange(1000), 10), 1000
    context = rng.normal(size=(n_users, 2))
    prob = 0.8 * softmax(0.5 * context @ rng.normal(size=(2, 3))) + 0.2 / 3.0
    policy = 0.7 * softmax(context @ rng.normal(size=(2, 3))) + 0.1
    action = draw_actions(prob, rng)[user] if together else draw_actions(prob[user], rng)
    reward = sign * (rng.random(n_users) < share)[user]
    log = bopl.BanditLog(context[user], action, reward, prob[user, action], actions=[0, 1, 2], group=user)
    return bopl.evaluate(log, {"new": policy[user], "old": prob[user]}, estimators="snips", **settings)


@pytest.mark.parametrize(("sign", "verdict"), [(1.0, "worse"), (-1.0, "better")], ids=["rewards", "costs"])
def test_a_few_users_who_do_all_the_buying_do_not_decide_an_ab_test(sign, verdict):
    found = [bought(seed, sign, simultaneous=False).decision("new").verdict for seed in range(N_LOGS)]
    assert found.count(verdict) < 3
    assert found.count("not trustworthy") > 80


def test_nor_do_they_head_to_head_and_the_reason_is_said():
    found = [bought(seed, against="old").decision("new") for seed in range(10)]
    reasons = [one.reason for one in found if one.verdict == "not trustworthy"]
    assert sum("Few groups have the rewards that decide" in one for one in reasons) > 4


def test_users_count_decision_by_decision_where_each_was_drawn_by_itself():
    verdicts = [bought(seed, share=0.02, together=False).decision("new").verdict for seed in range(20)]
    assert "not trustworthy" not in verdicts


def test_many_buyers_are_enough():
    verdicts = [bought(seed, share=0.1).decision("new").verdict for seed in range(20)]
    assert verdicts.count("not trustworthy") < 2
