"""Leaves in typical samples, and one binding for several settings."""

import numpy as np
import pytest

import bopl
from bopl.objective import StepTarget
from helpers import informative_log, make_log, masked

KINDS = [bopl.HistTree, bopl.HistTreeClassifier]


def target_of(log, seed=0, share_of_zeros=0.3):
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=log.n_samples) * (rng.random(log.n_samples) > share_of_zeros)
    gradient = weight[:, None] * rng.normal(size=(log.n_samples, log.n_actions))
    gradient = gradient if log.action_mask is None else np.where(log.action_mask, gradient, 0.0)
    return StepTarget(np.asfortranarray(gradient), weight)


def tree_bytes(bound, target, round_idx=0):
    fitted = bound.fit(target, round_idx)
    return fitted.predictor.tree.to_bytes(), fitted.prediction.tobytes()


@pytest.mark.parametrize("n_samples", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("has_mask", [False, True])
def test_leaves_of_so_many_typical_samples_are_leaves_of_so_much_weight(n_samples, has_mask):
    log = make_log(1, n_samples=400)
    log = masked(log) if has_mask else log
    target = target_of(log)
    mean = target.weight.sum() / np.count_nonzero(target.weight)  # samples without weight are none
    by_count = bopl.HistTree(8, min_child_weight=0.0, min_leaf_samples=n_samples).bind(log, seed=0)
    by_weight = bopl.HistTree(8, min_child_weight=n_samples * mean).bind(log, seed=0)
    assert tree_bytes(by_count, target) == tree_bytes(by_weight, target)
    assert by_count.fit(target, 0).predictor.n_leaves > 1


def test_the_larger_of_both_limits_holds():
    log = make_log(1, n_samples=400)
    target = target_of(log)
    both = bopl.HistTree(8, min_child_weight=30.0, min_leaf_samples=1.0).bind(log, seed=0)
    assert tree_bytes(both, target) == tree_bytes(bopl.HistTree(8, min_child_weight=30.0).bind(log, seed=0), target)


@pytest.mark.parametrize("factor", [2.0**-4, 4.0, 2.0**30])  # far below, XGBoost's least gain of 1e-6 ends the growth
def test_typical_samples_mean_the_same_on_every_scale(factor):
    log = make_log(2, n_samples=300)
    target = target_of(log)
    scaled = StepTarget(np.asfortranarray(factor * target.gradient), factor * target.weight)
    bound = bopl.HistTree(8, min_child_weight=0.0, min_leaf_samples=10.0).bind(log, seed=0)
    ours, theirs = bound.fit(target, 0), bound.fit(scaled, 0)
    np.testing.assert_allclose(ours.prediction, theirs.prediction, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(ours.predictor.tree.threshold, theirs.predictor.tree.threshold)


@pytest.mark.parametrize("objective", ["ips", "surrogate"])
def test_a_policy_does_not_depend_on_the_unit_of_reward_and_propensity(objective):
    log = informative_log()
    settings = {"learner": bopl.HistTree(6, min_child_weight=0.0, min_leaf_samples=20.0), "n_rounds": 5}
    scores = []
    for reward_factor, propensity_factor in ((1.0, 1.0), (1024.0, 1.0), (1.0, 1 / 64)):
        other = bopl.BanditLog(
            log.context, log.action, reward_factor * log.reward, propensity_factor * log.propensity, actions=log.actions
        )
        policy = bopl.BoostedPolicy(objective, **settings, random_state=0).fit(other)
        scores.append(policy.decision_function(log.context))
    for score in scores[1:]:
        np.testing.assert_allclose(score, scores[0], rtol=1e-9, atol=1e-12)


def test_min_leaf_samples_must_not_be_negative():
    with pytest.raises(ValueError, match="min_leaf_samples must be at least 0; got -1"):
        bopl.HistTree(min_leaf_samples=-1).bind(make_log(), seed=0)


# -- rebound ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"max_depth": 2},
        {"max_depth": 9, "min_child_weight": 0.1, "colsample": 0.5},
        {"min_samples_leaf": 25},
        {"subsample": 0.5, "random_state": 3},
        {"max_leaves": 5},
        {"min_leaf_samples": 15.0},
    ],
    ids=str,
)
def test_a_rebound_learner_fits_the_same_bytes_as_a_fresh_one(kind, has_mask, settings):
    log = make_log(3, n_samples=500, n_features=5)
    log = masked(log) if has_mask else log
    target, first = target_of(log), bopl.HistTree(6).bind(log, seed=0)
    before = tree_bytes(first, target)
    learner = kind(**settings)
    rebound, fresh = first.rebound(learner, seed=11), learner.bind(log, seed=11)
    for round_idx in range(3):
        assert tree_bytes(rebound, target, round_idx) == tree_bytes(fresh, target, round_idx)
        assert tree_bytes(first, target) == before  # the two take turns
    assert rebound.settings is learner


def test_a_rebound_learner_keeps_the_order_of_the_samples(monkeypatch):
    from bopl.learner.hist_tree import locality

    monkeypatch.setattr(locality, "MIN_CONTEXTS", 1)
    log = make_log(4, n_samples=300)
    first = bopl.HistTree(4).bind(log, seed=0)
    assert first.row_order is not None
    np.testing.assert_array_equal(first.rebound(bopl.HistTree(7), seed=1).row_order, first.row_order)


def test_other_bins_need_another_binding():
    log = make_log(5)
    bound = bopl.HistTree(categorical=[1]).bind(log, seed=0)
    with pytest.raises(ValueError, match="binned with max_bins=256; max_bins=16 needs a binding of its own"):
        bound.rebound(bopl.HistTree(max_bins=16, categorical=[1]), seed=0)
    with pytest.raises(ValueError, match=r"binned with categorical=\[1\]; categorical=None needs a binding"):
        bound.rebound(bopl.HistTree(), seed=0)
    with pytest.raises(ValueError, match="max_depth must lie in"):
        bound.rebound(bopl.HistTree(0, categorical=[1]), seed=0)
    for same in ((1,), np.array([1])):
        assert bound.rebound(bopl.HistTree(3, categorical=same), seed=0).settings.max_depth == 3
