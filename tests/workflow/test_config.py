"""Flags and files say the same things, and every setting is checked."""

import dataclasses
import inspect
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bopl
from bopl._errors import UsageError
from bopl.boosting.ensemble import STARTS
from bopl.cli.train import train
from bopl.evaluation.interval_registry import INTERVALS
from bopl.learner import default_learner
from bopl.log.format import FORMATS
from bopl.objective.protocol import SMOOTHNESS
from bopl.objective.registry import OBJECTIVES, get_objective, parse_weight
from bopl.workflow import config as config_module
from bopl.workflow.config import TrainConfig, make_config, read_config, to_toml
from bopl.workflow.training import make_policy

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=30)
@given(
    st.builds(
        TrainConfig,
        log=TEXT,
        action=st.none() | TEXT,
        context=st.none() | st.lists(TEXT, max_size=3).map(tuple),
        ignore=st.lists(TEXT, max_size=3).map(tuple),
        n_rounds=st.integers(1, 10_000),
        reg_lambda=st.floats(0.0, 1e300),
        reward_translation=st.just("auto") | st.floats(-1e6, 1e6),
        force=st.booleans(),
        n_jobs=st.none() | st.integers(1, 64),
    )
)
def test_a_configuration_survives_its_file(tmp_path_factory, config):
    file = tmp_path_factory.mktemp("config") / "config.toml"
    file.write_text(config.to_toml(), encoding="utf8", newline="")
    assert make_config(read_config(file)) == config


def test_every_setting_is_a_flag_of_train():
    flags = set(inspect.signature(train).parameters)
    assert {entry.name for entry in dataclasses.fields(TrainConfig)} <= flags


def test_the_words_that_are_completed_are_those_that_are_known():
    assert tuple(FORMATS) == config_module.FORMATS
    assert set(config_module.INTERVALS) == set(INTERVALS)
    assert config_module.STARTS == STARTS
    assert config_module.SMOOTHNESS == SMOOTHNESS
    assert {"dr", "ips", "surrogate"} <= set(OBJECTIVES)
    assert set(config_module.OBJECTIVES) == {"auto", "dr", "ips", "surrogate"}


def test_names_and_defaults_are_those_of_the_classes():
    """Class and command agree; where the command decides more than a class does, it is listed here."""
    config = {entry.name: entry.default for entry in dataclasses.fields(TrainConfig)}
    auto, boosted = (kind().get_params(deep=False) for kind in (bopl.AutoPolicy, bopl.BoostedPolicy))
    shared = {"include", "exclude", "minutes", "validation_fraction", "n_jobs"}
    assert {name: config[name] for name in shared} == {name: auto[name] for name in shared}
    learner = default_learner().get_params()
    shared = {"max_depth", "min_leaf_samples", "colsample", "reg_lambda"}
    assert {name: config[name] for name in shared} == {name: learner[name] for name in shared}
    for name in ("dr", "ips", "surrogate"):
        objective = get_objective(name)
        assert (parse_weight(config["weight"]), config["smoothness"]) == (objective.weight, objective.smoothness)
    # A run always has validation samples and a seed; its objective is the race; translation and sharpness are chosen.
    its_own = {"objective", "reward_translation", "early_stopping_rounds", "validation_fraction", "random_state"}
    its_own |= {"inverse_temperature"}
    shared = set(config) & set(boosted) - its_own
    assert shared >= {"n_rounds", "learning_rate", "start"}
    assert {name: config[name] for name in shared} == {name: boosted[name] for name in shared}
    assert not set(config_module.RENAMED) & set(config)
    assert set(config_module.RENAMED.values()) <= set(config)


def test_the_policy_of_a_single_objective_has_the_settings_of_the_class():
    made = make_policy(TrainConfig("log.parquet", objective="dr"), 0.0)
    told = {"learner", "random_state", "certificate", "progress"}
    ours, theirs = (one.get_params(deep=False) for one in (made, bopl.BoostedPolicy()))
    assert get_objective(ours.pop("objective")) == get_objective(theirs.pop("objective"))
    assert {k: v for k, v in ours.items() if k not in told} == {k: v for k, v in theirs.items() if k not in told}
    assert made.learner.get_params() == default_learner().get_params()


def test_settings_without_an_effect_are_refused_only_where_they_have_none():
    TrainConfig("log.parquet").check_objective()
    TrainConfig("log.parquet", objective="dr", max_depth=3).check_objective()
    TrainConfig("log.parquet", include=("dr",), minutes=2.0).check_objective()
    with pytest.raises(UsageError, match="n_rounds has no effect here: the race"):
        TrainConfig("log.parquet", n_rounds=5).check_objective()
    with pytest.raises(UsageError, match="exclude has no effect here: a single objective"):
        TrainConfig("log.parquet", objective="ips", exclude=("dr",)).check_objective()


def test_flags_come_before_the_file():
    config = make_config({"log": "a.parquet", "n_rounds": 7, "random_state": 3}, {"n_rounds": None, "random_state": 5})
    assert (config.log, config.n_rounds, config.random_state) == ("a.parquet", 7, 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rounds": 0}, "n_rounds must be at least 1; got 0"),
        ({"n_rounds": 2.5}, "n_rounds must be an integer; got 2.5"),
        ({"holdout": 1.0}, r"holdout must lie in \(0, 1\); got 1.0"),
        ({"objective": "magic"}, "objective must be one of 'auto', 'dr', 'ips', 'surrogate'; got 'magic'"),
        ({"reward_translation": "some"}, "reward_translation must be a number or auto; got 'some'"),
        ({"include": ["magic"]}, "there is no candidate 'magic'; there are logging"),
        ({"exclude": "dr"}, "exclude must be a list of names; got 'dr'"),
        ({"weight": "clipped:many"}, "weight must be a name, or a name and a number"),
        ({"weight": 3}, "weight must be text; got 3"),
        ({"start": "somewhere"}, "start must be one of 'uniform'"),
        ({"smoothness": "soft"}, "smoothness must be one of 'sharp', 'paper'; got 'soft'"),
        ({"learning_rate": 0.0}, r"learning_rate must lie in \(0, 1\]; got 0.0"),
        ({"colsample": 1.5}, r"colsample must lie in \(0, 1\]; got 1.5"),
        ({"ignore": "user"}, "ignore must be a list of names; got 'user'"),
        ({"estimators": ["snips", "snips"]}, "none of them twice"),
        ({"interval": "betting", "estimators": ["magic"]}, "estimators must be one of"),
        ({"log": 3}, "log must be text; got 3"),
        ({"time": True}, "time must be the name of a column; got True"),
        ({"force": "yes"}, "force must be true or false; got 'yes'"),
        ({"interval": "betting", "estimators": ["dr"]}, "works for 'ips' only"),
        ({"interval": "betting", "group": "user"}, "the log has groups"),
    ],
)
def test_a_setting_out_of_range_is_named(changes, message):
    with pytest.raises(UsageError, match=message):
        make_config({"log": "log.parquet"}, changes)


def test_values_without_a_place_in_toml_are_refused():
    assert tomllib.loads(to_toml({"a": [1, "x"], "b": None}, {"a": "Heading"})) == {"a": [1, "x"]}
    with pytest.raises(TypeError, match="cannot be written to a TOML file"):
        to_toml({"a": object()}, {})
