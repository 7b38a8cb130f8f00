"""Settings survive the file: what is saved, loaded, cloned and fitted again is the same to the last byte."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import bopl
from bopl.boosting import STARTS
from bopl.objective import DR, IPS, Clipped, LogSmoothing, Surrogate
from helpers import OBJECTIVE_NAMES, WEIGHT_NAMES, informative_log, make_objective

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


class Unregistered(IPS):
    name = "unregistered"


def test_a_policy_of_an_objective_that_is_not_known_here_is_loaded_and_saved_again(log, tmp_path):
    policy = make_policy(Unregistered()).fit(log)
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    loaded.save(tmp_path / "again.bopl")
    again = bopl.load(tmp_path / "again.bopl")
    assert again.objective == loaded.objective == "unregistered"
    np.testing.assert_array_equal(again.predict_proba(log.context), policy.predict_proba(log.context))
    with pytest.raises(ValueError, match=r"objective must be one of 'ips', .*got 'unregistered'"):
        clone(loaded).fit(log)


# -- Older files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ips", "surrogate"])
def test_a_file_of_format_1_predicts_as_it_did_and_is_the_papers_algorithm(name, tmp_path):
    """Written by the commit before objectives had settings; what it predicted then lies beside it."""
    policy, then = bopl.load(FILES / f"format-1-{name}.bopl"), np.load(FILES / f"format-1-{name}.npz")
    np.testing.assert_array_equal(policy.predict_proba(then["context"]), then["action_prob"])
    np.testing.assert_array_equal(policy.history_.objective_risk, then["risk"])
    assert policy.objective == {"ips": IPS, "surrogate": Surrogate}[name](smoothness="paper")
    assert policy.ensemble_.start.kind == "uniform"
    assert policy.learner.max_depth == {"ips": 8, "surrogate": 4}[name]  # 8 was the default
    assert (policy.start, policy.learning_rate, policy.inverse_temperature) == (None, 1.0, 1.0)
    policy.save(tmp_path / "new.bopl")
    again = bopl.load(tmp_path / "new.bopl")
    np.testing.assert_array_equal(again.predict_proba(then["context"]), then["action_prob"])


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
