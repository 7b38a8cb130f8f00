"""The compiled ascent beside its plain twin, and beside itself on other numbers of threads."""

import numpy as np
import pytest

from bopl.boosting import ascent
from bopl.boosting.ascent import CompiledAscent, PlainAscent, ascend
from bopl.boosting.ascent_kernel import block_rows, fast_exp
from bopl.objective import TrainingData
from helpers import OBJECTIVE_NAMES, make_log, make_objective, masked, training_data

# Below and above a block of 4096 samples for 3 actions, 409 for 40, 64 for 300.
SIZES = [(1, 2), (5, 3), (4096, 3), (9000, 3), (1000, 40), (200, 300)]


def case(name, n_samples, n_actions, *, has_mask=False, seed=0, **settings):
    """Return a bound objective, its data, the log as it was logged, scores and predictions of three rounds."""
    log = make_log(seed, n_samples=n_samples, n_actions=n_actions, **settings)
    log = masked(log, seed) if has_mask else log
    data = training_data(log, seed, has_weight=True)
    translated = TrainingData(log.translated(-0.3), data.reward_estimate, data.sample_weight)
    rng = np.random.default_rng(seed)
    score = np.asfortranarray(rng.normal(scale=3.0, size=(n_samples, n_actions)))
    steps = [np.asfortranarray(rng.normal(scale=5.0, size=score.shape)) for _ in range(3)]
    if has_mask:
        steps = [np.where(log.action_mask, step, 0.0) for step in steps]
    return make_objective(name).bind(translated), translated, log, score, steps


def assert_same(compiled, plain, bound):
    """Equal but for rounding, which is measured against what the terms are added up from."""
    dense = 0.0 if bound.dense is None else np.abs(bound.dense).max(axis=1)
    magnitude = np.max(np.abs(bound.linear) + bound.log + dense)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-9, atol=1e-12 * magnitude)
    np.testing.assert_array_equal(compiled.score, plain.score)
    for field, value in vars(plain.standing).items():
        assert getattr(compiled.standing, field) == pytest.approx(value, rel=1e-9, abs=1e-11 * magnitude), field


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize(("n_samples", "n_actions"), SIZES)
def test_compiled_ascent_is_the_plain_one(name, has_mask, n_samples, n_actions):
    bound, data, log, score, steps = case(name, n_samples, n_actions, has_mask=has_mask)
    compiled = ascend(bound, data, log, score.copy(order="F"), 1)
    plain = PlainAscent(bound, data, log, score.copy(order="F"))
    assert isinstance(compiled, CompiledAscent)
    assert_same(compiled, plain, bound)
    for step in steps:
        ours, theirs = compiled.measure(step.copy(order="F")), plain.measure(step)
        for field, value in vars(theirs).items():
            assert getattr(ours, field) == pytest.approx(value, rel=1e-9, abs=1e-10 * theirs.bend), field
        compiled.move(step.copy(order="F"), 0.7)
        plain.move(step, 0.7)
        assert_same(compiled, plain, bound)


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_huge_inverse_propensities_do_not_overflow(name):
    """1/p reaches 1e100; squares of importance weights are formed of shares of the largest."""
    bound, data, log, score, steps = case(name, 300, 4, min_propensity=1e-100)
    compiled, plain = (kind(bound, data, log, score.copy(order="F"), *more) for kind, more in KINDS)
    compiled.move(steps[0].copy(order="F"), 0.5)
    plain.move(steps[0], 0.5)
    assert np.isfinite(list(vars(compiled.standing).values())).all()
    assert_same(compiled, plain, bound)


KINDS = ((CompiledAscent, (1,)), (PlainAscent, ()))


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_scores_thousands_apart_give_probability_zero_and_no_nan(name):
    bound, data, log, score, _ = case(name, 100, 4)
    compiled, plain = (kind(bound, data, log, (1000.0 * score).copy(order="F"), *more) for kind, more in KINDS)
    assert_same(compiled, plain, bound)


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
@pytest.mark.parametrize("has_mask", [False, True])
def test_the_number_of_threads_changes_no_bit(name, has_mask, monkeypatch):
    monkeypatch.setattr(ascent, "MIN_PARALLEL", 1)
    bound, data, log, score, steps = case(name, 3000, 40, has_mask=has_mask)
    assert len(range(0, 3000, block_rows(40))) > 3
    results = []
    for n_jobs in (1, 2, 3):
        moved = CompiledAscent(bound, data, log, score.copy(order="F"), n_jobs)
        sums = []
        for step in steps:
            sums.append(moved.measure(step.copy(order="F")))
            moved.move(step.copy(order="F"), 0.3)
        results.append((moved.score.tobytes(), moved.gradient.tobytes(), moved.standing, sums))
    assert results[0] == results[1] == results[2]


def test_predictions_of_ineligible_actions_do_not_count():
    bound, data, log, score, steps = case("ips", 200, 4, has_mask=True)
    loud = np.asfortranarray(np.where(log.action_mask, steps[0], 1e6))
    for kind, more in KINDS:
        quiet_ascent, loud_ascent = (kind(bound, data, log, score.copy(order="F"), *more) for _ in range(2))
        assert quiet_ascent.measure(steps[0].copy(order="F")) == loud_ascent.measure(loud.copy(order="F"))
        quiet_ascent.move(steps[0].copy(order="F"), 1.0)
        loud_ascent.move(loud.copy(order="F"), 1.0)
        np.testing.assert_array_equal(quiet_ascent.gradient, loud_ascent.gradient)
        assert quiet_ascent.standing == loud_ascent.standing


def test_objectives_of_another_form_are_boosted_in_numpy():
    bound, data, log, score, steps = case("surrogate", 50, 3)

    class Wrapped:
        weight, curvature = bound.weight, bound.curvature
        gradient, risk, optimal_risk = bound.gradient, bound.risk, bound.optimal_risk

    plain = ascend(Wrapped(), data, log, score.copy(order="F"), 1)
    assert isinstance(plain, PlainAscent)
    compiled = ascend(bound, data, log, score.copy(order="F"), 1)
    for one in (plain, compiled):
        one.move(steps[0].copy(order="F"), 0.4)
    assert_same(compiled, plain, bound)


def test_fast_exp_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([[0.0, -0.0, -1e-300, -707.99], -rng.uniform(0, 708, 20_000), -rng.exponential(size=20_000)])
    expected = np.exp(x)
    found = np.array([fast_exp(value) for value in x.tolist()])
    assert (np.abs(found - expected) <= 2 * np.spacing(expected)).all()
    assert fast_exp(0.0) == 1.0
    assert [fast_exp(value) for value in (-708.0, -800.0, -1e300, -np.inf)] == [0.0] * 4
