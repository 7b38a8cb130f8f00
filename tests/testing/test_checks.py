"""The checks that others run on their extensions: ours pass them, and each broken promise is found and named."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.baseline import BoostedRewardPolicy, LoggingPolicy, UniformPolicy
from bopl.evaluation import ESTIMATORS, IPS, DoublyRobust, MeanEstimator, register_estimator
from bopl.learner import FittedStep, HistTree, HistTreeClassifier, register_learner, with_categories
from bopl.objective import (
    DR,
    OBJECTIVES,
    Clipped,
    RewardTerms,
    RowWise,
    Surrogate,
    parse_weight,
    register_objective,
    register_weight,
)
from bopl.policy import LearnedPolicy, register_policy
from bopl.policy.decider import load_decider
from bopl.policy.model_file import plain_settings, to_plain
from bopl.testing import check_estimator, check_learner, check_objective, check_policy, random_log
from helpers import informative_log
from registries import forgotten


@pytest.mark.parametrize("name", tuple(OBJECTIVES))
def test_our_objectives_keep_the_promises(name):
    check_objective(name)


@pytest.mark.parametrize(
    "objective", [DR(self_normalised=True), DR(weight=Clipped(0.1)), Surrogate(smoothness="paper")], ids=repr
)
def test_our_objectives_keep_the_promises_with_other_settings(objective):
    check_objective(objective, n_logs=3)


@pytest.mark.parametrize("name", tuple(ESTIMATORS))
def test_our_estimators_keep_the_promises(name):
    check_estimator(name)


@pytest.mark.parametrize(
    "learner", [HistTree(4), HistTreeClassifier(4), DecisionTreeRegressor(max_depth=3), Ridge()], ids=repr
)
def test_our_learners_keep_the_promises(learner):
    check_learner(learner)


@pytest.mark.parametrize(
    "policy",
    [
        bopl.BoostedPolicy(n_rounds=3, random_state=0),
        UniformPolicy(),
        LoggingPolicy(),
        BoostedRewardPolicy(n_rounds=3, random_state=0),
    ],
    ids=repr,
)
def test_our_policies_keep_the_promises(policy):
    check_policy(policy)


def test_random_logs_have_rewards_of_both_signs_and_zeros():
    log = random_log(0, has_mask=True)
    assert (log.reward < 0).any()
    assert (log.reward > 0).any()
    assert (log.reward == 0).any()
    assert not log.action_mask.all()


# -- Objectives -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """IPS with one thing wrong."""

    fault: str = "none"
    name: ClassVar[str] = "broken"
    title: ClassVar[str] = "broken risk"
    needs_reward_model: ClassVar[bool] = False

    def bind(self, data):
        log = data.log
        value = log.reward / log.propensity
        if data.sample_weight is not None and self.fault != "weights":
            value = value * data.sample_weight
        if self.fault == "order":
            value = value * np.linspace(1.0, 2.0, data.n_samples)  # belongs to the place, not to the sample
        factor = 0.5 if self.fault == "curvature" else 1.0
        curvature = factor * np.abs(value) * np.sqrt(3.0) / 9.0
        terms = RewardTerms(data, value, np.zeros_like(value), None, np.abs(value), curvature)
        if self.fault == "gradient":
            object.__setattr__(terms, "gradient", lambda log_prob: 2.0 * RewardTerms.gradient(terms, log_prob))
        if self.fault == "optimum":
            object.__setattr__(terms, "optimal_risk", lambda: 1e6)
        return terms


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gradient", "minus the derivative of the risk"),
        ("curvature", "curvature of the risk must be at most `curvature`"),
        ("optimum", "lower risk than optimal_risk"),
        ("weights", "data.sample_weight"),
        ("order", "order of the samples"),
    ],
)
def test_a_broken_objective_is_told_its_promise(fault, message):
    check_objective(Broken())
    with pytest.raises(AssertionError, match=message):
        check_objective(Broken(fault))


def test_an_objective_without_a_title_is_told_so():
    class Untitled(Broken):
        title: ClassVar[None] = None

    with pytest.raises(AssertionError, match="needs title"):
        check_objective(Untitled())


@dataclass(frozen=True)
class Scaled(RowWise):
    """Divides by the largest weighted reward of all samples, which no part of a log knows."""

    name: ClassVar[str] = "scaled"
    title: ClassVar[str] = "scaled risk"
    needs_reward_model: ClassVar[bool] = False

    def bind(self, data):
        largest = np.abs(data.log.reward / data.log.propensity).max()
        weight = 1.0 if data.sample_weight is None else data.sample_weight
        value = data.log.reward / data.log.propensity / largest * weight
        smooth = np.abs(value) * np.sqrt(3.0) / 9.0
        return RewardTerms(
            data, linear=value, log=np.zeros_like(value), dense=None, weight=np.abs(value), curvature=smooth
        )


def test_an_objective_that_needs_all_samples_at_once_may_not_claim_to_be_row_wise():
    with pytest.raises(AssertionError, match="inherits RowWise"):
        check_objective(Scaled())


def test_a_class_of_objectives_is_not_an_objective():
    with pytest.raises(TypeError, match="objective must be a name or an object with a name and bind; got <class"):
        check_objective(Scaled)


# -- Estimators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silent(IPS):
    """Clips its weights and does not say so."""

    name: ClassVar[str] = "silent"

    def modified(self, importance_weight):
        return np.minimum(importance_weight, 10.0)

    def moments(self, terms):
        return super().moments(replace(terms, importance_weight=self.modified(terms.importance_weight)))


class Hidden(Silent):
    """Clips in its moments alone."""

    name: ClassVar[str] = "hidden"

    def modified(self, importance_weight):
        return importance_weight

    def moments(self, terms):
        return IPS.moments(self, replace(terms, importance_weight=np.minimum(terms.importance_weight, 10.0)))


class Uneven(IPS):
    """Its uplift of the logging policy is rounding."""

    name: ClassVar[str] = "uneven"

    def moments(self, terms):
        weighted = terms.importance_weight * terms.reward
        return np.column_stack([weighted, weighted - (terms.reward * 0.1 * 10.000000001)])


class DoubleIPS(IPS):
    name: ClassVar[str] = "double"
    is_unbiased: ClassVar[bool] = False

    def moments(self, terms):
        return 2.0 * super().moments(terms)


class Steep(MeanEstimator):
    """Its gradient is twice the derivative."""

    name: ClassVar[str] = "steep"
    moments = IPS.moments

    def value_gradient(self, mean):
        return 2.0 * super().value_gradient(mean)


class Root(MeanEstimator):
    """The root of the weights, said to be IPS in every respect."""

    name: ClassVar[str] = "root"
    is_unbiased: ClassVar[bool] = False

    def moments(self, terms):
        return IPS.moments(self, replace(terms, importance_weight=np.sqrt(terms.importance_weight)))


class Waves(MeanEstimator):
    """Weights that rise and fall."""

    name: ClassVar[str] = "waves"
    is_unbiased: ClassVar[bool] = False
    is_monotone_in_weight: ClassVar[bool] = True

    def moments(self, terms):
        waved = terms.importance_weight + 3.0 * np.sin(np.pi * terms.importance_weight)
        waved[terms.importance_weight == 1.0] = 1.0
        return IPS.moments(self, replace(terms, importance_weight=waved))


class Unseen(Hidden):
    """Says that it clips, but not which weights."""

    clips_weights: ClassVar[bool] = True
    is_unbiased: ClassVar[bool] = False


class Centred(MeanEstimator):
    """Chooses words and numbers from the samples, and is no dataclass."""

    name: ClassVar[str] = "centred"
    is_unbiased: ClassVar[bool] = False
    needs_pilot: ClassVar[bool] = True
    moments = IPS.moments

    def tuned(self, pilot):
        chosen = type(self)()
        chosen.kind = "sure" if pilot.terms.reward.mean() > -9.0 else "other"
        return chosen


def test_settings_that_are_chosen_from_the_samples_may_be_of_any_kind():
    check_estimator(Centred())
    log = random_log(0)
    prob = np.full((log.n_samples, log.n_actions), 1.0 / log.n_actions)
    notes = bopl.evaluate(log, {"new": prob}, estimators=[Centred()]).notes
    assert "centred of 'new': kind = sure, chosen from the log." in notes


class NeedsMore(MeanEstimator):
    """Uses a reward model without a word."""

    name: ClassVar[str] = "needs_more"
    moments = DoublyRobust.moments


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Silent(), "clips_weights is False"),
        (type("Wide", (Root,), {"is_weighted_mean": True})(), "is_weighted_mean is True"),
        (type("Narrow", (DoubleIPS,), {"has_bounded_terms": True})(), "has_bounded_terms is True"),
        (type("Steady", (Root,), {"shifts_with_rewards": True})(), "shifts_with_rewards is True"),
        (type("Biased", (Root,), {"is_unbiased": True})(), "is_unbiased is True"),
        (type("Blunt", (DoublyRobust,), {"sharpened_by": frozenset()})(), "sharpened_by must name"),
        (type("Sly", (Centred,), {"needs_pilot": False})(), "declare needs_pilot"),
        (Waves(), "is_monotone_in_weight is True"),
        (Unseen(), "is_clipped"),
        (NeedsMore(), r"Need\.REWARD_MODEL"),
        (Hidden(), "declare that it clips"),
        (Uneven(), "exactly zero"),
        (Steep(), "value_gradient must be the derivatives"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_broken_estimator_is_told_its_promise(estimator, message):
    with pytest.raises(AssertionError, match=message):
        check_estimator(estimator)


class DoubledClip(Clipped):
    def __call__(self, reward, propensity):
        return 2.0 * super().__call__(reward, propensity)


def test_a_weight_that_takes_the_name_of_ours_is_refused_before_it_is_fitted():
    policy = bopl.BoostedPolicy(bopl.objective.IPS(weight=DoubledClip(0.1)), n_rounds=1, random_state=0)
    with pytest.raises(ValueError, match="the weights DoubledClip and Clipped have the same name 'clipped'"):
        policy.fit(random_log(0))


# -- Learners ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    level: float
    n_actions: int

    def predict(self, context):
        return np.full((len(context), self.n_actions), self.level)


class Stubborn(BaseEstimator):
    """Predicts one number, and says another of the samples it was fitted on, or another each time."""

    def __init__(self, fault="prediction"):
        self.fault = fault

    def bind(self, log, *, seed):
        self.log, self.n_fits = log, getattr(self, "n_fits", 0)
        return self

    def fit(self, target, round_idx):
        self.n_fits += 1
        level = {"prediction": 1.0, "seed": float(self.n_fits)}.get(self.fault, 0.0)
        predictor = Constant(level, target.gradient.shape[1])
        prediction = predictor.predict(self.log.context)
        if self.fault == "away":
            return FittedStep(_Opposite(self.log, target), -target.gradient)
        return FittedStep(predictor, prediction + (self.fault == "prediction"))


@dataclass(frozen=True)
class _Opposite:
    log: object
    target: object

    def predict(self, context):
        return -self.target.gradient


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("prediction", "must equal that of its predictor"),
        ("seed", "same seed and round"),
        ("away", "away from the gradient"),
    ],
)
def test_a_broken_learner_is_told_its_promise(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_learner(Stubborn(fault), can_be_saved=False)


def test_a_learner_that_nobody_registered_is_told_how():
    class Deep(HistTree):
        pass

    with pytest.raises(AssertionError, match=r"register_learner\(Deep\)"):
        check_learner(Deep(3))


class Fussy(HistTree):
    """Ours, with a setting of any kind."""

    def __init__(self, max_depth=2, options=None):
        super().__init__(max_depth)
        self.options = options


@pytest.mark.parametrize("options", [{"a": [1, 2], "b": {"c": None}}, (1, 2)])
def test_settings_of_a_learner_come_back(options):
    with forgotten():
        register_learner(Fussy)
        check_learner(Fussy(options=options))


def test_a_setting_of_a_learner_that_no_file_can_hold_is_missed_when_it_is_fitted_again(tmp_path):
    log, path = random_log(0, n_samples=200), tmp_path / "policy.bopl"
    with forgotten():
        register_learner(Fussy)
        with pytest.raises(AssertionError, match="let its settings be numbers"):
            check_learner(Fussy(options=np.sin))
        bopl.BoostedPolicy("ips", Fussy(options=np.sin), n_rounds=2, random_state=0).fit(log).save(path)
        with pytest.raises(ValueError, match=r"the learner 'Fussy', .* set learner before"):
            bopl.load(path).fit(log)


@dataclass(frozen=True)
class Frozen:
    """A learner whose settings are the fields of a dataclass."""

    max_depth: int = 2
    categorical: tuple | None = None  # what the log says

    def bind(self, log, *, seed):
        return HistTree(self.max_depth, categorical=self.categorical).bind(log, seed=seed)


def test_the_settings_of_a_learner_may_be_those_of_a_dataclass(tmp_path):
    log, path = random_log(0, n_samples=200), tmp_path / "policy.bopl"
    policy = bopl.BoostedPolicy("ips", Frozen(3), n_rounds=2, random_state=0)
    policy.fit(log, callbacks=[bopl.Checkpoint(tmp_path / "checkpoint")]).save(path)  # nobody registered it
    with pytest.raises(ValueError, match="the learner 'Frozen'"):
        bopl.load(path).fit(log)
    with pytest.raises(ValueError, match=r"made with learner=.*'max_depth': 3"):
        clone(policy).set_params(learner=Frozen(4)).fit(log, resume_from=tmp_path / "checkpoint")
    with forgotten():
        register_learner(Frozen)
        check_learner(Frozen(3))
        policy.save(path)
        assert bopl.load(path).learner == Frozen(3)


def test_a_dataclass_is_told_which_columns_are_categories():
    log = random_log(0, n_samples=200)
    frame = pd.DataFrame({"age": log.context[:, 0], "city": np.where(log.context[:, 1] > 0, "Rom", "Ulm")})
    frame = frame.assign(item=log.action, click=log.reward, p=log.propensity)
    read = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity="p")
    assert with_categories(Frozen(3), read) == Frozen(3, categorical=read.categorical)


def test_a_learner_without_settings_can_be_fitted_and_saved(tmp_path):
    class Bare:
        def bind(self, log, *, seed):
            return HistTree(2).bind(log, seed=seed)

    log, path = random_log(0, n_samples=200), tmp_path / "policy.bopl"
    bopl.BoostedPolicy("ips", Bare(), n_rounds=2, random_state=0).fit(log).save(path)
    with pytest.raises(ValueError, match="the learner 'Bare'"):
        bopl.load(path).fit(log)
    with pytest.raises(AssertionError, match="needs settings"):
        check_learner(Bare())


@dataclass(frozen=True)
class Demanding(Surrogate):
    """An objective with a setting that has no default: its name stands for none."""

    factor: float = field(kw_only=True)
    name: ClassVar[str] = "demanding"


class Sharpened(LearnedPolicy):
    def __init__(self, sharpness):
        self.sharpness = sharpness

    def learn(self, log):
        self.mean_ = np.bincount(log.action_idx, log.reward, minlength=log.n_actions)

    def score_actions(self, context):
        return np.tile(self.sharpness * self.mean_, (len(context), 1))

    def pack_learned(self):
        return {}, {"mean": self.mean_}

    def unpack_learned(self, facts, arrays):
        self.mean_ = arrays["mean"]


class Slow(bopl.BoostedPolicy):
    def __init__(self, patience):
        super().__init__(n_rounds=2)
        self.patience = patience


@dataclass(frozen=True)
class Heavy(MeanEstimator):
    most: float
    name: ClassVar[str] = "heavy"

    def moments(self, terms):
        return IPS().moments(terms)


def test_weights_of_your_own_say_whether_they_take_a_number():
    @dataclass(frozen=True)
    class Strict(Clipped):
        tau: float = field()
        name: ClassVar[str] = "strict"

    @dataclass(frozen=True)
    class Bare:
        name: ClassVar[str] = "bare"

    with forgotten():
        register_weight(Strict)
        register_weight(Bare)
        assert parse_weight("strict:0.2") == Strict(0.2)
        with pytest.raises(ValueError, match=r"'strict' needs a number, as in strict:0\.05"):
            parse_weight("strict")
        with pytest.raises(ValueError, match="'bare' takes no number"):
            parse_weight("bare:0.2")


def test_settings_without_a_default_are_saved_and_asked_for(tmp_path):
    log, path = random_log(0, n_samples=200), tmp_path / "policy.bopl"
    with forgotten():
        register_objective(Demanding)
        register_policy(Sharpened)
        register_policy(Slow)
        register_estimator(Heavy)
        bopl.BoostedPolicy(Demanding(factor=2.0), n_rounds=2, random_state=0).fit(log).save(path)
        loaded = bopl.load(path)
        assert loaded.objective == Demanding(factor=2.0)
        assert "factor 2" in loaded._repr_html_()
        Sharpened(3.0).fit(log).save(path)
        assert bopl.load(path).sharpness == 3.0
        with pytest.raises(TypeError, match="give its setting 'patience' a default"):
            Slow(1).fit(log).save(path)
        with pytest.raises(ValueError, match=r"'demanding' has no default for factor: .*Demanding\(factor=…\)"):
            bopl.BoostedPolicy("demanding", n_rounds=2).fit(log)
        with pytest.raises(ValueError, match="'heavy' has no default for most"):
            bopl.evaluate(log, {"same": log.propensity}, estimators="heavy")
        names = {row.estimator for row in bopl.evaluate(log, UniformPolicy().fit(log), estimators="all").rows}
        assert "ips" in names
        assert "heavy" not in names


class HalfIPS(IPS):
    def moments(self, terms):
        return 0.5 * super().moments(terms)


def test_traits_of_moments_are_not_inherited_by_other_moments():
    assert not HalfIPS().has_bounded_terms
    assert type("Renamed", (IPS,), {"name": "renamed"})().has_bounded_terms
    for interval in ("empirical_bernstein", "betting", "log_smoothing"):
        with pytest.raises(ValueError, match="bounds a mean of independent terms"):
            bopl.evaluate(random_log(0), {"new": np.ones(60)}, estimators=[HalfIPS()], interval=interval)


# -- Policies ---------------------------------------------------------------------------------------------------------


class Forgetful(LearnedPolicy):
    """Keeps nothing of what it learned in its file."""

    def learn(self, log):
        self.level_ = float(log.reward.mean())

    def score_actions(self, context):
        return np.outer(context[:, 0], np.arange(len(self.actions_)) * self.level_)

    def pack_learned(self):
        return {}, {}

    def unpack_learned(self, facts, arrays):
        self.level_ = 100.0


def test_a_policy_that_forgets_is_told_so():
    with forgotten():
        register_policy(Forgetful)
        with pytest.raises(AssertionError, match="A loaded policy must have the same probabilities"):
            check_policy(Forgetful())


class Tunable(Forgetful):
    """Has settings whose names mean something else in ours."""

    def __init__(self, n_jobs=None, max_depth=3, gamma=1.0, include=None, inverse_temperature=1.0):
        self.n_jobs = n_jobs
        self.max_depth = max_depth
        self.gamma = gamma
        self.include = include
        self.inverse_temperature = inverse_temperature

    def unpack_learned(self, facts, arrays):
        self.level_ = 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"n_jobs": -1, "max_depth": None},
        {"gamma": "scale", "include": True},
        {"include": "all", "inverse_temperature": -1.0},
        {"gamma": -np.inf},
        {"gamma": [0.5, 2.0], "include": ["a", "b"]},
    ],
)
def test_settings_of_others_are_saved_whatever_their_names_mean_in_ours(tmp_path, settings):
    with forgotten():
        register_policy(Tunable)
        Tunable(**settings).fit(random_log(0)).save(tmp_path / "policy.bopl")
        loaded = bopl.load(tmp_path / "policy.bopl")
    assert {name: loaded.get_params()[name] for name in settings} == settings


def test_a_source_of_randomness_is_not_a_plain_setting():
    state = to_plain(np.random.RandomState(0))
    with pytest.raises(ValueError, match="setting 'gamma' cannot be RandomState"):
        plain_settings({"gamma": state}, ["gamma"])


def test_a_policy_that_nobody_registered_cannot_be_saved():
    with pytest.raises(TypeError, match=r"register_policy\(Forgetful\) first"):
        check_policy(Forgetful())


class Cautious(bopl.BoostedPolicy):
    """Gives all actions a share, of which its base class knows nothing; most settings are fixed."""

    def __init__(self, share=0.5, n_rounds=2, random_state=0):
        super().__init__(n_rounds=n_rounds, random_state=random_state)
        self.share = share

    def predict_proba(self, context, *, inverse_temperature=None, action_mask=None):
        own = super().predict_proba(context, inverse_temperature=inverse_temperature, action_mask=action_mask)
        eligible = np.ones(own.shape) if action_mask is None else np.asarray(action_mask, dtype=float)
        return (1.0 - self.share) * own + self.share * eligible / eligible.sum(axis=1, keepdims=True)


def test_a_subclass_of_the_boosted_policy_is_loaded_as_itself(tmp_path):
    log, path = random_log(0), tmp_path / "policy.bopl"
    with forgotten():
        register_policy(Cautious)
        check_policy(Cautious(share=0.25))
        blend = bopl.BlendedPolicy([Cautious(0.25), Cautious(0.75)]).fit(log)
        blend.save(path)
        loaded, decider = bopl.load(path), load_decider(path)
    assert [type(part) for part in loaded.policies_] == [Cautious, Cautious]
    assert [part.share for part in loaded.policies_] == [0.25, 0.75]
    assert type(decider) is bopl.BlendedPolicy  # the deciders know only how ours decide
    assert loaded.predict_proba(log.context).min() >= 0.5 / log.n_actions
    assert len({part.policy_id for part in [*blend.policies_, *loaded.policies_]}) == 2
    np.testing.assert_array_equal(blend.record_proba(log.context[0]), loaded.predict_proba(log.context[:1])[0])


class OwnTree(HistTree):
    pass


class OwnRewards(bopl.BoostedRewardModel):
    pass


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "ips", "learner": OwnTree(2)}, "the learner 'OwnTree', .* set learner before"),
        ({"reward_model": OwnRewards(n_rounds=2)}, "the reward model 'OwnRewards', .* set reward_model before"),
    ],
)
def test_a_loaded_policy_is_not_fitted_with_another_learner_or_reward_model(tmp_path, settings, message):
    log, path = random_log(0, n_samples=200), tmp_path / "policy.bopl"
    policy = bopl.BoostedPolicy(**settings, n_rounds=2, random_state=0).fit(log)
    policy.save(path)
    fitted = bopl.load(path)
    np.testing.assert_array_equal(fitted.predict_proba(log.context), policy.predict_proba(log.context))
    fitted.save(path)  # again
    for unfitted in (fitted, bopl.load(path), clone(fitted)):
        with pytest.raises(ValueError, match=message):
            unfitted.fit(log)
    setting = next(name for name in settings if name != "objective")
    clone(fitted).set_params(**{setting: None}).fit(log)


def test_a_learner_that_was_registered_elsewhere_is_missed_by_name(tmp_path):
    log = random_log(0, n_samples=200)
    with forgotten():
        register_learner(OwnTree)
        bopl.BoostedPolicy("ips", OwnTree(2), n_rounds=2, random_state=0).fit(log).save(tmp_path / "policy.bopl")
        assert type(bopl.load(tmp_path / "policy.bopl").learner) is OwnTree
    with pytest.raises(ValueError, match="the learner 'OwnTree'"):
        bopl.load(tmp_path / "policy.bopl").fit(log)


class Sharp(bopl.BoostedPolicy):
    def decision_function(self, context):
        return 3.0 * super().decision_function(context)


class CautiousRace(bopl.AutoPolicy):
    def predict_proba(self, context, *, inverse_temperature=None):
        return 0.5 * super().predict_proba(context) + 0.5 / len(self.actions_)


class OtherRewards(BoostedRewardPolicy):
    def decision_function(self, context):
        return super().decision_function(context) + 9.0 * np.arange(len(self.actions_))


@pytest.mark.parametrize(
    "policy",
    [
        Cautious(),
        Sharp(n_rounds=2, random_state=0),
        CautiousRace(include=["regression"], n_jobs=1, progress=False, random_state=0),
        OtherRewards(n_rounds=2),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_decisions_on_records_follow_what_a_subclass_redefines(tmp_path, policy):
    log = informative_log()
    plain = clone(policy)
    plain.__class__ = type(policy).__mro__[1]
    prob, before = (one.fit(log).predict_proba(log.context[:1])[0] for one in (policy, plain))
    assert not np.array_equal(prob, before)
    np.testing.assert_array_equal(policy.record_proba(log.context[0]), prob)
    assert policy.policy_id != plain.policy_id
    if hasattr(policy, "to_onnx"):
        with pytest.raises(TypeError, match="redefines how a policy of bopl decides"):
            policy.to_onnx(tmp_path / "policy.onnx")


def test_a_class_that_takes_the_name_of_ours_cannot_be_saved_as_it():
    mine = type("UniformPolicy", (UniformPolicy,), {})
    with pytest.raises(TypeError, match="would be loaded as bopl"):
        mine().fit(random_log(0)).save("never.bopl")


def test_a_policy_without_from_archive_is_not_registered():
    with pytest.raises(TypeError, match="has no from_archive"):
        register_policy(int)
