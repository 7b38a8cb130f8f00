"""The logging policy is learned from the propensities that it left behind."""

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl.boosting import Workbench
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions
from bopl.reward.logging_model import GOOD_FIT, LoggingModel, LoggingTerm, fit_logging_model
from logging_starts import gappy_log, logging_model


def drawn(prob_of, *, n_samples=1500, n_features=4, seed=0, mask_share=None):
    """Return a log of a policy, and that policy's probabilities on fresh contexts."""
    rng = np.random.default_rng([seed, 21])
    context, new = rng.normal(size=(n_samples, n_features)), rng.normal(size=(2000, n_features))
    prob, mask = prob_of(context), None
    if mask_share is not None:
        mask = rng.random(prob.shape) < mask_share
        mask[np.arange(n_samples), rng.integers(0, prob.shape[1], n_samples)] = True
        prob = np.where(mask, prob, 0.0)
        prob /= prob.sum(axis=1, keepdims=True)
    action = draw_actions(prob, rng)
    propensity = prob[np.arange(n_samples), action]
    reward, actions = rng.random(n_samples), list(range(prob.shape[1]))
    log = bopl.BanditLog(context, action, reward, propensity, actions=actions, action_mask=mask)
    return log, new, prob_of(new)


def linear(n_actions=4, *, epsilon=0.0, strength=1.0, n_features=4):
    rng = np.random.default_rng(3)
    weight, offset = strength * rng.normal(size=(n_features, n_actions)), rng.normal(size=n_actions)
    return lambda x: (1.0 - epsilon) * softmax(x @ weight + offset) + epsilon / n_actions


def kinked(context):
    """A policy that no linear score describes: what it prefers depends on a product of signs and on a distance."""
    first, second = np.sign(context[:, 0] * context[:, 1]), np.abs(context[:, 2]) - 1.0
    return softmax(2.0 * np.stack([first, second, np.zeros(len(context))], axis=1))


def off_by(model, context, prob):
    """Return how much probability is put elsewhere, on average."""
    return float(np.abs(np.exp(model.log_prob(context)) - prob).sum(axis=1).mean() / 2)


@pytest.mark.parametrize("n_actions", [2, 4, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_linear_softmax_policy_is_recovered(n_actions, seed):
    log, new, prob = drawn(linear(n_actions), seed=seed)
    model = fit_logging_model(log)
    assert off_by(model, new, prob) < 0.01
    assert model.error < 0.05 * model.spread
    assert not model.trees
    np.testing.assert_allclose(np.exp(model.log_prob(new)).sum(axis=1), 1.0)


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_a_floor_of_uniform_exploration_is_recovered(epsilon):
    log, new, prob = drawn(linear(epsilon=epsilon, strength=2.0))
    model = fit_logging_model(log)
    assert model.epsilon == pytest.approx(epsilon, abs=0.02)
    assert off_by(model, new, prob) < 0.01
    assert np.exp(model.log_prob(new)).min() >= 0.95 * epsilon / 4


def test_a_policy_without_a_floor_gets_none():
    assert fit_logging_model(drawn(linear(strength=2.0))[0]).epsilon < 0.01


def test_uniform_propensities_give_the_uniform_policy():
    log, new, prob = drawn(lambda x: np.full((len(x), 3), 1 / 3), n_samples=300)
    assert off_by(fit_logging_model(log), new, prob) < 1e-3


def test_what_a_mask_forbids_is_not_learned_as_dislike():
    """Propensities are of the eligible actions; the model knows the scores below them."""
    log, new, prob = drawn(linear(5), mask_share=0.5)
    model = fit_logging_model(log)
    assert off_by(model, new, prob) < 0.02
    mask = np.random.default_rng(0).random(prob.shape) < 0.5
    mask[:, 0] = True
    masked = np.exp(model.log_prob(new, mask))
    expected = np.where(mask, prob, 0.0)
    np.testing.assert_allclose(masked, expected / expected.sum(axis=1, keepdims=True), atol=0.1)
    assert masked[~mask].max() < 1e-9


def test_categories_gaps_and_columns_far_from_zero_are_learned():
    """A model with indicators of categories and filled gaps writes a log, and is found again."""
    source = gappy_log(n_samples=1500)
    table = {f"x{k}": source.context[:, k] for k in range(3)}
    code = source.context[:, 3]
    table["city"] = np.where(np.isnan(code), None, np.array(list("abcde"))[np.nan_to_num(code).astype(int)])
    truth = logging_model(source, size=0.7)
    prob = np.exp(truth.log_prob(source.context))
    rng = np.random.default_rng(1)
    action = draw_actions(prob, rng)
    frame = pd.DataFrame(table | {"a": action, "r": rng.random(1500), "p": prob[np.arange(1500), action]})
    log = bopl.BanditLog.from_frame(frame, action="a", reward="r", propensity="p", actions=range(4))
    model = fit_logging_model(log)
    assert model.layout.n_inputs == 3 + 2 + 5  # numbers, their gaps, categories
    assert off_by(model, log.context, prob) < 0.005
    assert not model.trees


@pytest.mark.parametrize("seed", [0, 1])
def test_trees_learn_what_a_linear_model_leaves_over_and_lower_the_error(seed):
    log, new, prob = drawn(kinked, n_samples=3000, seed=seed)
    model = fit_logging_model(log)
    assert model.trees
    linear_part = LoggingModel(model.layout, model.coef, model.intercept, model.epsilon)
    action = draw_actions(prob, np.random.default_rng(7))
    rows = np.arange(len(new))
    target = np.log(prob[rows, action])
    before, after = (
        float(np.sqrt(np.mean((one.log_prob(new)[rows, action] - target) ** 2))) for one in (linear_part, model)
    )
    assert before > GOOD_FIT * model.spread
    assert after < 0.5 * before
    assert model.error == pytest.approx(after, rel=0.35)  # what it says of itself, by samples held out
    assert off_by(model, new, prob) < 0.5 * off_by(linear_part, new, prob)


def test_trees_that_explain_nothing_are_left_out():
    """Propensities that are noise are nobody's policy: trees on them would be noise as well."""
    rng = np.random.default_rng(0)
    log = bopl.BanditLog(
        rng.normal(size=(600, 3)), rng.integers(0, 3, 600), rng.random(600), rng.uniform(0.1, 0.9, 600)
    )
    model = fit_logging_model(log)
    assert model.error > GOOD_FIT * model.spread
    assert not model.trees


def test_an_action_that_was_never_logged_is_hardly_taken():
    log, new, _ = drawn(linear(3))
    wider = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=[0, 1, 2, 3])
    assert np.exp(fit_logging_model(wider).log_prob(new))[:, 3].max() < 0.01


def test_rewards_are_not_looked_at():
    log = drawn(kinked, n_samples=1500)[0]
    models = [fit_logging_model(one) for one in (log, log.with_reward(-5.0 * log.reward))]
    new = drawn(kinked, seed=9)[1]
    assert models[0].log_prob(new).tobytes() == models[1].log_prob(new).tobytes()


def test_the_seed_decides():
    log, new, _ = drawn(kinked, n_samples=1000)
    first, again = (fit_logging_model(log, seed=4).log_prob(new) for _ in range(2))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("n_samples", [2, 3, 10])
def test_a_handful_of_samples_is_enough_for_probabilities(n_samples):
    log = drawn(linear())[0].subset(np.arange(n_samples))
    prob = np.exp(fit_logging_model(log).log_prob(log.context))
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)
    assert np.isfinite(prob).all()


@pytest.mark.parametrize("kind", [linear(4, epsilon=0.2), kinked], ids=["linear", "trees"])
def test_a_model_is_packed_and_unpacked_to_the_same_bits(kind):
    log, new, _ = drawn(kind, n_samples=3000)
    model = fit_logging_model(log)
    facts, arrays = model.pack()
    by_action = np.eye(log.n_actions)
    again = LoggingModel.unpack(facts, arrays, n_features=4, by_action=by_action)
    assert again.log_prob(new).tobytes() == model.log_prob(new).tobytes()
    with pytest.raises(ValueError, match="the model of the logging policy is not valid"):
        LoggingModel.unpack({**facts, "epsilon": 2.0}, arrays, n_features=4, by_action=by_action)


def test_a_term_is_what_its_formula_says():
    log, new, _ = drawn(linear())
    model = fit_logging_model(log)
    log_prob = model.log_prob(new)
    np.testing.assert_allclose(LoggingTerm(model, 0.5, -2.0).predict(new), 0.5 * log_prob - 2.0 * np.exp(log_prob))
    assert LoggingTerm(model).gain_by_column() is None


def test_a_prior_of_rewards_is_the_least_squares_line_of_the_logged_propensities():
    log = drawn(linear(), n_samples=800)[0]
    told = log.with_reward(0.2 + 0.1 * np.log(log.propensity) + 0.3 * log.propensity)
    bench = Workbench(told)
    logged = bench.logging().log_prob[np.arange(told.n_samples), told.action_idx]
    np.testing.assert_allclose(bench.prior().of(logged), told.reward, atol=0.02)


def test_equal_propensities_say_nothing_of_rewards():
    """Nor of those of an action that was never logged, whose fitted probability is far from the others'."""
    log = drawn(lambda x: np.full((len(x), 3), 1 / 3), n_samples=400)[0]
    wider = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=[0, 1, 2, 3])
    bench = Workbench(wider)
    prior = bench.prior()
    np.testing.assert_allclose(prior.of(bench.logging().log_prob), log.reward.mean())
    np.testing.assert_allclose(prior.constant + prior.term.predict(log.context), log.reward.mean())
