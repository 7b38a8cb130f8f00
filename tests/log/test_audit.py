import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import bopl
from bopl._weight import (
    differing_sample_size,
    effective_sample_size,
    largest_share,
    mean_skewness,
    mean_std_err,
    mean_weight_z,
    reward_share,
    rewarded_sample_size,
    tail_index,
    top_share,
)
from bopl.evaluation.diagnosis import RewardTotals, WeightTotals
from bopl.evaluation.sample_terms import Terms
from bopl.log import AuditError
from bopl.log.propensity_audit import _frequency_mean_weight, _inverse_propensity_by_action, _sums_by_action
from bopl.simulation import coverage_worlds, make_world

WORLD = make_world("plain")
SAMPLE = WORLD.sample(0)
LOG = SAMPLE.log


def changed(**columns):
    kept = {name: getattr(LOG, name) for name in ("context", "action", "reward", "propensity", "actions")}
    return bopl.BanditLog(**(kept | columns))


def test_a_sound_log_has_no_problem():
    for name, world in coverage_worlds().items():
        sample = world.sample(3, n_samples=max(world.n_samples, 3000))
        audit = sample.log.audit(logging_policy=sample.logging_prob)
        assert not audit.problems, (name, audit.problems)
    assert not LOG.audit(SAMPLE.policy_prob).problems


@pytest.mark.parametrize("factor", [0.7, 1.3, 1.5])
def test_wrong_propensities_are_found_by_three_checks(factor):
    audit = changed(propensity=np.minimum(LOG.propensity * factor, 1.0)).audit()
    for check in ("mean_weight_uniform", "mean_weight_logging", "sum_inverse_propensity"):
        assert audit[check].status == "problem", check
        assert np.sign(audit[check].value) == (-1 if factor > 1 else 1)


@pytest.mark.parametrize("n_actions", [2, 10, 100, 500])
def test_action_frequencies_of_a_sound_log_are_off_as_rarely_as_chance_has_it(n_actions):
    """Frequencies counted on the samples they are tried on would be off in every log of many actions."""

    def check(seed, factor):
        action = np.random.default_rng([seed, n_actions]).integers(n_actions, size=4000)
        propensity = np.full(4000, factor / n_actions)
        log = bopl.BanditLog(np.ones((4000, 1)), action, np.ones(4000), propensity, actions=range(n_actions))
        return _frequency_mean_weight(log)

    sound = [check(seed, 1.0) for seed in range(200)]
    assert sum(finding.status == "problem" for finding in sound) <= 1
    z = np.array([finding.value for finding in sound])
    assert abs(z.mean()) < 0.25
    assert 0.85 < z.std() < 1.15
    assert all(check(seed, factor).status == "problem" for seed in range(5) for factor in (0.8, 1.25))


def test_groups_that_differ_only_in_type_or_spaces_are_noted():
    """Users are numbers in one of two joined tables and text in the other."""

    def finding(group):
        audit = bopl.BanditLog(np.arange(60.0)[:, None], ["a", "b"] * 30, [0, 1] * 30, [0.5] * 60, group=group).audit()
        return {one.check: one for one in audit}.get("group_labels")

    users = list(range(30))
    assert finding(users * 2) is finding([*map(str, users)] * 2) is finding([f"u{user}" for user in users] * 2) is None
    noted = finding([*users, *map(str, users)])
    assert noted.status == "note"
    assert noted.sentence.startswith("Some groups differ only in type or spaces (0, '0'; 1, '1'; 2, '2'; and 27 more)")
    assert finding([*map(float, users), *map(str, users)]).value == 30.0
    assert finding([*(f"u{user}" for user in users), *(f"u{user} " for user in users)]).value == 30.0


def test_groups_that_draw_one_action_for_all_their_samples_are_no_problem():
    n_problems = n_refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        action = np.repeat(rng.integers(2, size=200), 50)
        reward = (rng.random(10_000) < 0.3 + 0.1 * action).astype(float)
        group, context = np.repeat(np.arange(200), 50), rng.normal(size=(10_000, 1))
        log = bopl.BanditLog(context, action, reward, np.full(10_000, 0.5), group=group)
        always = (action == 1).astype(float)
        n_problems += len(log.audit().problems) + len(log.audit(always).problems)
        n_refused += bopl.evaluate(log, always, estimators="snips").row()["verdict"] == "not trustworthy"
    assert (n_problems, n_refused) == (0, 0)
    wrong = log.with_propensity(np.full(10_000, 0.9))
    for check in ("mean_weight_uniform", "mean_weight_logging", "sum_inverse_propensity"):
        assert wrong.audit()[check].status == "problem"
    assert "mean weight" in bopl.evaluate(wrong, always, estimators="snips").row()["reason"]


def test_sums_by_action_of_groups_of_one_sample_are_those_of_independent_samples():
    one_each = changed(group=np.random.default_rng(0).permutation(LOG.n_samples))
    inverse = 1.0 / LOG.propensity
    mean = np.bincount(LOG.action_idx, weights=inverse) / LOG.n_samples
    for mine, plain in zip(_sums_by_action(one_each, inverse, mean), _sums_by_action(LOG, inverse, mean), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-9)
    assert mean_std_err(inverse, one_each.group) == pytest.approx(mean_std_err(inverse))
    assert mean_std_err(inverse) == pytest.approx(inverse.std(ddof=1) / np.sqrt(LOG.n_samples))
    assert np.isnan(mean_std_err(np.ones(3), np.zeros(3, dtype=int)))


def test_moments_of_sums_by_action_equal_those_of_a_loop():
    rng = np.random.default_rng(3)
    group, action, inverse = rng.integers(12, size=60), rng.integers(3, size=60), rng.uniform(1.0, 9.0, size=60)
    log = bopl.BanditLog(np.ones((60, 1)), action, np.ones(60), 1.0 / inverse, group=group, actions=[0, 1, 2])
    mean = rng.uniform(1.0, 2.0, size=3)
    count, second, third = _sums_by_action(log, inverse, mean)
    for a in range(3):
        sums = [inverse[(group == c) & (action == a)].sum() - (group == c).sum() * mean[a] for c in range(12)]
        assert count[a] == len(set(group[action == a]))
        assert second[a] == pytest.approx(np.sum(np.power(sums, 2)))
        assert third[a] == pytest.approx(np.sum(np.power(sums, 3)))


def test_few_and_very_unequal_propensities_of_an_action_are_not_taken_for_wrong_ones():
    n_problems = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        prob = np.exp(rng.normal(size=(1000, 20)))
        prob /= prob.sum(axis=1, keepdims=True)
        action = np.minimum((prob.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1), 19)
        propensity = prob[np.arange(1000), action]
        log = bopl.BanditLog(np.ones((1000, 1)), action, np.ones(1000), propensity, actions=range(20))
        n_problems += _inverse_propensity_by_action(log).status == "problem"
    assert n_problems == 0


@pytest.mark.parametrize(("n_samples", "n_actions"), [(2000, 300), (10_000, 20)])
def test_sums_by_action_of_a_sharp_softmax_are_not_taken_for_wrong_ones(n_samples, n_actions):
    n_problems = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        prob = np.exp(rng.normal(size=(n_samples, 4)) @ rng.normal(size=(4, n_actions)))
        prob /= prob.sum(axis=1, keepdims=True)
        action = np.minimum((prob.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1), n_actions - 1)
        columns = np.ones((n_samples, 1)), action, np.ones(n_samples), prob[np.arange(n_samples), action]
        n_problems += _inverse_propensity_by_action(bopl.BanditLog(*columns)).status == "problem"
    assert n_problems <= 1  # 11 and 2 of 20 where an action's own spread counted


def test_one_action_with_one_propensity_is_found_to_be_wrong():
    log = bopl.BanditLog(np.ones((50, 1)), np.zeros(50), np.ones(50), np.full(50, 0.5), actions=[0, 1])
    assert log.audit()["sum_inverse_propensity"].status == "problem"


def test_rounded_propensities_are_not_taken_for_wrong_ones():
    action = np.random.default_rng(0).integers(3, size=3000)
    for propensity in (np.float32(1 / 3), 0.333):
        log = bopl.BanditLog(np.ones((3000, 1)), action, np.arange(3000) % 2, np.full(3000, propensity))
        assert log.audit()["mean_weight_uniform"].status == "ok"


def test_propensities_of_two_actions_swapped_are_found_by_action():
    propensity = np.where(LOG.action_idx < 2, np.where(LOG.action_idx == 0, 0.5, 0.05), LOG.propensity)
    audit = changed(propensity=propensity).audit()
    assert audit["sum_inverse_propensity"].status == "problem"
    assert "impossible in some contexts" in audit["sum_inverse_propensity"].sentence


def test_rounded_propensities_are_named():
    context = np.random.default_rng(0).random((3000, 1))
    exact = 0.004 + 0.2 * context[:, 0]
    audit = bopl.BanditLog(context, np.arange(3000) % 3, np.zeros(3000), np.maximum(exact.round(2), 0.01)).audit()
    assert audit["rounding"].status == "problem"
    assert "end after 2 decimals" in audit["rounding"].sentence
    few = bopl.BanditLog(
        context, np.arange(3000) % 3, np.zeros(3000), np.where(context[:, 0] > 0.5, 0.01, 0.99)
    ).audit()
    assert few["rounding"].status == "ok"  # epsilon-greedy logs have a few exact values


def test_rows_logged_twice_are_found_and_repeated_contexts_are_not_blamed():
    rng = np.random.default_rng(1)
    context = rng.normal(size=(1000, 3))
    log = bopl.BanditLog(context, rng.integers(3, size=1000), rng.random(1000), np.full(1000, 1 / 3))
    assert log.audit()["duplicated_rows"].status == "ok"
    twice = log.subset(np.append(np.arange(1000), np.arange(100)))
    assert twice.audit()["duplicated_rows"].status == "problem"
    assert twice.audit()["duplicated_rows"].value == pytest.approx(100 / 1100)
    for copies in (2, 3):
        whole = log.subset(np.tile(np.arange(1000), copies))
        assert whole.audit()["duplicated_rows"].status == "problem"
    coarse = bopl.BanditLog(context.round(0), log.action, log.reward.round(), log.propensity)
    assert coarse.audit()["duplicated_rows"].status == "note"
    few = bopl.BanditLog(np.arange(1000)[:, None] % 5, log.action, log.reward.round(), log.propensity)
    assert few.audit()["duplicated_rows"].status == "note"


def test_one_context_that_comes_twice_is_no_log_written_twice():
    rng = np.random.default_rng(0)
    context = np.append(rng.normal(size=2999), 0.0)
    context[0] = 0.0
    action, reward = rng.integers(2, size=3000), rng.integers(2, size=3000)
    action[[0, -1]], reward[[0, -1]] = 1, 1
    log = bopl.BanditLog(context[:, None], action, reward, np.full(3000, 0.5))
    assert log.audit()["duplicated_rows"].status == "note"


def test_actions_never_or_hardly_logged_are_listed():
    log = changed(
        action=np.where(np.arange(2000) < 5, "rare", "often"),
        actions=["often", "rare", "never"],
        propensity=np.full(2000, 0.5),
    )
    audit = log.audit()
    assert "1 of 3 actions were never taken: 'never'" in audit["never_logged"].sentence
    assert "'rare'" in audit["hardly_logged"].sentence


def test_support_of_a_policy_counts_what_was_never_taken_or_not_eligible():
    log = changed(actions=[*range(5), "never"])
    policy = np.hstack([0.9 * SAMPLE.policy_prob, np.full((2000, 1), 0.1)])
    audit = log.audit(policy)
    assert audit["policy_support"].value == pytest.approx(0.1)
    assert audit["policy_support"].status == "problem"
    mask = np.ones((2000, 5), dtype=bool)
    mask[np.arange(2000), (LOG.action_idx + 1) % 5] = False
    masked = changed(action_mask=mask).audit(np.full((2000, 5), 0.2))
    assert masked["policy_support"].value == pytest.approx(0.2)


def test_a_policy_given_by_logged_actions_has_no_support_check():
    audit = LOG.audit(SAMPLE.policy_prob[np.arange(2000), LOG.action_idx])
    with pytest.raises(KeyError, match="there is no check 'policy_support'"):
        _ = audit["policy_support"]
    assert audit["effective_sample_size"].value == pytest.approx(
        LOG.audit(SAMPLE.policy_prob)["effective_sample_size"].value
    )


def test_few_rewards_are_a_problem_and_the_logging_policy_needs_no_difference():
    assert LOG.audit(SAMPLE.policy_prob)["rewarded_samples"].status == "ok"
    rare = changed(reward=(np.arange(2000) < 10).astype(float)).audit(SAMPLE.policy_prob)["rewarded_samples"]
    assert rare.status == "problem"
    assert rare.value < 10
    assert changed(reward=(np.arange(2000) < 10).astype(float)).audit()["rewarded_samples"].status == "note"
    assert changed(reward=np.ones(2000)).audit(SAMPLE.policy_prob)["rewarded_samples"].value == 0.0
    equal = changed(reward=np.ones(2000)).audit()["rewarded_samples"]
    assert (equal.status, equal.sentence[:26]) == ("problem", "All 2,000 rewards are 1: n")
    logging = LOG.audit(SAMPLE.logging_prob)["rewarded_samples"]
    assert logging.value == pytest.approx(2000 * reward_share(LOG.reward))


def test_the_verdict_and_the_audit_count_the_same_rewards():
    totals, rewards = WeightTotals(5), RewardTotals()
    weight = SAMPLE.policy_prob[np.arange(2000), LOG.action_idx] / LOG.propensity
    for rows in (slice(0, 700), slice(700, 2000)):
        rewards.add(LOG.reward[rows])
        totals.add(Terms(weight[rows], LOG.reward[rows]), None)
    facts = totals.facts(np.zeros(5), reward_share=rewards.share)
    assert facts.rewarded == pytest.approx(rewarded_sample_size(weight, LOG.reward), rel=1e-12)
    assert facts.differing == pytest.approx(differing_sample_size(weight), rel=1e-12)


def test_reward_share_is_the_share_of_the_rarer_value():
    for n_rare in (1, 10, 100):
        reward = np.where(np.arange(10_000) < n_rare, 7.0, -2.0)
        assert reward_share(reward) == pytest.approx(n_rare / 10_000, rel=0.04)
        assert reward_share(-reward) == pytest.approx(reward_share(reward), rel=1e-12)
    assert reward_share(np.random.default_rng(0).normal(size=100_000)) == pytest.approx(1 / 3, rel=0.05)
    assert reward_share(np.array([0.0, 1.0])) == 1.0


def test_a_logging_policy_that_did_not_write_the_log_is_found():
    assert LOG.audit(logging_policy=SAMPLE.logging_prob)["logging_policy"].status == "ok"
    assert LOG.audit(logging_policy=SAMPLE.policy_prob)["logging_policy"].status == "problem"


def test_strict_raises_with_every_sentence():
    LOG.audit(strict=True)
    bad = changed(propensity=LOG.propensity * 0.5)
    with pytest.raises(AuditError, match=r"found \d problems?: The mean weight of the uniform policy is 2"):
        bad.audit(strict=True)


def test_a_log_without_propensities_is_audited_for_the_rest():
    audit = changed(propensity=None).audit()
    assert audit["propensity"].status == "problem"
    assert audit["never_logged"].status == "ok"


def test_a_log_without_exploration_is_a_problem():
    assert changed(propensity=np.ones(2000)).audit()["propensity_range"].status == "problem"


def test_audit_is_a_frame_a_table_and_a_page():
    audit = changed(propensity=LOG.propensity * 0.5).audit(SAMPLE.policy_prob)
    assert list(audit.table.columns) == ["check", "status", "value", "sentence"]
    assert isinstance(audit.table, pd.DataFrame)
    assert len(pl.DataFrame(audit)) == len(audit.findings)
    for finding in audit.findings:
        assert finding.sentence.endswith(".")
        assert finding.check in str(audit)
        assert finding.check in audit._repr_html_()


# -- Weights ------------------------------------------------------------------------------------------------------


def test_tail_index_of_pareto_weights_is_found():
    rng = np.random.default_rng(0)
    for index in (1.0, 1.5, 3.0):
        weight = rng.pareto(index, size=100_000) + 1.0
        assert tail_index(weight, 100_000) == pytest.approx(index, rel=0.2)
    assert tail_index(np.ones(1000), 1000) == np.inf
    assert tail_index(np.zeros(1000), 1000) == np.inf


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60), st.integers(1, 5))
def test_top_share_equals_sorting_and_shares_ties(weights, copies):
    weight = np.repeat(np.array(weights), copies)
    contribution = weight * 0.5
    n_top = int(np.ceil(0.01 * len(weight)))
    total = contribution.sum()
    expected = np.sort(contribution)[-n_top:].sum() / total if total > 0 else 0.0
    assert top_share(weight, contribution, len(weight), total) == pytest.approx(expected)


def test_equal_weights_share_the_value_equally():
    reward = np.random.default_rng(0).random(1000)
    assert top_share(np.ones(1000), reward, 1000, reward.sum()) == pytest.approx(0.01)


def test_single_share_and_effective_size_of_known_weights():
    assert largest_share(np.array([3.0, 4.0])) == pytest.approx(16 / 25)
    assert largest_share(np.zeros(3)) == 0.0
    assert effective_sample_size(np.array([3.0, 4.0])) == pytest.approx(49 / 25)


def test_z_of_the_mean_weight():
    assert mean_weight_z(1.2, 0.1) == pytest.approx(2.0)
    assert mean_weight_z(1.0, 0.0) == 0.0
    assert mean_weight_z(0.5, 0.0) == -np.inf


@pytest.mark.parametrize("mean", [0.4, 0.95, 1.05, 2.0])
@pytest.mark.parametrize("skewness", [-0.6, 0.0, 0.2, 1.0])
def test_skewness_brings_the_z_of_a_mean_weight_nearer_to_zero_only(mean, skewness):
    plain, z = mean_weight_z(mean, 0.1), mean_weight_z(mean, 0.1, skewness)
    assert abs(z) <= abs(plain)
    assert z * plain >= 0.0
    assert skewness or z == plain


def test_skewness_of_a_mean_is_that_of_its_deviations_and_of_their_sums_by_group():
    values, group = np.array([0.0, 1.0, 2.0, 9.0]), np.array([7, 7, 3, 9])
    assert mean_skewness(values) == pytest.approx(scipy.stats.skew(values) / 2.0)
    sums = np.array([-1.0, -5.0, 6.0])
    assert mean_skewness(values, group) == pytest.approx((sums**3).sum() / (sums**2).sum() ** 1.5)
    assert mean_skewness(np.ones(3)) == 0.0


def test_sound_logs_of_a_policy_that_explores_a_little_have_no_problem():
    """Three actions of probability 0.01: without skewness, one such log in 200 seemed to have wrong propensities."""
    prob, n_before = np.array([0.97, 0.01, 0.01, 0.01]), 0
    for seed in (328, 578, 663, 705, 734):
        rng = np.random.default_rng(seed)
        action = rng.choice(4, size=400, p=prob)
        log = bopl.BanditLog(rng.normal(size=(400, 1)), action, rng.random(400), prob[action], actions=range(4))
        weight = 0.25 / log.propensity
        n_before += mean_weight_z(weight.mean(), mean_std_err(weight)) < -4.0
        assert log.audit()["mean_weight_uniform"].status == "ok"
    assert n_before == 5


def test_a_sound_log_of_actions_that_are_not_always_offered_has_no_problem():
    rng = np.random.default_rng(0)
    mask = rng.random((4000, 4)) < 0.6
    mask[:, 0] = True
    prob = mask * np.array([0.4, 0.3, 0.2, 0.1])
    prob /= prob.sum(axis=1, keepdims=True)
    action = (prob.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    propensity = prob[np.arange(4000), action]
    context = rng.normal(size=(4000, 2))
    log = bopl.BanditLog(context, action, rng.random(4000), propensity, actions=[0, 1, 2, 3], action_mask=mask)
    assert not log.audit().problems
    wrong = log.with_propensity(np.minimum(1.3 * propensity, 1.0))
    assert wrong.audit()["mean_weight_logging"].status == "problem"


def test_an_action_that_is_never_offered_leaves_the_sentences_whole():
    mask = np.tile([False, True, True], (6, 1))
    columns = {"actions": [0, 1, 2], "action_mask": mask}
    audit = bopl.BanditLog(np.arange(6)[:, None], [1, 2] * 3, np.ones(6), np.full(6, 0.5), **columns).audit()
    assert "is 0 times the 0 expected" in audit["sum_inverse_propensity"].sentence
    assert not any("nan" in finding.sentence for finding in audit.findings)


def test_identifiers_and_merged_categories_are_noted():
    frame = pd.DataFrame({"request": [f"r{i}" for i in range(3000)], "x": 1.0, "item": [0, 1] * 1500, "p": 0.5})
    audit = bopl.BanditLog.from_frame(frame, action="item", reward="x", propensity="p").audit()
    assert audit["identifiers"].status == "note"
    assert "'request' is an identifier" in audit["identifiers"].sentence
    assert "'request' (2,746 of 3,000)" in audit["merged_categories"].sentence


def test_deviations_beyond_measure_are_told_as_that():
    log = bopl.BanditLog(np.zeros((200, 1)), [0, 1] * 100, [0, 1, 1, 0] * 50, np.ones(200))
    texts = {finding.check: finding.sentence for finding in log.audit().findings}
    assert "is 0.5 where 1 is expected (z < -1000)" in texts["mean_weight_uniform"]


def test_labels_that_seem_to_be_one_or_to_be_missing_are_noted():
    def audit(labels):
        n_copies = 60 // len(labels)
        return bopl.BanditLog(np.arange(60.0)[:, None], labels * n_copies, [0, 1] * 30, [0.5] * 60).audit()

    finding = audit(["Shoes", "shoes ", "coat"])["action_labels"]
    assert (finding.status, finding.value) == ("note", 1.0)
    assert "('Shoes', 'shoes ')" in finding.sentence
    assert "(1, '1')" in audit([1, "1"])["action_labels"].sentence
    assert "'nan' as an action looks like a missing value" in audit(["nan", "a"])["action_labels"].sentence
    assert "action_labels" not in audit(["01", "1", "nano"]).table["check"].tolist()


def test_rewards_beyond_what_can_be_summed_are_a_problem_and_no_warning():
    log = bopl.BanditLog(np.arange(60.0)[:, None], ["a", "b"] * 30, [0.0, 1e308] * 30, [0.5] * 60)
    assert log.audit()["rewarded_samples"].status == "problem"
    assert "mean_reward=inf" in repr(log)


def test_an_audit_is_iterated_by_finding():
    audit = LOG.audit()
    assert [one.check for one in audit] == [one.check for one in audit.findings]
