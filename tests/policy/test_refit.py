"""Settings survive the file: what is saved, loaded, cloned and fitted again is the same to the last byte."""

import sys
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import bopl
from bopl.boosting import STARTS
from bopl.objective import DR, IPS, OBJECTIVES, WEIGHTS, Clipped, LogSmoothing, Surrogate, registry
from bopl.objective.registry import objective_from
from bopl.policy.model_file import from_plain, to_plain
from helpers import OBJECTIVE_NAMES, WEIGHT_NAMES, informative_log, make_log, make_objective

FILES = Path(__file__).parent / "files"
SMALL_MODEL = bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=5.0, n_jobs=1), n_rounds=3, learning_rate=0.3)


def make_policy(objective="dr", **settings):
    known = {
        "learner": bopl.HistTree(3, min_leaf_samples=5.0, categorical=[3], random_state=5, n_jobs=1),
        "n_rounds": 3,
        "reward_model": SMALL_MODEL,
        "random_state": 7,
    }
    return bopl.BoostedPolicy(objective, **(known | settings))


@pytest.fixture(scope="module")
def log():
    log = informative_log(n_samples=150)
    context = np.column_stack([log.context[:, :3], np.random.default_rng(0).integers(0, 4, size=150)])
    propensity = np.random.default_rng(1).uniform(0.05, 1.0, size=150)
    return bopl.BanditLog(context, log.action, log.reward, propensity, actions=log.actions)


def assert_refits_to_the_same_bytes(policy, log, tmp_path):
    policy.fit(log).save(tmp_path / "first.bopl")
    loaded = bopl.load(tmp_path / "first.bopl")
    loaded.save(tmp_path / "again.bopl")
    clone(loaded).fit(log).save(tmp_path / "second.bopl")
    first = (tmp_path / "first.bopl").read_bytes()
    assert (tmp_path / "again.bopl").read_bytes() == first
    assert (tmp_path / "second.bopl").read_bytes() == first
    return loaded


@pytest.mark.parametrize("start", [None, *STARTS])
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_every_objective_and_start_refits_to_the_same_bytes(name, start, log, tmp_path):
    policy = make_policy(name, start=start, learning_rate=0.7, start_sharpness=2.0)
    loaded = assert_refits_to_the_same_bytes(policy, log, tmp_path)
    assert (loaded.objective, loaded.start, loaded.learning_rate) == (name, start, 0.7)
    assert loaded.ensemble_.start.kind == (start or ("logging+reward_model" if name == "dr" else "uniform"))
    np.testing.assert_array_equal(loaded.decision_function(log.context), policy.decision_function(log.context))


@pytest.mark.parametrize("smoothness", ["sharp", "paper"])
@pytest.mark.parametrize("weight", WEIGHT_NAMES)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_every_objective_and_weight_refits_to_the_same_bytes(name, weight, smoothness, log, tmp_path):
    objective = make_objective(name, weight, smoothness=smoothness)
    loaded = assert_refits_to_the_same_bytes(make_policy(objective, start="uniform"), log, tmp_path)
    assert bopl.objective.get_objective(loaded.objective) == objective


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": DR(weight=Clipped(0.125), self_normalised=True, smoothness="paper")},
        {"inverse_temperature": 3.5},
        {"inverse_temperature": np.inf},
        {"inverse_temperature": 0},
        {"n_folds": 3, "certificate": False, "progress": False},
        {"learner": None, "reward_model": None},
        {"scale": 2.0, "ensemble_weight_penalty": 0.1, "validation_fraction": 0.25, "early_stopping_rounds": 2},
        {"n_rounds": 0},
        {"reward_prior": True},
        {"learner": bopl.XGBTree("hist", max_depth=2, n_jobs=1)},
        {"random_state": np.int64(3)},
    ],
    ids=str,
)
def test_every_other_setting_is_written_and_read(settings, log, tmp_path):
    policy = make_policy(**settings)
    loaded = assert_refits_to_the_same_bytes(policy, log, tmp_path)
    for name, value in policy.get_params(deep=False).items():
        if name not in ("learner", "reward_model"):
            assert getattr(loaded, name) == value, name
    assert str(loaded.learner) == str(policy.learner)
    assert str(loaded.reward_model) == str(policy.reward_model)


def test_a_reward_model_that_has_no_plain_form_cannot_be_started_from_and_saved(log, tmp_path):
    policy = make_policy("dr", reward_model=Ridge()).fit(log)
    with pytest.raises(TypeError, match="cannot be written to a file"):
        policy.save(tmp_path / "policy.bopl")
    make_policy("dr", reward_model=Ridge(), start="uniform").fit(log).save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").ensemble_.start.kind == "uniform"


# -- Objectives of one's own ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Halved(IPS):
    """An objective that nobody registered, but whose module is imported."""

    factor: float = 0.5
    name: ClassVar[str] = "halved"


def saved(policy, log, tmp_path):
    policy.fit(log).save(tmp_path / "policy.bopl")
    return tmp_path / "policy.bopl"


def test_an_objective_whose_module_is_imported_comes_back_with_its_settings(log, tmp_path):
    loaded = bopl.load(saved(make_policy(Halved(factor=0.25, weight=Clipped(0.1))), log, tmp_path))
    assert loaded.objective == Halved(factor=0.25, weight=Clipped(0.1))
    clone(loaded).fit(log)


def test_an_objective_that_was_registered_comes_back_although_no_module_has_it(log, tmp_path, monkeypatch):
    local = dataclass(frozen=True)(type("Local", (IPS,), {"name": "local", "__module__": "nowhere"}))
    monkeypatch.setitem(OBJECTIVES, "local", local)
    loaded = bopl.load(saved(make_policy(local(smoothness="paper")), log, tmp_path))
    assert loaded.objective == local(smoothness="paper")


def test_a_policy_of_an_objective_that_is_not_known_here_is_loaded_and_saved_again(log, tmp_path, monkeypatch):
    policy = make_policy(Halved(factor=0.25))
    path = saved(policy, log, tmp_path)
    monkeypatch.delattr(sys.modules[__name__], "Halved")
    loaded = bopl.load(path)
    loaded.save(tmp_path / "again.bopl")
    again = bopl.load(tmp_path / "again.bopl")
    assert (tmp_path / "again.bopl").read_bytes() == path.read_bytes()
    np.testing.assert_array_equal(again.predict_proba(log.context), policy.predict_proba(log.context))
    assert "halved" in again._repr_html_()
    with pytest.raises(
        ValueError, match=r"trained with the objective 'halved'.*test_refit\.Halved: import that module"
    ):
        clone(again).fit(log)
    monkeypatch.undo()
    assert clone(again).fit(log).n_rounds_ == policy.n_rounds_  # it has become known meanwhile


def test_a_weight_that_is_not_known_here_does_not_keep_a_policy_from_predicting(log, tmp_path, monkeypatch):
    path = saved(make_policy(IPS(weight=Clipped(0.1))), log, tmp_path)
    monkeypatch.setattr(registry, "WEIGHTS", {name: kind for name, kind in WEIGHTS.items() if name != "clipped"})
    loaded = bopl.load(path)
    assert loaded.predict(log.context).shape == (log.n_samples,)
    with pytest.raises(ValueError, match="its class, or that of its weight, is unknown here"):
        clone(loaded).fit(log)


class Borrowed(IPS):
    """Has the name of another objective."""


class Forgetful:
    """Keeps a setting where no file could find it."""

    name, title, needs_reward_model = "forgetful", "risk", False

    def __init__(self, strength):
        self.strength = strength

    def bind(self, data):
        return IPS().bind(data)


def test_an_objective_that_could_not_come_back_is_refused_when_it_is_fitted(log):
    with pytest.raises(ValueError, match=r"Borrowed and IPS have the same name 'ips': .* another name"):
        make_policy(Borrowed()).fit(log)
    with pytest.raises(
        TypeError, match=r"Forgetful has attributes that cannot be saved \(strength\): .* frozen dataclass"
    ):
        make_policy(Forgetful(2.0)).fit(log)


@pytest.mark.parametrize("home", ["subprocess:Popen", "socket:socket", "bopl.nothing:Here", "no colon", "", None])
def test_a_file_can_name_no_class_that_is_not_an_objective(home):
    assert objective_from({"name": "mine"}, home) is None


# -- Seeds and columns ------------------------------------------------------------------------------------------------


def test_a_source_of_randomness_is_kept_with_its_state(log, tmp_path):
    source = np.random.RandomState(5)
    for policy in (
        make_policy("ips", random_state=source),
        bopl.AutoPolicy(include=["regression"], progress=False, random_state=source),
    ):
        loaded = bopl.load(saved(policy, log, tmp_path))
        assert loaded.random_state.bytes(5000) == deepcopy(source).bytes(5000)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_a_seed_is_kept_by_every_policy(log, tmp_path, value):
    policies = [
        make_policy("ips", random_state=value),
        bopl.AutoPolicy(include=["regression"], progress=False, random_state=value),
        bopl.baseline.BoostedRewardPolicy(n_rounds=2, random_state=value),
    ]
    for policy in policies:
        assert bopl.load(saved(policy, log, tmp_path)).random_state == 3


@pytest.mark.parametrize(
    "change",
    [{"pos": 625}, {"pos": -1}, {"key": [0] * 623}, {"key": [-1] * 624}, {"key": [2**32] * 624}, {"gauss": "x"}],
)
def test_a_state_that_draws_could_leave_is_refused(change):
    with pytest.raises(ValueError, match="the state of random_state is not valid"):
        from_plain(to_plain(np.random.RandomState(0)) | change)


@pytest.mark.parametrize("columns", [[0, 2], (0, 2), np.array([0, 2]), {2, 0}, range(0, 4, 2), [np.int64(0), 2]])
def test_categorical_columns_of_a_learner_are_kept(tmp_path, columns):
    rng = np.random.default_rng(0)
    log = make_log()
    log = bopl.BanditLog(rng.integers(0, 4, size=(60, 3)), log.action, log.reward, log.propensity)
    policy = make_policy("ips", learner=bopl.HistTree(3, categorical=columns))
    loaded = bopl.load(saved(policy, log, tmp_path))
    assert list(loaded.learner.categorical) == [0, 2]
    again = clone(loaded).fit(log)
    np.testing.assert_array_equal(again.predict_proba(log.context), policy.predict_proba(log.context))


# -- Older files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ips", "surrogate"])
def test_a_file_of_format_1_predicts_as_it_did_and_is_the_papers_algorithm(name, tmp_path):
    """Written by the commit before objectives had settings; what it predicted then lies beside it.

    The last bit of an exponential depends on the processor: numpy has one for each instruction set.
    """
    policy, then = bopl.load(FILES / f"format-1-{name}.bopl"), np.load(FILES / f"format-1-{name}.npz")
    now = policy.predict_proba(then["context"])
    np.testing.assert_array_max_ulp(now, then["action_prob"], maxulp=4)
    np.testing.assert_array_equal(policy.history_.objective_risk, then["risk"])
    assert policy.objective == {"ips": IPS, "surrogate": Surrogate}[name](smoothness="paper")
    assert policy.ensemble_.start.kind == "uniform"
    assert policy.learner.max_depth == {"ips": 8, "surrogate": 4}[name]  # 8 was the default
    assert (policy.start, policy.learning_rate, policy.inverse_temperature) == (None, 1.0, 1.0)
    policy.save(tmp_path / "new.bopl")
    again = bopl.load(tmp_path / "new.bopl")
    np.testing.assert_array_equal(again.predict_proba(then["context"]), now)


# -- Checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_a_checkpoint_resumes_to_the_same_bytes(name, start, log, tmp_path):
    weight = np.random.default_rng(0).exponential(size=log.n_samples)
    settings = {"objective": make_objective(name, "clipped"), "start": start, "learning_rate": 0.8}
    make_policy(**settings, n_rounds=6).fit(log, sample_weight=weight).save(tmp_path / "whole.bopl")
    checkpoint = bopl.Checkpoint(tmp_path / "fit.ckpt", every=2)
    make_policy(**settings, n_rounds=3).fit(log, sample_weight=weight, callbacks=[checkpoint])
    resumed = make_policy(**settings, n_rounds=6)
    resumed.fit(log, sample_weight=weight, resume_from=tmp_path / "fit.ckpt").save(tmp_path / "resumed.bopl")
    assert (tmp_path / "resumed.bopl").read_bytes() == (tmp_path / "whole.bopl").read_bytes()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"objective": DR(weight=Clipped(0.1))}, r"objective=.*'tau': 0\.05.*, not .*'tau': 0\.1"),
        ({"objective": DR(weight=LogSmoothing())}, "objective="),
        ({"objective": DR(weight=Clipped(0.05), smoothness="paper")}, "objective=.*'sharp'.*, not .*'paper'"),
        ({"objective": DR(weight=Clipped(0.05), self_normalised=True)}, "objective="),
        ({"learning_rate": 0.5}, r"learning_rate=1\.0, not 0\.5"),
        ({"start": "uniform"}, r"start='logging\+reward_model', not 'uniform'"),
        ({"start_sharpness": 9.0}, r"start_sharpness=5\.0, not 9\.0"),
        ({"reward_model": clone(SMALL_MODEL).set_params(n_rounds=4)}, "reward_model="),
        ({"reward_model": clone(SMALL_MODEL).set_params(learner__max_depth=2)}, "reward_model="),
        ({"reward_prior": True}, "reward_prior=False, not True"),
        ({"reward_model": None}, "reward_model="),
        ({"n_folds": 4}, "n_folds=5, not 4"),
        ({"random_state": 8}, "random_state="),
        ({"scale": 2.0}, r"scale=None, not 2\.0"),
        ({"ensemble_weight_penalty": 1.0}, r"ensemble_weight_penalty=0\.0, not 1\.0"),
        ({"reward_translation": -0.1}, r"reward_translation=0\.0, not -0\.1"),
        ({"certificate": False}, "certificate=True, not False"),
        ({"learner": bopl.HistTree(3, min_leaf_samples=6.0)}, "learner=.*'min_leaf_samples': 5.*'min_leaf_samples': 6"),
    ],
    ids=str,
)
def test_a_checkpoint_made_with_other_settings_is_refused_by_their_name(settings, named, log, tmp_path):
    first = {"objective": DR(weight=Clipped(0.05))}
    make_policy(**first).fit(log, callbacks=[bopl.Checkpoint(tmp_path / "fit.ckpt")])
    with pytest.raises(ValueError, match=f"was made with {named}"):
        make_policy(**(first | settings)).fit(log, resume_from=tmp_path / "fit.ckpt")


def test_a_checkpoint_made_with_other_sample_weights_is_refused(log, tmp_path):
    weight = np.random.default_rng(0).exponential(size=log.n_samples)
    make_policy().fit(log, sample_weight=weight, callbacks=[bopl.Checkpoint(tmp_path / "fit.ckpt")])
    for other in (None, weight[::-1]):
        with pytest.raises(ValueError, match="was made with sample_weight="):
            make_policy().fit(log, sample_weight=other, resume_from=tmp_path / "fit.ckpt")
    make_policy().fit(log, sample_weight=2.0 * weight, resume_from=tmp_path / "fit.ckpt")


def test_other_threads_are_no_other_settings(log, tmp_path):
    settings = {"learner": bopl.HistTree(3, n_jobs=1), "n_rounds": 5}
    whole = make_policy(**settings).fit(log)
    make_policy(**(settings | {"n_rounds": 2})).fit(log, callbacks=[bopl.Checkpoint(tmp_path / "fit.ckpt")])
    other = {
        "learner": bopl.HistTree(3, n_jobs=2),
        "reward_model": clone(SMALL_MODEL).set_params(learner__n_jobs=2),
    }
    resumed = make_policy(**(settings | other)).fit(log, resume_from=tmp_path / "fit.ckpt")
    assert resumed.decision_function(log.context).tobytes() == whole.decision_function(log.context).tobytes()


def test_a_policy_that_sets_nothing_random_needs_no_seed_to_resume_but_one_with_folds_does(log, tmp_path):
    make_policy("ips", random_state=None).fit(log, callbacks=[bopl.Checkpoint(tmp_path / "fit.ckpt")])
    make_policy("ips", random_state=None, n_rounds=5).fit(log, resume_from=tmp_path / "fit.ckpt")
    with pytest.raises(ValueError, match="resume_from needs a random_state here"):
        make_policy("dr", random_state=None).fit(log, resume_from=tmp_path / "fit.ckpt")
