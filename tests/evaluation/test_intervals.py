import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import kurtosis, norm, skew
from scipy.stats import t as student

import bopl
from bopl.evaluation.betting import PRIOR_MEAN, PRIOR_VARIANCE, SHARE, betting_lower_bound, ever_reaches, set_bets
from bopl.evaluation.bootstrap import PoissonBootstrap
from bopl.evaluation.interval import bca_level, undo_skewness
from bopl.evaluation.log_smoothing import SCALES, smoothed_lower_bound
from bopl.simulation import make_world

INTERVALS = ["normal", "bootstrap", "empirical_bernstein", "log_smoothing", "betting"]


def weighted_log(seed=0, n=300, low=0.0, high=1.0):
    rng = np.random.default_rng(seed)
    propensity = rng.uniform(0.1, 0.9, size=n)
    log = bopl.BanditLog(np.ones((n, 1)), rng.integers(2, size=n), rng.uniform(low, high, size=n), propensity)
    return log, np.minimum(propensity * rng.gamma(2.0, 0.5, size=n), 1.0)


def hall_interval(terms, confidence):
    """Student's interval of a mean, each end moved outwards to where Hall's is, by solving ``g(T) = ±t``.

    Beyond 95% fewer degrees of freedom count: in proportion to the probability of a miss, down to a quarter of them.
    """
    n = len(terms)
    error, a = terms.std(ddof=1) / np.sqrt(n), skew(terms) / np.sqrt(n)
    kappa = kurtosis(terms, fisher=False)
    freedom = min(2.0 / ((kappa - 3.0) / n + 2.0 / (n - 1) - a**2), n - 1)
    freedom *= min(max((1.0 - confidence) / 0.05, 0.25), 1.0)
    quantile = student.ppf(0.5 + confidence / 2.0, freedom)

    def end(x):
        solved = brentq(lambda t: t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 - x, -1e3, 1e3, xtol=1e-14)
        return terms.mean() - error * solved

    lower, upper = terms.mean() - error * quantile, terms.mean() + error * quantile
    return min(lower, end(quantile)), max(upper, end(-quantile))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_skewness_moves_an_end_of_the_normal_interval_outwards_by_halls_transformation(confidence, sign):
    log, prob = weighted_log()
    log = bopl.BanditLog(log.context, log.action, sign * log.reward**3, log.propensity)
    row = bopl.evaluate(log, prob, estimators="ips", confidence=confidence).row()
    terms = prob / log.propensity * log.reward
    assert (row["ci_lower"], row["ci_upper"]) == pytest.approx(hall_interval(terms, confidence), rel=1e-9)
    uplift = terms - log.reward
    expected = hall_interval(uplift, confidence)
    assert (row["uplift_ci_lower"], row["uplift_ci_upper"]) == pytest.approx(expected, rel=1e-9)
    assert row["std_err"] == pytest.approx(terms.std(ddof=1) / np.sqrt(len(terms)), rel=1e-12)


def test_normal_interval_is_the_textbook_one_if_nothing_is_skewed():
    """Weights of 1 and rewards in pairs about zero: no skewness, and n - 1 degrees of freedom at the most."""
    half = np.random.default_rng(0).normal(size=5000)
    log = bopl.BanditLog(np.ones((10_000, 1)), np.arange(10_000) % 2, np.append(half, -half), np.full(10_000, 0.5))
    row = bopl.evaluate(log, log.propensity, estimators="ips").row()
    assert row["ci_upper"] == pytest.approx(norm.ppf(0.975) * row["std_err"], rel=1e-3)
    assert row["ci_lower"] == pytest.approx(-row["ci_upper"], rel=1e-6)


@given(x=st.floats(-10.0, 10.0), step=st.floats(1e-6, 1.0), a=st.floats(-1.0, 1.0))
def test_undoing_skewness_is_monotone_and_the_inverse_of_halls_cubic(x, step, a):
    t = undo_skewness(x, a)
    assert undo_skewness(x + step, a) > t
    assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(x, rel=1e-9, abs=1e-9)


def naive_bca(replicates, estimate, a, quantile):
    """Efron's BCa ends, straight from his formula."""
    bias = norm.ppf(np.mean([1.0 if one < estimate else 0.5 if one == estimate else 0.0 for one in replicates]))
    levels = [norm.cdf(bias + (bias + q) / (1.0 - a * (bias + q))) for q in (-quantile, quantile)]
    return np.quantile(replicates, levels)


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_bootstrap_interval_is_efrons_bca_with_students_quantile(estimator):
    log, prob = weighted_log(3)
    log = bopl.BanditLog(log.context, log.action, log.reward**4, log.propensity)
    row = bopl.evaluate(log, prob, estimators=estimator, interval="bootstrap", n_replicates=500).row()
    weight, n = prob / log.propensity, 300
    bootstrap = PoissonBootstrap(2, 500, 0)
    bootstrap.add(np.column_stack([weight * log.reward, weight]), first_row=0)
    weighted, total = bootstrap.means().T
    replicates = weighted if estimator == "ips" else weighted / total
    influence = weight * (log.reward - (0.0 if estimator == "ips" else row["value"])) / weight.mean()
    freedom = min(2.0 / ((kurtosis(influence, fisher=False) - 3.0) / n + 2.0 / (n - 1)), n - 1)
    expected = naive_bca(replicates, row["value"], skew(influence) / np.sqrt(n) / 6, student.ppf(0.975, freedom))
    assert (row["ci_lower"], row["ci_upper"]) == pytest.approx(tuple(expected), rel=1e-6)


@given(
    x=st.floats(0.1, 20.0),
    wider=st.floats(0.01, 5.0),
    a=st.floats(-1 / 6, 1 / 6),
    below=st.integers(0, 100),
)
def test_bca_levels_stay_in_order_whatever_the_replicates(x, wider, a, below):
    replicates = np.repeat([0.0, 1.0], [below, 100 - below])
    levels = [bca_level(one, replicates, 0.5, a) for one in (-x - wider, -x, x, x + wider)]
    assert 0.0 <= levels[0] <= levels[1] < levels[2] <= levels[3] <= 1.0 or levels[1] == levels[2] in (0.0, 1.0)


def test_normal_interval_of_snips_uses_its_influence():
    log, prob = weighted_log(1)
    row = bopl.evaluate(log, prob, estimators="snips").row()
    weight = prob / log.propensity
    influence = weight * (log.reward - row["value"]) / weight.mean()
    assert row["std_err"] == pytest.approx(influence.std(ddof=1) / np.sqrt(len(weight)), rel=1e-10)


def test_bootstrap_renormalises_ratios_in_every_replicate():
    log, prob = weighted_log(2)
    shifted = bopl.evaluate(log.translated(1e6), prob, estimators="snips", interval="bootstrap").row()
    plain = bopl.evaluate(log, prob, estimators="snips", interval="bootstrap").row()
    # A translated reward translates every replicate; dividing by a fixed mean weight would spread them by 1e6.
    assert shifted["ci_upper"] - shifted["ci_lower"] == pytest.approx(plain["ci_upper"] - plain["ci_lower"], rel=1e-6)
    assert shifted["ci_lower"] == pytest.approx(plain["ci_lower"] + 1e6, rel=1e-12)


def test_empirical_bernstein_is_maurer_and_pontils_theorem_on_both_sides():
    log, prob = weighted_log(3)
    row = bopl.evaluate(log, prob, interval="empirical_bernstein", min_propensity=0.05, reward_range=(0.0, 2.0)).row()
    terms, n = prob / log.propensity * log.reward, 300
    log_term = np.log(2.0 / 0.025)
    half = np.sqrt(2 * terms.var(ddof=1) * log_term / n) + 7 * (2.0 / 0.05) * log_term / (3 * (n - 1))
    assert row["ci_lower"] == max(terms.mean() - half, 0.0)
    assert row["ci_upper"] == pytest.approx(min(terms.mean() + half, 2.0), rel=1e-12)


def test_smoothed_bound_with_one_scale_is_the_papers_formula(monkeypatch):
    terms = np.random.default_rng(0).gamma(0.5, 2.0, size=200)
    monkeypatch.setattr("bopl.evaluation.log_smoothing.SCALES", np.array([1.0]))
    scale = 1.0 / np.sqrt(200)
    paper = (np.exp(np.log1p(scale * terms).mean() - np.log(1 / 0.05) / 200) - 1.0) / scale
    assert smoothed_lower_bound(terms, 0.05) == pytest.approx(paper, rel=1e-10)


def test_smoothed_bound_is_little_worse_than_that_of_the_best_single_scale():
    rng = np.random.default_rng(1)
    for size in (0.02, 1.0):
        terms = size * rng.gamma(0.5, 2.0, size=2000)
        mixed = smoothed_lower_bound(terms, 0.025)
        scale = SCALES[:, None] / np.sqrt(2000)
        single = (np.exp(np.log1p(scale * terms).mean(axis=1) - np.log(40) / 2000) - 1.0) / scale[:, 0]
        assert terms.mean() > mixed > single.max() - 0.6 * (terms.mean() - single.max())


def test_one_heavy_term_raises_the_smoothed_bound_little_and_the_mean_much():
    terms = np.full(400, 0.5)
    heavy = np.append(terms, 1e4)
    assert heavy.mean() > 25.0
    assert smoothed_lower_bound(heavy, 0.05) < 1.0


def naive_bets(terms, log_inverse_delta):
    """The bets, each from the terms before it."""
    bets, past, spread = [], [PRIOR_MEAN], PRIOR_VARIANCE
    for term in terms:
        variance = spread / len(past)
        bets.append(np.sqrt(2.0 * log_inverse_delta / (len(terms) * variance)))
        past.append(term)
        spread += (term - np.mean(past)) ** 2
    return np.array(bets)


@pytest.mark.parametrize("seed", range(4))
def test_betting_kernels_equal_plain_loops(seed):
    terms = np.random.default_rng(seed).gamma(0.3, 2.0, size=250)
    bets = np.empty(250)
    set_bets(terms, 3.0, bets)
    np.testing.assert_allclose(bets, naive_bets(terms, 3.0), rtol=1e-10)
    for mu in (0.0, 0.1, 0.3, 0.6, 1.0):
        stake = bets if mu == 0.0 else np.minimum(bets, SHARE / mu)
        log_capital = np.cumsum(np.log1p(stake * (terms - mu)))
        for log_target in (0.5, 3.0, 8.0):
            assert ever_reaches(terms, bets, mu, log_target) == (log_capital.max() >= log_target)


def test_capital_that_vanishes_can_still_come_back():
    terms = np.concatenate([np.zeros(3000), np.full(3000, 40.0)])
    bets = np.full(6000, 0.6)
    assert ever_reaches(terms, bets, 1.0, 5.0)
    assert not ever_reaches(terms[:3000], bets, 1.0, 5.0)


def naive_reaches(terms, bets, mu, log_target):
    """Whether the capital gets there, by the sum of its logarithms."""
    stake = bets if mu == 0.0 else np.minimum(bets, SHARE / mu)
    return np.cumsum(np.log1p(stake * (terms - mu))).max() >= log_target


@pytest.mark.parametrize("n_lost", [100, 5000, 200_000])
def test_capital_that_vanished_does_not_count_as_regained_before_it_is(n_lost):
    terms = np.concatenate([np.zeros(n_lost), np.ones(n_lost)])
    bets = np.empty(2 * n_lost)
    set_bets(terms, np.log(40.0), bets)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if naive_reaches(terms, bets, middle, np.log(40.0)) else (low, middle)
    assert betting_lower_bound(terms, 1.0 / 40.0) == pytest.approx(low, rel=1e-6)
    for mu in (0.1, 0.5):
        for log_target in (3.0, 300.0, 3e4):
            stake = np.full(2 * n_lost, 0.4)
            assert ever_reaches(terms, stake, mu, log_target) == naive_reaches(terms, stake, mu, log_target)


def test_betting_bound_uses_only_the_past():
    """Terms after a record cannot undo it: the bound after more samples with the same bets is no lower."""
    terms = np.random.default_rng(0).random(500)
    bets = np.full(500, 0.5)
    records = [
        max(m for m in np.linspace(0.01, 1, 60) if ever_reaches(terms[:n], bets[:n], m, 2.0)) for n in (100, 500)
    ]
    assert records[1] >= records[0]


def test_betting_bound_is_zero_when_nothing_was_earned():
    assert betting_lower_bound(np.zeros(100), 0.05) == 0.0


@pytest.mark.parametrize("interval", INTERVALS)
def test_more_confidence_makes_wider_intervals_that_hold_the_narrower_ones(interval):
    log, prob = weighted_log(4)
    narrow, wide = (
        bopl.evaluate(log, prob, estimators="ips", interval=interval, confidence=c).row() for c in (0.8, 0.99)
    )
    for lower, upper in (("ci_lower", "ci_upper"), ("uplift_ci_lower", "uplift_ci_upper")):
        assert wide[lower] < narrow[lower] < narrow[upper] < wide[upper]


@pytest.mark.parametrize("interval", INTERVALS)
def test_negated_rewards_mirror_the_interval(interval):
    log, prob = weighted_log(5)
    mirrored = bopl.BanditLog(log.context, log.action, 1.0 - log.reward, log.propensity)
    arguments = {"estimators": "ips", "interval": interval, "reward_range": (0.0, 1.0)}
    row, other = (bopl.evaluate(one, prob, **arguments).row() for one in (log, mirrored))
    # E[(w - 1)(1 - r)] = -E[(w - 1) r] + E[w - 1]; bounds are built so that both ends mirror exactly.
    if interval in ("log_smoothing", "betting"):
        assert row["ci_lower"] == pytest.approx(1.0 - other["ci_upper"], abs=1e-9)
        assert row["uplift_ci_lower"] == pytest.approx(-other["uplift_ci_upper"], abs=1e-9)
    else:
        assert row["ci_upper"] - row["ci_lower"] > 0.0


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_logging_policy_has_no_uplift_with_zero_width(interval):
    log, _ = weighted_log(6)
    row = bopl.evaluate(log, log.propensity, estimators="ips", interval=interval).row()
    assert (row["uplift"], row["uplift_ci_lower"], row["uplift_ci_upper"]) == (0.0, 0.0, 0.0)
    assert row["verdict"] == "inconclusive"
    assert "is the logging policy" in row["reason"]


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_the_logging_policy_has_no_uplift_under_any_estimator(interval):
    sample = make_world("plain").sample(0, n_samples=300)
    for logging_policy in (sample.logging_prob, None):
        evaluation = bopl.evaluate(
            sample.log,
            sample.logging_prob,
            estimators="all",
            interval=interval,
            reward_model=sample.reward_hat,
            logging_policy=logging_policy,
        )
        assert len(evaluation.rows) == 9
        for row in evaluation.rows:
            assert (row["uplift"], row["uplift_ci_lower"], row["uplift_ci_upper"]) == (0.0, 0.0, 0.0), row["estimator"]


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_constant_reward_is_estimated_with_zero_width_by_snips_and_sndr(interval):
    log, _ = weighted_log(7)
    constant = bopl.BanditLog(log.context, log.action, np.full(300, 0.3), log.propensity)
    prob = np.random.default_rng(0).dirichlet([1.0, 1.0], size=300)
    evaluation = bopl.evaluate(constant, prob, estimators=["snips", "sndr"], interval=interval)
    snips, sndr = evaluation.rows
    assert (snips["value"], snips["ci_lower"], snips["ci_upper"], snips["std_err"]) == (0.3, 0.3, 0.3, 0.0)
    assert sndr["value"] == pytest.approx(0.3, abs=1e-12)
    assert sndr["ci_upper"] - sndr["ci_lower"] < 1e-12


def test_the_right_regressor_makes_dr_sharper_than_ips():
    world = make_world("plain")
    sample = world.sample(0)
    at = np.array(
        [np.flatnonzero((world.context.astype(np.float32) == row).all(axis=1))[0] for row in sample.log.context]
    )
    rows = {
        row["estimator"]: row
        for row in bopl.evaluate(
            sample.log, sample.policy_prob, estimators=["ips", "dr"], reward_model=world.reward_mean[at]
        ).rows
    }
    assert rows["dr"]["std_err"] < 0.8 * rows["ips"]["std_err"]


def test_intervals_of_groups_are_wider_and_copies_do_not_help():
    rng = np.random.default_rng(8)
    group = np.repeat(np.arange(60), 10)
    effect = rng.normal(size=60)[group]
    log = bopl.BanditLog(np.ones((600, 1)), rng.integers(2, size=600), effect, np.full(600, 0.5), group=group)
    prob = np.where(log.action_idx == 0, 0.7, 0.3)
    for interval in ("normal", "bootstrap"):
        grouped = bopl.evaluate(log, prob, interval=interval, estimators="snips").row()
        alone = bopl.evaluate(
            bopl.BanditLog(log.context, log.action, log.reward, log.propensity),
            prob,
            interval=interval,
            estimators="snips",
        ).row()
        assert grouped["value"] == alone["value"]
        assert grouped["std_err"] > 2.0 * alone["std_err"]


def test_group_labels_may_be_anything_and_rows_in_any_order():
    log, prob = weighted_log(9)
    group = np.arange(300) // 4
    order = np.random.default_rng(0).permutation(300)
    rows = []
    for labels, rows_at in ((group, slice(None)), (np.array([f"user {g}" for g in group]), order)):
        part = bopl.BanditLog(
            log.context[rows_at],
            log.action[rows_at],
            log.reward[rows_at],
            log.propensity[rows_at],
            group=labels[rows_at],
        )
        rows.append(bopl.evaluate(part, prob[rows_at]).row(estimator="ips"))
    assert rows[0]["std_err"] == pytest.approx(rows[1]["std_err"], rel=1e-12)
