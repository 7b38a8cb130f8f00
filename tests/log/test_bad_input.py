"""Every bad input gets one sentence: what, how many, the first of them, and what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bopl

CONTEXT = np.arange(8.0).reshape(4, 2)
GOOD = {"context": CONTEXT, "action": ["a", "b", "a", "b"], "reward": [0, 1, 0, 1], "propensity": [0.5] * 4}


def changed(name, row, value):
    column = np.array(GOOD[name], dtype=float)
    column[row] = value
    return {**GOOD, name: column}


BAD_LOGS = {
    "group matrix": ({**GOOD, "group": np.zeros((4, 2))}, ValueError, r"group must have one dimension .* \(4, 2\)"),
    "group missing": ({**GOOD, "group": [1.0, np.nan, 2.0, 2.0]}, ValueError, "group is missing in 1 of 4 samples"),
    "group nan": (
        {**GOOD, "group": np.array(["x", np.nan, np.nan, "y"], dtype=object)},
        ValueError,
        "group is missing in 2 of 4 samples, the first at row 1; give each one a group",
    ),
    "group short": ({**GOOD, "group": [1, 2]}, ValueError, "propensity 4, group 2"),
    "propensity zero": (
        changed("propensity", 2, 0.0),
        ValueError,
        r"1 of 4 samples does not, the first at row 2 with 0\.",
    ),
    "propensity negative": (changed("propensity", 1, -0.7), ValueError, r"row 1 with -0\.7\. Negative .* np\.exp"),
    "propensity percent": (
        changed("propensity", 3, 50.0),
        ValueError,
        "row 3 with 50. Only some rows seem to hold percentages",
    ),
    "propensity inverse": (changed("propensity", 3, 5000.0), ValueError, "inverse propensities"),
    "propensity nan": (changed("propensity", 0, np.nan), ValueError, "row 0 with nan. A missing propensity"),
    "reward nan": (changed("reward", 3, np.nan), ValueError, "reward must be finite; 1 of 4 samples does not, .*row 3"),
    "reward infinite": (changed("reward", 3, np.inf), ValueError, "row 3 with inf"),
    "reward text": ({**GOOD, "reward": [1, 0, "yes", 1]}, TypeError, "reward must be numeric; row 2 holds 'yes'"),
    "reward matrix": ({**GOOD, "reward": np.zeros((4, 2))}, ValueError, r"one dimension .* \(4, 2\)"),
    "lengths": ({**GOOD, "reward": [1, 0]}, ValueError, "context 4, action 4, reward 2, propensity 4"),
    "one number": ({**GOOD, "propensity": 0.5}, TypeError, "one value per sample; got float"),
    "unknown label": (
        {**GOOD, "actions": ["a", "c"]},
        ValueError,
        "2 of 4 samples, the first at row 1 with 'b'. Known",
    ),
    "repeated label": ({**GOOD, "actions": ["a", "b", "a"]}, ValueError, "actions lists 'a' more than once"),
    "missing action": ({**GOOD, "action": ["a", None, "b", None]}, ValueError, "missing in 2 of 4 samples, .* row 1"),
    "unhashable action": ({**GOOD, "action": ["a", ["b"], "b", "a"]}, TypeError, r"hashable; row 1 holds \['b'\]"),
    "empty": (
        {"context": np.zeros((0, 2)), "action": [], "reward": [], "propensity": []},
        ValueError,
        "the log is empty",
    ),
    "no columns": ({**GOOD, "context": np.zeros((4, 0))}, ValueError, "context has no columns"),
    "one action": ({**GOOD, "action": ["a"] * 4}, ValueError, r"only one action \('a'.*actions=\["),
    "flat context": ({**GOOD, "context": np.zeros(4)}, ValueError, r"two dimensions .*\(4,\)"),
    "context infinite": (
        {**GOOD, "context": CONTEXT * 1e38},
        ValueError,
        "2 of 4 rows hold infinity .*row 2, column 0",
    ),
    "context text": ({**GOOD, "context": [["x", 1]] * 4}, TypeError, "column 0 holds 'x' at row 0"),
    "context objects": (
        {**GOOD, "context": pd.DataFrame({"a": [1, 2, 3, 4], "city": ["x", "y", "x", "y"]})},
        TypeError,
        "1 of 2 are not: 'city'",
    ),
    "names": ({**GOOD, "feature_names": ["a"]}, ValueError, "feature_names has 1 names, but context has 2 columns"),
    "repeated names": ({**GOOD, "feature_names": ["a", "a"]}, ValueError, "duplicated column names: 'a'"),
    "time missing": (
        {**GOOD, "time": [1.0, np.nan, 2.0, 3.0]},
        ValueError,
        "time is missing in 1 of 4 samples, .*row 1",
    ),
}


@pytest.mark.parametrize(("columns", "error", "message"), BAD_LOGS.values(), ids=BAD_LOGS.keys())
def test_bad_log_is_refused_with_one_sentence(columns, error, message):
    with pytest.raises(error, match=message) as caught:
        bopl.BanditLog(**columns)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


FRAME = pd.DataFrame({"x": [1.0, 2.0], "item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]})
ROLES = {"action": "item", "reward": "click", "propensity": "p"}


@pytest.mark.parametrize(
    ("frame", "roles", "message"),
    [
        (FRAME, {**ROLES, "propensity": "q"}, "no column 'q' .given as propensity.; the columns are 'x', 'item'"),
        (FRAME, {**ROLES, "context": ["x", "y"]}, "no column 'y'"),
        (FRAME, {**ROLES, "context": ["x", "click"]}, "context contains 'click', which is also the"),
        (FRAME, {**ROLES, "reward": "p"}, "one column is given two roles"),
        (pd.concat([FRAME, FRAME[["x"]]], axis=1), ROLES, "duplicated column names: 'x'"),
    ],
)
def test_bad_frame_is_refused(frame, roles, message):
    with pytest.raises(ValueError, match=message):
        bopl.BanditLog.from_frame(frame, **roles)


def test_from_frame_refuses_what_is_no_frame():
    with pytest.raises(TypeError, match="takes a pandas, polars or arrow frame; got list"):
        bopl.BanditLog.from_frame([1, 2], **ROLES)


def test_null_propensity_in_a_frame_is_named_with_its_row():
    frame = pl.from_pandas(FRAME).with_columns(p=pl.Series([0.5, None]))
    with pytest.raises(ValueError, match="1 of 2 samples does not, the first at row 1 with nan"):
        bopl.BanditLog.from_frame(frame, **ROLES)


def test_files_that_cannot_be_read_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*missing\.parquet"):
        bopl.BanditLog.from_parquet(tmp_path / "missing.parquet", **ROLES)
    (tmp_path / "bad.parquet").write_text("not parquet")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        bopl.BanditLog.from_parquet(tmp_path / "bad.parquet", **ROLES)
    FRAME.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="no column 'y'"):
        bopl.BanditLog.from_parquet(tmp_path / "log.parquet", context=["y"], **ROLES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: log.split(0.0), "strictly between 0 and 1; got 0.0"),
        (lambda log: log.split(0.01), "leaves one part empty"),
        (lambda log: log.split(0.5, by="time"), "build the log with time="),
        (lambda log: log.split(0.5, by="day"), "by must be 'random', 'time' or 'group'; got 'day'"),
        (lambda log: log.subset([4]), "row numbers must lie in 0 … 3"),
        (lambda log: log.subset([]), "no row was selected"),
        (lambda log: log.subset(np.array([True])), r"shape \(4,\)"),
        (lambda log: log.translated(np.nan), "finite number"),
    ],
)
def test_bad_requests_of_a_log_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(bopl.BanditLog(**GOOD))
