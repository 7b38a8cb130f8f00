"""Missing entries never become values: of actions they are refused, of contexts they stay missing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bopl

CONTEXT = np.arange(12.0).reshape(6, 2)
REWARD = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
PROPENSITY = [0.5] * 6
ACTION = list("ababab")

ACTIONS = {
    "masked numbers": np.ma.masked_array([1, 2, 1, 2, 1, 2], [0, 0, 1, 0, 0, 0]),
    "masked text": np.ma.masked_array(list("abaaba"), [0, 0, 1, 0, 0, 0]),
    "Int64": pd.Series([1, 2, None, 1, 2, 1], dtype="Int64"),
    "boolean": pd.Series([True, False, None, True, False, True], dtype="boolean"),
    "NA among objects": pd.Series(["a", "b", pd.NA, "a", "b", "a"], dtype=object),
    "NA in a list": ["a", "b", pd.NA, "a", "b", "a"],
    "NaT": pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02", None] * 2)),
    "numpy NaT": np.array(["2020-01-01", "2020-01-02", "NaT"] * 2, dtype="M8[ns]"),
    "NaN": np.array([1.0, 2.0, np.nan, 1.0, 2.0, 1.0]),
    "polars": pl.Series(["a", "b", None, "a", "b", "a"]),
    "arrow": pa.chunked_array([["a", "b", None, "a", "b", "a"]]),
    "arrow dictionary": pa.chunked_array([pa.array(["a", "b", None, "a", "b", "a"]).dictionary_encode()]),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_a_missing_action_is_refused_with_its_row_and_left_out_on_request(action):
    with pytest.raises(ValueError, match=r"action is missing in \d of 6 samples, the first at row 2"):
        bopl.BanditLog(CONTEXT, action, REWARD, PROPENSITY)
    log = bopl.BanditLog(CONTEXT, action, REWARD, PROPENSITY, drop_invalid=True)
    assert CONTEXT[2, 0] not in log.context[:, 0]
    assert [one.reason for one in log.origin.dropped] == ["action is missing"]
    assert log.n_actions == 2


@pytest.mark.parametrize(
    "reward",
    [
        np.ma.masked_array(REWARD, [0, 0, 1, 0, 0, 0]),
        np.ma.masked_array([1, 0, 1, 0, 1, 0], [0, 0, 1, 0, 0, 0]),
        [1, 0, pd.NA, 0, 1, 0],
        pd.Series([1, 0, None, 0, 1, 0], dtype="Int64"),
        pd.Series([1, 0, pd.NA, 0, 1, 0], dtype=object),
    ],
)
def test_a_masked_reward_is_missing(reward):
    with pytest.raises(ValueError, match=r"reward must be finite; 1 of 6 .* row 2 with nan.*drop_invalid"):
        bopl.BanditLog(CONTEXT, ACTION, reward, PROPENSITY)
    assert bopl.BanditLog(CONTEXT, ACTION, reward, PROPENSITY, drop_invalid=True).reward.tolist() == [1, 0, 0, 1, 0]


def test_masked_contexts_are_missing():
    masked = np.ma.masked_array(CONTEXT, np.eye(6, 2))
    for context in (masked, masked.astype(int), pd.DataFrame({0: [pd.NA, *range(2, 12, 2)]}, dtype=object)):
        log = bopl.BanditLog(context, ACTION, REWARD, PROPENSITY)
        assert np.isnan(log.context[0, 0])
        assert np.isnan(log.context).sum() == log.n_features


def test_masked_groups_are_refused():
    with pytest.raises(ValueError, match="group is missing in 1 of 6 samples, the first at row 2"):
        bopl.BanditLog(CONTEXT, ACTION, REWARD, PROPENSITY, group=np.ma.masked_array(range(6), [0, 0, 1, 0, 0, 0]))


def test_column_names_of_a_frame_may_be_numbers():
    frame = pd.DataFrame({0: CONTEXT[:, 0], 1: ACTION, 2: REWARD, 3: PROPENSITY})
    log = bopl.BanditLog.from_frame(frame, action=1, reward=2, propensity=3)
    assert log.feature_names == ("0",)
    assert log.action.tolist() == ACTION


@pytest.mark.parametrize("role", ["action", "group"])
def test_whole_numbers_that_floats_cannot_tell_apart_are_refused(role):
    large = np.array([2.0**60, 2.0, 3.0] * 2)
    columns = {"action": ACTION, role: large}
    with pytest.raises(ValueError, match=f"{role} holds numbers beyond"):
        bopl.BanditLog(CONTEXT, reward=REWARD, propensity=PROPENSITY, **columns)
