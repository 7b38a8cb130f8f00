"""loop.toml: checked, frozen, one sentence per error."""

import dataclasses
import re
import tomllib

import pytest

from bopl._errors import UsageError
from bopl.serving.settings import LoopSettings, read_settings


def write(tmp_path, text):
    path = tmp_path / "loop.toml"
    path.write_text(text, encoding="utf8")
    return path


def test_an_empty_file_is_the_defaults(tmp_path):
    assert read_settings(write(tmp_path, "")) == LoopSettings()


def test_the_written_file_reads_back_and_explains_every_setting(tmp_path):
    settings = LoopSettings(actions=("a", "b"), mode="apprentice", ramp=(0.5, 1.0), train={"minutes": 3})
    text = settings.to_toml()
    assert read_settings(write(tmp_path, text)) == settings
    for entry in dataclasses.fields(LoopSettings):
        if entry.name != "train":
            assert f"# {entry.metadata['help']}\n" in text
    assert tomllib.loads(LoopSettings().to_toml())["train"] == {}


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LoopSettings().port = 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("port = 99999", "port must lie in [0, 65535]; got 99999."),
        ("port = '80'", "port must be an integer; got '80'."),
        ("prot = 1", "sets 'prot', which is not a setting. Did you mean 'port'?"),
        ("mode = 'both'", "mode must be one of 'serve', 'apprentice'; got 'both'."),
        ("exploration = 1.5", "exploration must lie in [0, 1]; got 1.5."),
        ("exploration = 0\nmin_propensity = 0", "exploration and min_propensity must not both be 0"),
        ("actions = ['a', 'a']", "actions must differ from each other"),
        ("actions = ['a', 1]", "actions must be all texts or all integers"),
        ("actions = [1.5]", "actions must be a list of texts or integers"),
        ("actions = 'a'", "actions must be a list of texts or integers"),
        ("ramp = [0.1, 0.5]", "ramp must rise to 1.0"),
        ("ramp = []", "ramp must be a list of shares"),
        ("ramp = [0.5, 0.1, 1.0]", "ramp must rise to 1.0"),
        ("reward_window_s = 0", "reward_window_s must lie in (0, 1e+09]; got 0."),
        ("default_reward = nan", "default_reward must be finite"),
        ("default_reward = -1", "default_reward must lie in reward_range, from 0 to 1; got -1."),
        ("reward_combination = 'mean'", "reward_combination must be one of 'sum', 'first', 'last'"),
        ("needs_activation = 1", "needs_activation must be true or false"),
        ("reward_range = [1, 0]", "reward_range must rise, as in [0.0, 1.0]; got [1, 0]."),
        ("reward_range = [1]", "reward_range must be two numbers"),
        ("reward_range = [0, inf]", "each end of reward_range must be finite; got inf."),
        ("host = 1", "host must be text"),
        ("confidence = 1.0", "confidence must lie in (0, 1)"),
        ("max_body_bytes = 1", "max_body_bytes must lie in"),
        ("[train]\nlog = 'a'", "train.log cannot be set here"),
        ("[train]\nminuets = 1", "train.minuets is not a setting of `bopl train`. Did you mean 'minutes'?"),
        ("train = 3", "train must be a table"),
        ("port = ", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_is_one_sentence_with_its_value(tmp_path, text, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)) as caught:
        read_settings(write(tmp_path, text))
    assert "loop.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_file_is_told_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="it is not the folder of a loop; make one with"):
        read_settings(tmp_path / "loop.toml")


@pytest.mark.parametrize(
    ("host", "is_local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)]
)
def test_only_loopback_addresses_are_local(host, is_local):
    assert LoopSettings(host=host).is_local is is_local
