"""A learner may keep the samples in an order of its own: the fit is the same, up to the rounding of sums."""

import numpy as np
import pytest

import bopl
from bopl.learner.hist_tree import fit
from helpers import informative_log


@pytest.fixture
def stored_by_leaf(monkeypatch):
    """Let the engine order even small logs, from the moment it is called."""

    def start():
        monkeypatch.setattr(fit, "MIN_CONTEXTS", 1)

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
    np.testing.assert_allclose(ordered.decision_function(log.context), score, rtol=1e-9, atol=1e-12)
    for name in ("empirical_risk", "theorem_bound", "opt_emp_risk", "snips_value", "effective_sample_size"):
        np.testing.assert_allclose(ordered.history_[name], history[name], rtol=1e-9, atol=1e-12)


def test_reward_model_is_that_of_the_order_of_the_log(stored_by_leaf):
    log = make_log(False)
    model = bopl.BoostedRewardModel(n_rounds=10)
    expected = model.fit(log).predict(log.context)
    stored_by_leaf()
    np.testing.assert_allclose(model.fit(log).predict(log.context), expected, rtol=1e-9, atol=1e-12)


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
