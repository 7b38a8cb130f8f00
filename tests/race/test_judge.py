"""The judges: their terms against plain loops, and what they promise against the truth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bopl
from bopl.objective.softmax import softmax
from bopl.race.judge import LOW_QUANTILE, Judge, Standing, compare
from bopl.race.race import GATE
from bopl.simulation import make_world
from helpers import logs, make_log


def judge_of(log, seed=0, *, scale=1.0):
    """Return a judge with reward estimates that have little to do with the rewards."""
    return Judge(log, scale * np.random.default_rng([seed, 3]).normal(size=(log.n_samples, log.n_actions)))


def some_policy(log, seed=0):
    return softmax(np.random.default_rng([seed, 4]).normal(scale=2.0, size=(log.n_samples, log.n_actions)))


def moved(judge, shift, factor=1.0):
    """Return the judge of a world in which every reward is ``factor · r + shift``."""
    return Judge(judge.log.with_reward(factor * judge.log.reward + shift), factor * judge.reward_estimate + shift)


def grouped(log, group):
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, group=group)


def naive_parts(judge, action_prob):
    log = judge.log
    for i in range(log.n_samples):
        a = log.action_idx[i]
        direct = sum(action_prob[i, b] * judge.reward_estimate[i, b] for b in range(log.n_actions))
        yield direct, action_prob[i, a] / log.propensity[i], log.reward[i] - judge.reward_estimate[i, a]


@given(logs(), st.integers(0, 5))
def test_estimates_are_those_of_a_plain_loop(log, seed):
    judge, action_prob = judge_of(log, seed), some_policy(log, seed)
    parts = list(naive_parts(judge, action_prob))
    total = sum(weight for _, weight, _ in parts)
    left_over = sum(weight * left for _, weight, left in parts) / total
    expected = [
        direct + left_over + weight / (total / len(parts)) * (left - left_over) for direct, weight, left in parts
    ]
    terms = judge.estimates(action_prob)
    np.testing.assert_allclose(terms, expected, rtol=1e-9, atol=1e-9)
    # Their mean is the self-normalised doubly robust estimate itself: the linear term has mean zero.
    value = np.mean([direct for direct, _, _ in parts]) + left_over
    assert terms.mean() == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(logs(), st.integers(0, 5))
def test_cautious_terms_are_those_of_a_plain_loop(log, seed):
    judge, action_prob = judge_of(log, seed), some_policy(log, seed)
    low, spread = np.quantile(log.reward, LOW_QUANTILE), log.reward.std()

    def smoothed(values):
        noise = np.sqrt(sum(value**2 for value in values) / len(values))
        limit = np.sqrt(len(values)) * np.sqrt((spread if spread > 0.0 else noise) * noise)
        return [limit * np.log(1.0 + value / limit) if value > 0.0 else value for value in values]

    parts = list(naive_parts(judge, action_prob))
    by_weight = smoothed([weight * (reward - low) for reward, (_, weight, _) in zip(log.reward, parts, strict=True)])
    by_model = smoothed([weight * left for _, weight, left in parts])
    expected = [
        0.5 * (low + one + direct + other)
        for (direct, _, _), one, other in zip(parts, by_weight, by_model, strict=True)
    ]
    np.testing.assert_allclose(judge.cautious(action_prob), expected, rtol=1e-9, atol=1e-9)


@given(logs(), st.integers(0, 5))
def test_a_cautious_term_is_never_above_the_mean_of_its_plain_terms(log, seed):
    judge, action_prob = judge_of(log, seed), some_policy(log, seed)
    low = np.quantile(log.reward, LOW_QUANTILE)
    plain = [
        0.5 * (low + weight * (reward - low) + direct + weight * left)
        for reward, (direct, weight, left) in zip(log.reward, naive_parts(judge, action_prob), strict=True)
    ]
    assert (judge.cautious(action_prob) <= np.array(plain) + 1e-9 * (1.0 + np.abs(plain))).all()


@pytest.mark.parametrize("name", ["estimates", "cautious"])
@pytest.mark.parametrize(("shift", "factor"), [(5.0, 1.0), (-3.0, 1.0), (0.0, 20.0), (-7.0, 0.1)])
def test_zero_and_unit_of_the_rewards_are_arbitrary(name, shift, factor):
    log = make_log(1, n_samples=200)
    judge, action_prob = judge_of(log), some_policy(log)
    before, after = (getattr(one, name)(action_prob) for one in (judge, moved(judge, shift, factor)))
    np.testing.assert_allclose(after, factor * before + shift, rtol=1e-9, atol=1e-9)


def test_estimates_of_what_the_reward_model_knows_exactly_have_no_noise():
    log = make_log(2, n_samples=100)
    estimate = np.tile(log.reward[:, None], (1, log.n_actions))
    action_prob = some_policy(log)
    terms = Judge(log, estimate).estimates(action_prob)
    np.testing.assert_allclose(terms, log.reward, atol=1e-12)
    assert compare(terms, log.reward, log) == Standing(pytest.approx(log.reward.mean()), 0.0, 0.0)


def test_a_policy_that_takes_no_logged_action_is_judged_by_the_reward_model_alone():
    log = make_log(3, n_samples=50, n_actions=3)
    judge = judge_of(log)
    other = np.eye(3)[(log.action_idx + 1) % 3]
    expected = judge.reward_estimate[np.arange(50), (log.action_idx + 1) % 3]
    np.testing.assert_array_equal(judge.estimates(other), expected)


N_LOGS = 200


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("has_model", [True, False])
def test_estimates_are_unbiased_and_their_standard_errors_are_right(seed, has_model):
    """Over 200 logs of a known world: four standard errors of the mean, and their size within a fifth."""
    world = make_world("judged", n_actions=4, n_samples=400, seed=seed)
    found = []
    for number in range(N_LOGS):
        drawn = world.sample(number)
        estimate = drawn.reward_hat if has_model else np.zeros_like(drawn.reward_hat)
        terms = Judge(drawn.log, estimate).estimates(drawn.policy_prob)
        found.append(compare(terms, np.zeros(400), drawn.log))
    values = np.array([one.value for one in found])
    # Self-normalisation has a bias of order 1/n: a twentieth of a standard error here, which is allowed for.
    assert abs(values.mean() - world.value) < (4.0 / np.sqrt(N_LOGS) + 0.05) * values.std()
    assert np.mean([one.std_err for one in found]) == pytest.approx(values.std(), rel=0.2)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_cautious_mean_is_below_the_truth_and_nears_it_with_more_samples(seed):
    world = make_world("cautious", n_actions=5, sharpness=1.5, exploration=0.05, seed=seed)
    shares = []
    for n_samples in (400, 25_600):
        drawn = [world.sample(number, n_samples=n_samples) for number in range(20)]
        found = [Judge(one.log, one.reward_hat).cautious(one.policy_prob).mean() for one in drawn]
        shares.append(float(np.mean(found)) / world.value)
    assert 0.6 < shares[0] < 0.9
    assert 0.9 < shares[1] < 1.0


@pytest.mark.parametrize("exploration", [0.3, 0.03])
def test_noisy_rewards_and_small_propensities_leave_a_bias_of_a_few_standard_errors(exploration):
    """By a scale that knows the spread of the rewards alone it would be twenty, and nothing could win a race."""
    n_samples, n_actions = 4000, 20
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        preferred, best = rng.integers(n_actions, size=(2, n_samples))
        is_explored = rng.random(n_samples) < exploration
        action = np.where(is_explored, rng.integers(n_actions, size=n_samples), preferred)
        propensity = (1.0 - exploration) * (action == preferred) + exploration / n_actions
        reward = 0.5 * (action == best) + rng.normal(size=n_samples)
        log = bopl.BanditLog(np.zeros((n_samples, 1)), action, reward, propensity, actions=list(range(n_actions)))
        terms = Judge(log, 0.5 * np.eye(n_actions)[best]).cautious(np.eye(n_actions)[best])
        found.append(compare(terms, np.zeros(n_samples), log))
    bias = np.mean([one.value for one in found]) - 0.5
    assert -4.5 < bias / np.mean([one.std_err for one in found]) < 0.0


def test_a_few_samples_with_large_weights_cannot_win():
    log = make_log(4, n_samples=400, min_propensity=0.2)
    propensity, reward = np.array(log.propensity), np.array(log.reward)
    propensity[:2], reward[:2] = 1e-4, 1.0
    lucky = bopl.BanditLog(log.context, log.action, reward, propensity, actions=log.actions)
    judge, action_prob = Judge(lucky, np.zeros((400, 4))), np.full((400, 4), 0.25)
    gap = judge.cautious(action_prob).mean() - judge.cautious(action_prob)[2:].mean()
    plain = (0.25 / propensity * reward)[:2].sum() / 400
    assert plain > 10.0  # by plain terms they decide everything
    assert gap < plain / 2.0
    found = compare(judge.cautious(action_prob), lucky.reward, lucky)
    assert found.uplift < GATE * found.std_err  # so the logging policy stays


def test_whole_number_weights_are_repeated_samples():
    log = make_log(6, n_samples=150)
    count = np.random.default_rng(2).integers(0, 4, size=150)
    rows = np.repeat(np.arange(150), count)
    judge, action_prob = judge_of(log), some_policy(log)
    weighted = replace(judge, sample_weight=count.astype(float)).estimates(action_prob)
    repeated = Judge(log.subset(rows), judge.reward_estimate[rows]).estimates(action_prob[rows])
    np.testing.assert_allclose(weighted[rows], repeated, rtol=1e-9, atol=1e-12)
    ours = compare(weighted, log.reward, grouped(log, np.arange(150)), count.astype(float))
    theirs = compare(repeated, log.reward[rows], grouped(log.subset(rows), rows))
    assert (ours.value, ours.uplift) == (pytest.approx(theirs.value), pytest.approx(theirs.uplift))
    # A sample of weight 0 still counts as one of n in the correction n / (n - 1).
    n_kept = len(np.unique(rows))
    assert ours.std_err == pytest.approx(theirs.std_err * np.sqrt((150 / 149) / (n_kept / (n_kept - 1))))


# -- Comparing ---------------------------------------------------------------------------------------------------------


def test_a_comparison_is_paired():
    rng = np.random.default_rng(0)
    log, reference = make_log(n_samples=300), 100.0 * rng.normal(size=300)
    terms = reference + rng.normal(loc=0.5, size=300)
    found, gap = compare(terms, reference, log), terms - reference
    assert found.value == pytest.approx(terms.mean())
    assert found.uplift == pytest.approx(gap.mean())
    assert found.std_err == pytest.approx(gap.std(ddof=1) / np.sqrt(300))
    assert found.lower(2.0) == pytest.approx(found.uplift - 2.0 * found.std_err)


def test_a_sample_written_three_times_under_one_group_says_no_more_than_once():
    rng = np.random.default_rng(1)
    log, gap = make_log(n_samples=90), rng.normal(size=90)
    rows = np.repeat(np.arange(90), 3)
    repeated = grouped(log.subset(rows), np.repeat(np.arange(90), 3))
    once, thrice = compare(gap, np.zeros(90), log), compare(gap[rows], np.zeros(270), repeated)
    assert thrice.std_err == pytest.approx(once.std_err)
    assert compare(gap[rows], np.zeros(270), log.subset(rows)).std_err < 0.6 * once.std_err


def test_groups_are_compared_by_the_sums_of_their_deviations():
    rng = np.random.default_rng(2)
    group, gap = rng.integers(0, 20, size=200), rng.normal(size=200)
    log = grouped(make_log(n_samples=200), group)
    total = sum((gap[group == number] - gap.mean()).sum() ** 2 for number in np.unique(group))
    assert compare(gap, np.zeros(200), log).std_err == pytest.approx(np.sqrt(20 / 19 * total) / 200)


def test_equal_terms_differ_by_nothing_and_so_do_those_that_differ_by_rounding():
    log = make_log(n_samples=80)
    reference = np.full(80, -1.0)
    for terms in (reference, reference + 1e-16, np.nextafter(reference, 0.0)):
        assert compare(terms, reference, log) == Standing(pytest.approx(-1.0), 0.0, 0.0)
