"""Flags and files say the same things, and every setting is checked."""

import dataclasses
import inspect
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl._errors import UsageError
from bopl.cli.train import train
from bopl.evaluation.interval import INTERVALS
from bopl.log.format import FORMATS
from bopl.workflow import config as config_module
from bopl.workflow.config import TrainConfig, make_config, read_config
from bopl.workflow.toml import to_toml

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=30)
@given(
    st.builds(
        TrainConfig,
        log=TEXT,
        action=st.none() | TEXT,
        context=st.none() | st.lists(TEXT, max_size=3).map(tuple),
        ignore=st.lists(TEXT, max_size=3).map(tuple),
        rounds=st.integers(1, 10_000),
        reg_lambda=st.floats(0.0, 1e300),
        reward_translation=st.just("auto") | st.floats(-1e6, 1e6),
        force=st.booleans(),
        threads=st.none() | st.integers(1, 64),
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
    assert config_module.FORMATS == FORMATS
    assert set(config_module.INTERVALS) == set(INTERVALS)


def test_flags_come_before_the_file():
    config = make_config({"log": "a.parquet", "rounds": 7, "seed": 3}, {"rounds": None, "seed": 5})
    assert (config.log, config.rounds, config.seed) == ("a.parquet", 7, 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1; got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number; got 2.5"),
        ({"holdout": 1.0}, r"holdout must lie in \(0, 1\); got 1.0"),
        ({"objective": "magic"}, "objective must be one of 'ips', 'surrogate'; got 'magic'"),
        ({"reward_translation": "some"}, "reward_translation must be a number or auto; got 'some'"),
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
    with pytest.raises(TypeError, match="has no place in a TOML file"):
        to_toml({"a": object()}, {})
