"""`RewardTerms` with every kind of term at once, as an objective of one's own may have them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl.boosting.ascent import CompiledAscent, PlainAscent
from bopl.objective import RewardTerms
from bopl.objective.softmax import log_softmax
from helpers import logs, make_log, masked, training_data


def random_terms(log, seed, *, has_dense, has_log):
    rng = np.random.default_rng(seed)
    linear = rng.normal(size=log.n_samples) * rng.integers(0, 2, size=log.n_samples)
    logarithm = rng.exponential(size=log.n_samples) * rng.integers(0, 2, size=log.n_samples)
    dense = np.asfortranarray(rng.normal(size=(log.n_samples, log.n_actions)))
    logarithm = logarithm if has_log else np.zeros_like(logarithm)
    weight = np.abs(linear) + logarithm + 1.0
    return RewardTerms(training_data(log), linear, logarithm, dense if has_dense else None, weight, weight)


every_kind = pytest.mark.parametrize(("has_dense", "has_log"), [(True, True), (True, False), (False, True)])


@every_kind
@pytest.mark.parametrize("has_mask", [False, True])
def test_gradient_equals_finite_differences_of_the_risk(has_dense, has_log, has_mask):
    log = make_log(1, n_samples=6)
    log = masked(log) if has_mask else log
    terms = random_terms(log, 1, has_dense=has_dense, has_log=has_log)
    score = np.random.default_rng(2).normal(size=(6, 4))
    gradient = terms.gradient(log_softmax(score, log.action_mask))
    for cell in np.ndindex(score.shape):
        move = np.zeros_like(score)
        move[cell] = 1e-6
        down, up = (terms.risk(log_softmax(score + sign * move, log.action_mask)) for sign in (-1.0, 1.0))
        assert gradient[cell] == pytest.approx(6 * (down - up) / 2e-6, abs=1e-6)


@every_kind
@given(log=logs(), seed=st.integers(0, 1000), has_mask=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_policy_beats_the_optimal_risk(has_dense, has_log, log, seed, has_mask):
    log = masked(log, seed) if has_mask else log
    terms = random_terms(log, seed, has_dense=has_dense, has_log=has_log)
    view = log.context if log.action_mask is None else np.hstack([log.context, log.action_mask])
    _, group = np.unique(view, axis=0, return_inverse=True)
    optimal = terms.optimal_risk()
    for scale in (0.0, 1.0, 30.0):
        table = np.random.default_rng(seed).normal(scale=scale, size=(log.n_samples, log.n_actions))
        risk = terms.risk(log_softmax(table[group.reshape(-1)], log.action_mask))
        assert risk >= optimal - 1e-9


@every_kind
@pytest.mark.parametrize("has_mask", [False, True])
def test_compiled_ascent_is_the_plain_one(has_dense, has_log, has_mask):
    log = make_log(3, n_samples=200)
    log = masked(log) if has_mask else log
    terms = random_terms(log, 3, has_dense=has_dense, has_log=has_log)
    score = np.random.default_rng(4).normal(size=(200, 4))
    compiled = CompiledAscent(terms, terms.data, log, np.asfortranarray(score), 1)
    plain = PlainAscent(terms, terms.data, log, score)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, atol=1e-13)
    assert compiled.standing.risk == pytest.approx(plain.standing.risk, rel=1e-12)
