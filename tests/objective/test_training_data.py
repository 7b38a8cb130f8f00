"""Samples travel together, and count as much as they are told to."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.boosting import Problem, StepRule, fit_ensemble
from bopl.learner import bind_learner
from bopl.objective import TrainingData
from bopl.objective.softmax import log_softmax
from bopl.objective.training_data import check_sample_weight
from helpers import OBJECTIVE_NAMES, WEIGHT_NAMES, informative_log, make_log, make_objective, masked, training_data


def test_take_permutes_all_fields_together():
    log = masked(make_log(n_samples=50))
    data, rng = training_data(log, has_weight=True), np.random.default_rng(0)
    first, second = rng.permutation(50), rng.permutation(50)
    taken = data.take(first).take(second)
    order = first[second]
    np.testing.assert_array_equal(taken.order, order)
    np.testing.assert_array_equal(taken.reward_estimate, data.reward_estimate[order])
    np.testing.assert_array_equal(taken.sample_weight, data.sample_weight[order])
    np.testing.assert_array_equal(taken.action_mask, data.action_mask[order])
    for name in ("action_idx", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(taken.log, name), getattr(log, name)[order])
    assert data.take(None).order is None


@pytest.mark.parametrize("weight", WEIGHT_NAMES)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_a_bound_objective_is_permuted_with_its_data(name, weight):
    log = masked(make_log(n_samples=50))
    data, order = training_data(log, has_weight=True), np.random.default_rng(0).permutation(50)
    score = np.random.default_rng(1).normal(size=(50, 4))
    plain, taken = make_objective(name, weight).bind(data), make_objective(name, weight).bind(data.take(order))
    log_prob = log_softmax(score, log.action_mask)
    np.testing.assert_array_equal(taken.gradient(log_prob[order]), plain.gradient(log_prob)[order])
    np.testing.assert_array_equal(taken.weight, plain.weight[order])
    np.testing.assert_array_equal(taken.curvature, plain.curvature[order])


def test_fields_of_another_length_are_refused():
    log = make_log()
    with pytest.raises(ValueError, match=r"reward_estimate must have shape \(60, 4\); it has shape \(60, 3\)"):
        TrainingData(log, np.zeros((60, 3)))
    with pytest.raises(ValueError, match=r"sample_weight must have one value per sample, 60; it has shape \(59,\)"):
        TrainingData(log, sample_weight=np.ones(59))


# -- Sample weights ---------------------------------------------------------------------------------------------------


def repeated(log, counts, has_mask):
    """Return data with whole-number weights, and the same samples written out so often."""
    estimate = np.random.default_rng(5).normal(size=(log.n_samples, log.n_actions))
    log, rows = masked(log) if has_mask else log, np.repeat(np.arange(log.n_samples), counts)
    weighted = TrainingData(log, estimate, check_sample_weight(counts, log.n_samples))
    return weighted, TrainingData(log.subset(rows), estimate[rows]), rows


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("weight", WEIGHT_NAMES)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_whole_number_weights_are_repeated_rows(name, weight, has_mask):
    log = make_log(2, n_samples=80, distinct=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    weighted, written, rows = repeated(log, counts, has_mask)
    score = np.random.default_rng(3).normal(size=(80, 4))
    for extra in [{}, {"self_normalised": True}] if name == "dr" else [{}]:
        objective = make_objective(name, weight, **extra)
        one, many = objective.bind(weighted), objective.bind(written)
        one_prob = log_softmax(score, weighted.action_mask)
        assert one.risk(one_prob) == pytest.approx(many.risk(one_prob[rows]), rel=1e-12)
        assert one.optimal_risk() == pytest.approx(many.optimal_risk(), rel=1e-9)
        sums = np.zeros((80, 4))
        np.add.at(sums, rows, many.gradient(one_prob[rows]))
        np.testing.assert_allclose(one.gradient(one_prob) * counts.mean(), sums, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(one.curvature * counts.mean(), np.bincount(rows, many.curvature, minlength=80))


@pytest.mark.parametrize(
    "learner", [DecisionTreeRegressor(max_depth=3, random_state=0), bopl.HistTree(3, min_child_weight=0)]
)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_a_fit_with_whole_number_weights_is_one_on_repeated_rows(name, learner):
    log = make_log(4, n_samples=120)
    weighted, written, _ = repeated(log, np.random.default_rng(4).integers(1, 4, size=120), False)
    scores = []
    for data in (weighted, written):
        bound = bind_learner(learner, data.log, seed=0)
        result = fit_ensemble(Problem(data, make_objective(name)), bound, StepRule(), n_rounds=4)
        scores.append(result.ensemble.score(log.context))
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-9)


def saved(tmp_path, **settings):
    policy = bopl.BoostedPolicy(
        "dr",
        bopl.HistTree(4, n_jobs=1),
        n_rounds=4,
        random_state=0,
        start=settings.pop("start", None),
        reward_model=bopl.BoostedRewardModel(n_rounds=5),
    )
    policy.fit(informative_log(), **settings).save(tmp_path / "policy.bopl")
    return (tmp_path / "policy.bopl").read_bytes()


@pytest.mark.parametrize("start", [None, "uniform", "logging+reward_model"])
def test_equal_weights_are_no_weights_to_the_last_bit(tmp_path, start):
    plain = saved(tmp_path, start=start)
    for weight in (1.0, 3.7, 1e-300, 1e300):
        assert saved(tmp_path, start=start, sample_weight=np.full(400, weight)) == plain


def test_the_scale_of_the_weights_is_irrelevant(tmp_path):
    weight = np.random.default_rng(0).exponential(size=400)
    weighted = saved(tmp_path, sample_weight=weight)
    assert weighted == saved(tmp_path, sample_weight=(weight * 4.0).tolist())
    assert weighted != saved(tmp_path)


def test_samples_without_weight_teach_nothing():
    log = informative_log()
    weight = (np.arange(400) < 200).astype(float)
    settings = {"learner": DecisionTreeRegressor(max_depth=3, random_state=0), "n_rounds": 5, "random_state": 0}
    kept = bopl.BoostedPolicy("ips", **settings).fit(log.subset(np.arange(200)))
    weighted = bopl.BoostedPolicy("ips", **settings).fit(log, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.decision_function(log.context[:200]), kept.decision_function(log.context[:200]), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(59), r"sample_weight must have one value per sample, 60; it has shape \(59,\)"),
        (np.ones((60, 1)), r"sample_weight must have one value per sample, 60; it has shape \(60, 1\)"),
        (np.zeros(60), "all sample weights are zero"),
        (np.where(np.arange(60) == 7, -1.0, 1.0), "not negative; 1 of 60 values are not, the first at row 7 with -1"),
        (np.where(np.arange(60) > 50, np.nan, 1.0), "must be finite .*; 9 of 60 values are not, the first at row 51"),
        (np.where(np.arange(60) == 0, np.inf, 1.0), "must be finite .*; 1 of 60"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        bopl.BoostedPolicy("ips", n_rounds=1).fit(make_log(), sample_weight=weight)


def test_weights_follow_the_samples_that_are_set_aside():
    """Weights of validation samples, however large, leave the others' as they are."""
    log = informative_log()
    settings = {"n_rounds": 3, "validation_fraction": 0.3, "random_state": 0}
    weight = np.random.default_rng(0).exponential(size=400)
    first = bopl.BoostedPolicy("ips", bopl.HistTree(3), **settings).fit(log, sample_weight=weight)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    _, watched = log.split_rows(0.3, random_state=seed)
    weight[watched] *= 1024.0
    second = bopl.BoostedPolicy("ips", bopl.HistTree(3), **settings).fit(log, sample_weight=weight)
    np.testing.assert_allclose(second.decision_function(log.context), first.decision_function(log.context), rtol=1e-9)
