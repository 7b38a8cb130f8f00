"""Every estimator is held to the same promises: its formula, its gradient, its zero, its shards."""

import numpy as np
import pytest

from bopl._weight import snips_value
from bopl.evaluation import ESTIMATORS, ClippedIPS, ShrinkageDR, SwitchDR
from bopl.evaluation.model_based import bounded_mse
from bopl.evaluation.moments import MomentSum
from bopl.evaluation.sample_terms import Pilot, Terms

NAMES = sorted(ESTIMATORS)


def make_terms(seed=0, n=80, *, with_logging=False, weight=None):
    rng = np.random.default_rng(seed)
    return Terms(
        rng.gamma(0.5, 2.0, size=n) if weight is None else weight,
        rng.normal(size=n),
        rng.normal(size=n),
        rng.normal(size=n),
        rng.normal(size=n) if with_logging else None,
    )


def tuned(name, terms):
    return ESTIMATORS[name]().tuned(Pilot(terms, len(terms.reward)))


def plain_value(name, t, estimator):
    """Return each estimate as its textbook formula."""
    w, r, e = t.importance_weight, t.reward, t.reward - t.reward_hat
    q = t.policy_reward_hat
    beta = np.cov(w * r, w, ddof=0)[0, 1] / np.var(w)
    formulas = {
        "ips": lambda: np.mean(w * r),
        "clipped_ips": lambda: np.mean(np.minimum(w, estimator.max_importance_weight) * r),
        "snips": lambda: np.sum(w * r) / np.sum(w),
        "dm": lambda: np.mean(q),
        "dr": lambda: np.mean(q + w * e),
        "sndr": lambda: np.mean(q) + np.sum(w * e) / np.sum(w),
        "switch_dr": lambda: np.mean(q + w * (w <= estimator.threshold) * e),
        "dr_shrinkage": lambda: np.mean(q + w * estimator.shrinkage / (estimator.shrinkage + w**2) * e),
        "beta_ips": lambda: np.mean(w * r) - beta * (np.mean(w) - 1),
    }
    return formulas[name]()


@pytest.mark.parametrize("name", NAMES)
def test_value_is_the_textbook_formula(name):
    terms = make_terms()
    fixed = {"switch_dr": SwitchDR(2.0), "dr_shrinkage": ShrinkageDR(3.0), "clipped_ips": ClippedIPS(1.5)}
    estimator = fixed.get(name, tuned(name, terms))
    mean = estimator.moments(terms).mean(axis=0)
    assert estimator.value(mean) == pytest.approx(plain_value(name, terms, estimator), rel=1e-12)


def test_ips_is_the_plain_mean_and_snips_the_value_that_training_watches():
    terms = make_terms()
    for name, formula in (("ips", lambda weight, reward: np.mean(weight * reward)), ("snips", snips_value)):
        estimator = tuned(name, terms)
        value = estimator.value(estimator.moments(terms).mean(axis=0))
        assert value == pytest.approx(formula(terms.importance_weight, terms.reward), rel=1e-12)


@pytest.mark.parametrize("with_logging", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_match_finite_differences(name, with_logging):
    terms = make_terms(3, with_logging=with_logging)
    estimator = tuned(name, terms)
    mean = estimator.moments(terms).mean(axis=0)
    for function, gradient in (
        (estimator.value, estimator.value_gradient(mean)),
        (estimator.uplift, estimator.uplift_gradient(mean)),
    ):
        steps = 1e-6 * np.eye(len(mean))
        numeric = [(function(mean + step) - function(mean - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_influence_is_the_effect_of_one_more_copy_of_a_sample(name):
    terms = make_terms(4, n=2000)
    estimator = tuned(name, terms)
    moments = estimator.moments(terms)
    mean = moments.mean(axis=0)
    influence = estimator.value_influence(moments, mean)
    assert abs(influence.mean()) < 1e-12
    for row in (0, 7, 1999):
        moved = (moments.sum(axis=0) + 1e-4 * moments[row]) / (2000 + 1e-4)
        effect = (estimator.value(moved) - estimator.value(mean)) * 2000 / 1e-4
        assert effect == pytest.approx(influence[row], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("with_logging", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_uplift_of_weights_of_one_is_exactly_zero_with_zero_influence(name, with_logging):
    terms = make_terms(5, weight=np.ones(80), with_logging=with_logging)
    if with_logging:  # the policy is the logging policy: one sum over the actions, twice
        terms = Terms(terms.importance_weight, terms.reward, terms.reward_hat, *[terms.policy_reward_hat] * 2)
    estimator = tuned(name, terms)
    moments = estimator.moments(terms)
    mean = moments.mean(axis=0)
    assert estimator.uplift(mean) == 0.0
    assert not estimator.uplift_influence(moments, mean).any()
    assert MomentSum.of(moments).spread(estimator.uplift_gradient(mean)).std_err == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_uplift_is_value_less_value_of_the_logging_policy_under_the_same_estimator(name):
    terms = make_terms(6, with_logging=True)
    estimator = tuned(name, terms)
    logging = Terms(np.ones(80), terms.reward, terms.reward_hat, *[terms.logging_reward_hat] * 2)
    mean, logging_mean = (estimator.moments(one).mean(axis=0) for one in (terms, logging))
    expected = estimator.value(mean) - estimator.value(logging_mean)
    assert estimator.uplift(mean) == pytest.approx(expected, rel=1e-10)


def test_modelled_uplift_has_the_same_expectation_with_and_without_the_logging_distribution():
    rng = np.random.default_rng(0)
    logging, policy, reward_hat = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), rng.normal(size=4)
    known, unknown = (
        Terms(policy / logging, np.zeros(4), reward_hat, np.full(4, policy @ reward_hat), one)
        for one in (np.full(4, logging @ reward_hat), None)
    )
    assert logging @ known.modelled_uplift == pytest.approx(logging @ unknown.modelled_uplift, rel=1e-12)


def test_beta_is_the_baseline_of_least_variance():
    terms = make_terms(8, n=5000)
    estimator = ESTIMATORS["beta_ips"]()
    mean = estimator.moments(terms).mean(axis=0)
    weighted, excess = terms.importance_weight * terms.reward, terms.importance_weight - 1.0
    least = np.var(weighted - estimator.beta(mean) * excess)
    for shift in (-0.01, 0.01):
        assert np.var(weighted - (estimator.beta(mean) + shift) * excess) > least


def test_shrinkage_and_switch_end_at_dr_and_at_the_direct_method():
    terms = make_terms(9)
    dr, dm = (ESTIMATORS[name]().moments(terms) for name in ("dr", "dm"))
    np.testing.assert_array_equal(SwitchDR(np.inf).moments(terms), dr)
    np.testing.assert_array_equal(ShrinkageDR(np.inf).moments(terms), dr)
    np.testing.assert_allclose(ShrinkageDR(1e-12).moments(terms), dm, atol=1e-5)


def pilot_of_two_actions(rare):
    """One context; the policy takes the second action with probability 0.001, the logging policy with ``rare``."""
    rng = np.random.default_rng(0)
    policy, logging = np.array([0.999, 0.001]), np.array([1.0 - rare, rare])
    action = (rng.random(4000) < rare).astype(int)
    action[0] = 1
    terms = Terms((policy / logging)[action], rng.normal(size=4000), np.zeros(4000), np.zeros(4000))
    return Pilot(terms, 4000, np.tile(policy, (4000, 1)), np.tile(logging, (4000, 1)))


def test_settings_chosen_from_the_data_leave_harmless_weights_alone_and_tame_wild_ones():
    calm, wild = pilot_of_two_actions(0.001), pilot_of_two_actions(1e-6)
    assert not SwitchDR().tuned(calm).is_clipped(calm.terms.importance_weight).any()
    assert SwitchDR().tuned(wild).is_clipped(wild.terms.importance_weight).any()
    assert ShrinkageDR().tuned(wild).modified(np.array([1000.0]))[0] < 300.0
    assert ClippedIPS().tuned(wild).max_importance_weight == pytest.approx(np.sqrt(4000))


@pytest.mark.parametrize("never", [0.0, 1e-300, 1e-20])
def test_an_action_that_was_never_possible_leaves_the_choice_of_settings_finite(never):
    rng = np.random.default_rng(1)
    logging_prob = np.tile([0.6, 0.398, 0.002, never], (150, 1))
    action_prob = np.tile([0.5, 0.3, 0.2 - 1e-6, 1e-6], (150, 1))
    action = np.append(2, rng.choice(3, p=[0.6, 0.398, 0.002], size=149))
    terms = Terms(
        action_prob[0, action] / logging_prob[0, action], rng.random(150), np.full(150, 0.5), np.full(150, 0.5)
    )
    pilot = Pilot(terms, 150, action_prob, logging_prob)
    assert 0.0 < ShrinkageDR().tuned(pilot).shrinkage < 1e4
    assert 1.0 <= SwitchDR().tuned(pilot).threshold <= 100.0
    for shrinkage in (0.1, 1e10, np.inf):
        scores = bounded_mse(ShrinkageDR(shrinkage), pilot)
        assert np.isfinite(scores)
    np.testing.assert_array_equal(ShrinkageDR(np.inf).modified(np.array([1e-300, 1.0, 1e200])), [1e-300, 1.0, 1e200])
    np.testing.assert_allclose(ShrinkageDR(4.0).modified(np.array([2.0, 1e140])), [1.0, 4e-140])


def test_without_the_logging_distribution_switch_and_shrinkage_stay_dr():
    pilot = Pilot(make_terms(), 80)
    assert SwitchDR().tuned(pilot) == SwitchDR(np.inf)
    assert ShrinkageDR().tuned(pilot) == ShrinkageDR(np.inf)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClippedIPS(0.5), "max_importance_weight must be at least 1; got 0.5"),
        (lambda: SwitchDR(0.5), "threshold must be at least 1; got 0.5"),
        (lambda: ShrinkageDR(0.0), "shrinkage must be greater than 0; got 0.0"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", [name for name in NAMES if ESTIMATORS[name].is_tuned_for_rounding])
def test_a_constant_added_to_all_rewards_costs_no_digits(name):
    near = make_terms(n=400)
    spreads = []
    for offset in (0.0, 1e6):
        terms = near.with_reward(offset + near.reward)
        estimator = tuned(name, terms)
        sums = MomentSum.of(estimator.moments(terms))
        assert estimator.value(sums.mean) - offset == pytest.approx(float(plain_value(name, near, estimator)), abs=1e-7)
        spreads.append(sums.spread(estimator.uplift_gradient(sums.mean)))
    for part in ("std_err", "skewness", "kurtosis"):
        assert getattr(spreads[1], part) == pytest.approx(getattr(spreads[0], part), rel=1e-6)
