"""A learner may keep the samples in an order of its own: the fit is the same, to the last bit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import bopl
from bopl.learner.hist_tree import locality
from bopl.objective import RewardTerms
from helpers import informative_log


@pytest.fixture
def stored_by_leaf(monkeypatch):
    """Let the engine order even small logs, from the moment it is called."""

    def start():
        monkeypatch.setattr(locality, "MIN_CONTEXTS", 1)

    return start


def make_log(has_mask):
    log = informative_log(n_samples=600)
    mask = np.random.default_rng(1).random((600, log.n_actions)) < 0.7
    mask[np.arange(600), log.action_idx] = True
    return bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=mask if has_mask else None
    )


@pytest.mark.parametrize("has_mask", [False, True])
def test_policy_and_history_are_those_of_the_order_of_the_log(has_mask, stored_by_leaf):
    log = make_log(has_mask)
    policy = bopl.BoostedPolicy(
        "surrogate", bopl.HistTree(5, min_child_weight=3.0), n_rounds=6, reward_translation=-0.2
    )
    plain = policy.fit(log)
    score, history = plain.decision_function(log.context), plain.history_
    assert plain.learner.bind(log, seed=0).row_order is None
    stored_by_leaf()
    assert not np.array_equal(plain.learner.bind(log, seed=0).row_order, np.arange(log.n_samples))
    ordered = policy.fit(log)
    np.testing.assert_array_equal(ordered.decision_function(log.context), score)
    for name in history:
        np.testing.assert_array_equal(ordered.history_[name], history[name])


def test_reward_model_is_that_of_the_order_of_the_log(stored_by_leaf):
    log = make_log(False)
    model = bopl.BoostedRewardModel(n_rounds=10)
    expected = model.fit(log).predict(log.context)
    stored_by_leaf()
    np.testing.assert_array_equal(model.fit(log).predict(log.context), expected)


def test_resumed_fit_is_the_uninterrupted_one(stored_by_leaf, tmp_path):
    stored_by_leaf()
    log, path = make_log(False), tmp_path / "fit.ckpt"
    learner = bopl.HistTree(5, min_child_weight=3.0, subsample=0.7)
    whole = bopl.BoostedPolicy("ips", learner, n_rounds=8, random_state=0).fit(log)
    bopl.BoostedPolicy("ips", learner, n_rounds=3, random_state=0).fit(log, callbacks=[bopl.Checkpoint(path)])
    resumed = bopl.BoostedPolicy("ips", learner, n_rounds=8, random_state=0).fit(log, resume_from=path)
    np.testing.assert_array_equal(resumed.decision_function(log.context), whole.decision_function(log.context))


def test_outcomes_leave_the_contexts_behind():
    log = make_log(True)
    order = np.random.default_rng(2).permutation(log.n_samples)
    outcomes = log.outcomes(order)
    assert outcomes.n_features == 0
    assert outcomes.n_samples == log.n_samples
    np.testing.assert_array_equal(outcomes.reward, log.reward[order])
    np.testing.assert_array_equal(outcomes.action_mask, log.action_mask[order])
    np.testing.assert_array_equal(log.outcomes().propensity, log.propensity)


# -- Above 32,768 samples the engine orders them by itself: whatever belongs to a sample must follow ------------------

N_LARGE = 40_000


@dataclass(frozen=True)
class SideData:
    """IPS of rewards times a number of one's own per row of the log."""

    values: tuple
    name: ClassVar[str] = "side_data"
    title: ClassVar[str] = "risk with side data"
    needs_reward_model: ClassVar[bool] = False

    def bind(self, data):
        rows = slice(None) if data.order is None else data.order
        value = data.log.reward / data.log.propensity * np.array(self.values)[rows]
        return RewardTerms(data, value, np.zeros_like(value), None, np.abs(value), np.abs(value) / 2)


@pytest.fixture(scope="module")
def large():
    log = informative_log(n_samples=N_LARGE)
    weight = np.random.default_rng(1).exponential(size=N_LARGE)
    return log, weight / weight.mean()


def fit_large(objective, log, *, sample_weight=None, **settings):
    policy = bopl.BoostedPolicy(
        objective,
        bopl.HistTree(4, min_child_weight=3.0),
        n_rounds=3,
        reward_model=bopl.BoostedRewardModel(bopl.HistTree(3), n_rounds=4, learning_rate=0.5),
        random_state=0,
        **settings,
    )
    return policy.fit(log, sample_weight=sample_weight)


def as_logged(monkeypatch):
    """Let the engine keep rows in the order of the log."""
    monkeypatch.setattr(locality, "MIN_CONTEXTS", 10 * N_LARGE)


@pytest.mark.parametrize("start", ["uniform", "reward_model", "logging+reward_model"])
def test_estimates_weights_and_starts_of_40000_samples_stay_with_their_samples(large, start, monkeypatch):
    log, weight = large
    ordered = fit_large("dr", log, sample_weight=weight, start=start)
    assert not np.array_equal(ordered.learner.bind(log, seed=0).row_order, np.arange(N_LARGE))
    as_logged(monkeypatch)
    plain = fit_large("dr", log, sample_weight=weight, start=start)
    assert plain.learner.bind(log, seed=0).row_order is None
    np.testing.assert_allclose(
        ordered.decision_function(log.context), plain.decision_function(log.context), rtol=1e-8, atol=1e-10
    )
    for name in ("objective_risk", "theorem_bound", "opt_emp_risk", "snips_value", "effective_sample_size"):
        np.testing.assert_allclose(ordered.history_[name], plain.history_[name], rtol=1e-8)


def test_side_data_of_an_objective_of_ones_own_is_looked_up_by_the_order_it_is_told(large, monkeypatch):
    log, weight = large
    objective = SideData(tuple(weight))
    ordered = fit_large(objective, log).decision_function(log.context)
    weighted = fit_large("ips", log, sample_weight=weight).decision_function(log.context)
    as_logged(monkeypatch)
    plain = fit_large(objective, log).decision_function(log.context)
    np.testing.assert_allclose(ordered, plain, rtol=1e-8, atol=1e-10)
    assert not np.allclose(
        fit_large(SideData(tuple(weight[::-1])), log).decision_function(log.context), plain, rtol=0.01
    )
    # The policy of the built-in weights differs by its step size alone: |v|·√3/9 of "ips" against |v|/2 here.
    assert not np.allclose(weighted, plain)


def test_scores_of_the_training_loop_are_those_of_predicting(large):
    """From a start that is a function of the context, the loop's scores are the policy's, row by row."""
    log, weight = large
    seen = {}

    def keep(state):
        seen["score"] = state.score.copy()
        return bopl.CallbackAction.CONTINUE

    policy = bopl.BoostedPolicy("ips", bopl.HistTree(4, min_child_weight=3.0), n_rounds=3, random_state=0)
    policy.fit(log, sample_weight=weight, callbacks=[keep])
    order = policy.learner.bind(log, seed=0).row_order
    np.testing.assert_allclose(seen["score"], policy.decision_function(log.context)[order], rtol=1e-12, atol=1e-12)
