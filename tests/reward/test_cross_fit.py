"""Every sample's rewards are estimated by a model that has not seen it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression

import bopl
from bopl.learner.store import PREDICTORS
from bopl.reward import BoostedRewardModel, cross_fit, draw_folds
from bopl.reward.boosted_model import RewardBinding
from bopl.reward.kept_models import can_be_kept
from helpers import informative_log, make_log


def model(n_rounds=4, learning_rate=0.2):
    learner = bopl.HistTree(4, min_child_weight=5.0, n_jobs=1)
    return BoostedRewardModel(learner, n_rounds=n_rounds, learning_rate=learning_rate)


def n_rounds_of(fitted):
    return len(getattr(fitted, "predictors_", ()))


def grouped(log, group):
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, group=group)


class MeanByAction:
    """A model of one's own, with fit and predict."""

    def fit(self, log):
        known = [log.reward[log.action_idx == action] for action in range(log.n_actions)]
        self.mean_ = np.array([rewards.mean() if len(rewards) else 0.0 for rewards in known])
        return self

    def predict(self, context):
        return np.tile(self.mean_, (context.shape[0], 1))


class TenTimes(BoostedRewardModel):
    """Ours, of rewards on another scale."""

    def fit(self, log, **options):
        return super().fit(log.with_reward(10.0 * log.reward), **options)

    def predict(self, context, **options):
        return super().predict(context, **options) / 10.0


MODELS = {"boosted": model, "regressor": LinearRegression, "own": MeanByAction}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("row", [0, 123, 399])
def test_the_estimate_of_a_sample_does_not_change_with_its_own_reward(name, row):
    log = informative_log()
    reward = np.array(log.reward)
    reward[row] += 0.5
    before, after = (cross_fit(one, MODELS[name](), seed=3) for one in (log, log.with_reward(reward)))
    # How many rounds are kept is all that a sample decides about itself, together with all others; here it is the same.
    assert [n_rounds_of(one) for one in before.models] == [n_rounds_of(one) for one in after.models]
    np.testing.assert_array_equal(before.fold, after.fold)
    same_fold = before.fold == before.fold[row]
    np.testing.assert_array_equal(after.estimate[same_fold], before.estimate[same_fold])
    assert not np.array_equal(after.estimate[~same_fold], before.estimate[~same_fold])


@pytest.mark.parametrize("name", MODELS)
def test_samples_of_one_group_share_a_fold_and_its_model(name):
    log = informative_log()
    group = np.random.default_rng(0).integers(0, 40, size=400)
    reward = np.where(group == 7, log.reward + 0.3, log.reward)
    before, after = (cross_fit(grouped(one, group), MODELS[name](), seed=1) for one in (log, log.with_reward(reward)))
    for number in np.unique(group):
        assert len(np.unique(before.fold[group == number])) == 1
    np.testing.assert_array_equal(after.estimate[group == 7], before.estimate[group == 7])


def test_folds_are_of_equal_size_and_depend_on_the_seed_alone():
    log = make_log(n_samples=103)
    sizes = np.bincount(draw_folds(log, 5, 0))
    assert sorted(sizes.tolist()) == [20, 20, 21, 21, 21]
    np.testing.assert_array_equal(draw_folds(log, 5, 0), draw_folds(make_log(9, n_samples=103), 5, 0))
    assert not np.array_equal(draw_folds(log, 5, 0), draw_folds(log, 5, 1))
    with pytest.raises(ValueError, match="needs at least two groups; the log has one"):
        draw_folds(grouped(log, np.zeros(103)), 5, 0)


def test_estimates_are_those_of_the_models_of_the_folds_and_new_contexts_get_their_mean():
    log = informative_log()
    fitted = cross_fit(log, model(), n_folds=3)
    assert len(fitted.models) == 3
    for number, one in enumerate(fitted.models):
        own = fitted.fold == number
        np.testing.assert_array_equal(fitted.estimate[own], one.predict(log.context[own]))
    new = informative_log(9).context
    np.testing.assert_allclose(fitted.predict(new), np.mean([one.predict(new) for one in fitted.models], axis=0))
    logged = fitted.estimate[np.arange(400), log.action_idx]
    assert fitted.error == pytest.approx(np.mean((log.reward - logged) ** 2))
    assert fitted.explained == pytest.approx(1 - fitted.error / log.reward.var())


def error_after(log, n_rounds, **settings):
    """Return the error of estimates after just so many rounds, found without stopping early."""
    binding, fold = RewardBinding(log, model().learner_for(log)), draw_folds(log, 5, 0)
    total = 0.0
    for number in range(5):
        run = binding.boost(model(**settings), np.where(fold == number, 0.0, 1.0), seed=number)
        for _ in range(n_rounds):
            run.add_round()
        total += (run.residual[fold[binding.order] == number] ** 2).sum()
    return total / log.n_samples


def test_boosting_keeps_the_rounds_with_the_least_error_on_samples_not_seen():
    rng = np.random.default_rng(0)
    log = informative_log()
    noisy = log.with_reward(log.reward + rng.normal(scale=1.0, size=400))
    fitted = cross_fit(noisy, model(60, learning_rate=0.3))
    kept = len(fitted.models[0].predictors_)
    errors = [error_after(noisy, count, learning_rate=0.3) for count in range(kept + 10)]
    assert 0 < kept < 50
    assert int(np.argmin(errors)) == kept
    assert fitted.error == pytest.approx(min(errors))
    assert {len(one.predictors_) for one in fitted.models} == {kept}


def test_rewards_that_nothing_explains_are_estimated_by_their_mean():
    log = make_log(3, n_samples=300)
    fitted = cross_fit(log.with_reward(np.full(300, 0.25)), model())
    np.testing.assert_allclose(fitted.estimate, 0.25)
    assert fitted.explained == 0.0
    assert fitted.predict(log.context).shape == (300, 4)


def test_samples_of_weight_zero_are_as_if_they_were_not_there():
    """Contexts of few values: the bins of the log are those of the part."""
    log = make_log(5, n_samples=600, distinct=4, n_features=3)
    part = np.random.default_rng(0).random(600) < 0.7
    weight, settings = part.astype(float), {"learner": bopl.HistTree(4, min_child_weight=5.0, n_jobs=1), "n_rounds": 8}
    whole = BoostedRewardModel(**settings).fit(log, sample_weight=weight)
    alone = BoostedRewardModel(**settings).fit(log.subset(part))
    assert whole.initial_ == pytest.approx(alone.initial_, rel=1e-14)
    for ours, theirs in zip(whole.predictors_, alone.predictors_, strict=True):
        for name in ("feature", "threshold", "left", "right", "action", "is_equal"):
            np.testing.assert_array_equal(getattr(ours.tree, name), getattr(theirs.tree, name))
        np.testing.assert_allclose(ours.tree.value, theirs.tree.value, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(whole.predict(log.context), alone.predict(log.context), rtol=1e-9)


def test_whole_number_weights_are_repeated_rows():
    log = make_log(6, n_samples=300, distinct=4)
    counts = np.random.default_rng(1).integers(1, 4, size=300)
    weighted = model().fit(log, sample_weight=counts.astype(float))
    written = model().fit(log.subset(np.repeat(np.arange(300), counts)))
    np.testing.assert_allclose(weighted.predict(log.context), written.predict(log.context), rtol=1e-9, atol=1e-12)


def test_a_shared_binding_changes_nothing():
    log = informative_log()
    binding = RewardBinding(log, model().learner_for(log))
    for settings in ({}, {"learning_rate": 0.5}):
        shared, own = cross_fit(log, model(**settings), binding=binding), cross_fit(log, model(**settings))
        assert shared.estimate.tobytes() == own.estimate.tobytes()


def test_sparse_contexts_are_estimated_like_dense_ones():
    log = make_log(7, n_samples=300, distinct=3)
    sparse = bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity, actions=log.actions)
    np.testing.assert_allclose(cross_fit(sparse, model()).estimate, cross_fit(log, model()).estimate, rtol=1e-9)


def test_a_fit_can_be_ended_between_rounds():
    log, asked = informative_log(), []

    def is_over():
        asked.append(None)
        return len(asked) == 2

    assert len(cross_fit(log, model(50), is_over=is_over).models[0].predictors_) <= 2
    assert len(asked) == 2


def test_one_fold_is_no_cross_fit():
    with pytest.raises(ValueError, match="n_folds must be at least 2; got 1"):
        cross_fit(make_log(), n_folds=1)


def test_a_subclass_with_another_fit_is_fitted_by_it():
    log = informative_log()
    ours, theirs = (cross_fit(log, kind(n_rounds=20, random_state=0)) for kind in (BoostedRewardModel, TenTimes))
    assert ours.explained > 0.1
    assert theirs.explained > 0.5 * ours.explained
    assert not can_be_kept(TenTimes())


@dataclass(frozen=True)
class Averages(bopl.learner.Predictor):
    mean: np.ndarray
    kind: ClassVar[str] = "averages"

    def predict(self, context):
        return np.tile(self.mean, (context.shape[0], 1))


class AverageRewards:
    """A reward model of somebody else: weighted means by action, which know how to be written."""

    def fit(self, log, sample_weight=None):
        weight = np.ones(log.n_samples) if sample_weight is None else sample_weight
        total, count = (np.bincount(log.action_idx, one, log.n_actions) for one in (weight * log.reward, weight))
        self.mean_ = total / np.maximum(count, 1e-9)
        return self

    def predict(self, context):
        return self.predictor().predict(context)

    def predictor(self):
        return Averages(self.mean_)


@pytest.fixture
def averages_are_known():
    with PREDICTORS.temporary():
        bopl.learner.register_predictor(
            "averages",
            lambda parts: ({}, {"mean": np.array([part.mean for part in parts])}),
            lambda facts, arrays, *, n_features, by_action: [Averages(mean) for mean in arrays["mean"]],
        )
        yield


@pytest.mark.usefixtures("averages_are_known")
def test_a_reward_model_with_a_predictor_of_its_own_is_part_of_the_file(tmp_path):
    log = make_log()
    policy = bopl.BoostedPolicy("dr", start="reward_model", reward_model=AverageRewards(), n_rounds=2, random_state=0)
    policy.fit(log).save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(loaded.decision_function(log.context), policy.decision_function(log.context))


def test_samples_of_a_fold_have_their_weights_in_a_model_that_takes_them():
    log = make_log()
    weight = np.where(np.arange(log.n_samples) % 2, 2.0, 0.0)
    weighted, doubled = cross_fit(log, AverageRewards(), sample_weight=weight), cross_fit(log, AverageRewards())
    rows = (weighted.fold != 0) & (weight > 0.0)
    np.testing.assert_allclose(weighted.models[0].mean_, AverageRewards().fit(log.subset(rows)).mean_)
    assert not np.allclose(weighted.models[0].mean_, doubled.models[0].mean_)


def test_a_reward_model_without_a_predictor_is_named_where_the_policy_cannot_be_saved(tmp_path):
    policy = bopl.BoostedPolicy("dr", start="reward_model", reward_model=MeanByAction(), n_rounds=1, random_state=0)
    policy.fit(make_log())
    with pytest.raises(TypeError, match="predictors of MeanByAction have no plain form"):
        policy.save(tmp_path / "policy.bopl")
    with pytest.raises(AttributeError, match="needs a learner that fits trees"):
        _ = policy.feature_importances_
