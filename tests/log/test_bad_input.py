"""Every bad input gets one sentence: what, how many, the first of them, and what to do."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

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
    "list of lists as actions": ({**GOOD, "actions": [["a", "b"]]}, TypeError, "actions must be hashable; row 0"),
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
        "time is missing in 1 of 4 samples, .*row 1. Fill it in, or drop those samples",
    ),
    "time infinite": ({**GOOD, "time": [1.0, np.inf, 2.0, 3.0]}, ValueError, r"row 1 holds inf\. Drop"),
    "time in two units": (
        {**GOOD, "time": [1_727_776_800, 1_727_776_900, 1_719_828_000_000, 1_727_777_000]},
        ValueError,
        r"several units, .*row 0 holds 1727776800 \(s\), row 2 1719828000000 \(ms\)",
    ),
    "time beyond floats": ({**GOOD, "time": [10**400, 1, 2, 3]}, ValueError, "integers beyond the range of a float"),
    "time generator": ({**GOOD, "time": (row for row in range(4))}, TypeError, "time must have one value per sample"),
    "propensity tiny": (changed("propensity", 2, 1e-320), ValueError, "row 2 with .* so unlikely is never taken"),
    "no actions listed": ({**GOOD, "actions": []}, ValueError, "actions is empty; list all actions"),
    "actions as a set": ({**GOOD, "actions": {"a", "b"}}, TypeError, "^actions must be a sequence .*got set"),
    "true beside one": ({**GOOD, "action": [1, True, 2, 2]}, ValueError, "holds 1 in row 0 and True in row 1"),
    "false after zero": ({**GOOD, "action": ["a", 0, 0, False]}, ValueError, "holds 0 in row 1 and False in row 3"),
    "other rewards as a list": ({**GOOD, "other_rewards": [1, 2]}, TypeError, "must be a mapping .*got list"),
    "names as one text": ({**GOOD, "feature_names": "ab"}, ValueError, "feature_names has 1 names"),
    "names as a number": ({**GOOD, "feature_names": 2}, ValueError, "feature_names must be a list of names; got 2"),
    "flag as a number": ({**GOOD, "drop_invalid": 1}, TypeError, "drop_invalid must be True or False; got 1"),
    "mask of text": (
        {**GOOD, "action_mask": [[1, 1], [1, "no"], [1, 1], [1, 1]]},
        ValueError,
        "only; row 0 holds '1' for action 'a'",
    ),
    "mask forbids": ({**GOOD, "action_mask": [[0, 1]] * 4}, ValueError, "first at row 0 with 'a'. An action"),
    "mask in another order": (
        {**GOOD, "action_mask": pd.DataFrame({"b": [True] * 4, "a": [True] * 4})},
        ValueError,
        "action_mask has columns in the order 'b', 'a', but the actions are 'a', 'b'",
    ),
    "features in another order": (
        {**GOOD, "action_features": pd.DataFrame({"price": [1.0, 2.0]}, index=["b", "a"])},
        ValueError,
        "action_features has rows in the order 'b', 'a'",
    ),
    "features missing": ({**GOOD, "action_features": [[np.nan], [1.0]]}, ValueError, "action 'a' has NaN in column 0"),
    "features text": ({**GOOD, "action_features": [["x"], ["y"]]}, TypeError, "^action_features must be numeric"),
    "context beyond floats": (
        {**GOOD, "context": [[10**400]] * 4},
        TypeError,
        r"column 0 holds 1000\d+… at row 0",
    ),
    "context of a dict": ({**GOOD, "context": {"x": [1]}}, TypeError, "an array, a sparse matrix or a frame; got dict"),
    "lazy context": (
        {**GOOD, "context": pl.LazyFrame({"x": [1, 2, 3, 4]})},
        TypeError,
        r"got LazyFrame; collect\(\) it first",
    ),
    "rewards in another order": (
        {
            **GOOD,
            "context": pd.DataFrame({"x": [1, 2, 3, 4]}, index=[4, 5, 6, 7]),
            "reward": pd.Series([0, 1, 0, 1], index=[4, 6, 5, 7]),
        },
        ValueError,
        "reward has the rows of context in another order: row 1 of context has the index 5, that of reward 6",
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
        (FRAME, {**ROLES, "reward": FRAME["click"]}, "reward must be the name of a column; got Series"),
        (FRAME, {**ROLES, "segment": "item"}, "segment names 'item', which was not known before the action"),
        (FRAME, {**ROLES, "ignore": 3}, "ignore must be a list of names; got 3"),
        (FRAME, {**ROLES, "drop_duplicates": 3}, "drop_duplicates must be a list of names; got 3"),
        (FRAME.assign(o=[date(2024, 5, 1)] * 2), ROLES, r"'o' \(objects such as datetime\.date\(2024, 5, 1\)\)"),
        (FRAME[:0], ROLES, "the log is empty"),
        (pd.concat([FRAME, FRAME[["x"]]], axis=1), ROLES, "duplicated column names: 'x'"),
    ],
)
def test_bad_frame_is_refused(frame, roles, message):
    with pytest.raises(ValueError, match=message):
        bopl.BanditLog.from_frame(frame, **roles)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (["$1", "$0"], "the column holds text. Row 0 holds '\\$1': turn"),
        ([None, "yes"], "the column holds text. Row 1 holds 'yes'"),
        (pd.Categorical(["1", "0"]), "Row 0 holds '1'"),
    ],
)
def test_rewards_that_are_text_are_quoted(reward, message):
    with pytest.raises(TypeError, match=f"reward must be numeric; .*{message}"):
        bopl.BanditLog.from_frame(FRAME.assign(click=reward), **ROLES)


def test_frames_in_the_same_order_by_name_are_read():
    mask = pd.DataFrame({"a": [True] * 4, "b": [True] * 4})
    features = pd.DataFrame({"price": [1.0, 2.0]})
    reward = pd.Series([0, 1, 0, 1], index=[9, 8, 7, 6])  # other rows than those of the context, by their names
    log = bopl.BanditLog(
        pd.DataFrame(CONTEXT), GOOD["action"], reward, [0.5] * 4, action_mask=mask, action_features=features
    )
    assert log.action_mask.all()
    assert log.reward.tolist() == [0, 1, 0, 1]


def test_inverse_propensities_up_to_100_are_not_taken_for_percentages():
    frame = pd.DataFrame({"x": range(90), "item": ["a", "b", "c"] * 30, "click": 1.0, "p": [2.0, 3.0, 4.0] * 30})
    with pytest.raises(ValueError, match="inverse propensities: pass 1 / propensity"):
        bopl.BanditLog.from_frame(frame, **ROLES)
    with pytest.raises(ValueError, match="percentages: divide by 100"):
        bopl.BanditLog.from_frame(frame.assign(p=[20.0, 30.0, 50.0] * 30), **ROLES)


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
        (lambda log: log.split(random_state=-1), "random_state must be at least 0; got -1"),
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: log.split("0.2"), "test_fraction must be a number; got '0.2'"),
        (lambda log: log.split(random_state="a"), "random_state must be an integer; got 'a'"),
    ],
)
def test_requests_of_the_wrong_type_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(bopl.BanditLog(**GOOD))


def damaged(form):
    """Return a matrix in which one position points outside it."""
    matrix = sparse.eye_array(4, dtype=np.float32).asformat(form)
    if form == "coo":
        matrix.coords[0][0] = 9
    elif form == "lil":
        matrix.rows[0] = [77]
    elif form == "dok":
        matrix._dict[(9, 9)] = 1.0
    else:
        matrix.indices[0] = 9
    return matrix


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok"])
def test_a_damaged_sparse_matrix_is_refused_before_scipy_follows_it(form):
    with pytest.raises(ValueError, match=r"the sparse context of shape \(4, 4\) is damaged"):
        bopl.BanditLog(**{**GOOD, "context": damaged(form)})


@pytest.mark.parametrize(
    "offsets", [np.array([2**62]), np.array([2**31 - 2]), np.array([-(2**63)]), np.array([np.nan]), np.array([0, 0])]
)
def test_diagonals_that_scipy_would_write_outside_its_arrays_are_refused(offsets):
    matrix = sparse.eye_array(4, dtype=np.float32).todia()
    matrix.offsets, matrix.data = offsets, np.ones((1, 4), np.float32)
    with pytest.raises(ValueError, match=r"the sparse context of shape \(4, 4\) is damaged"):
        bopl.BanditLog(**{**GOOD, "context": matrix})


def test_positions_that_are_not_integers_are_refused():
    matrix = sparse.eye_array(4).tocoo()
    matrix.coords = tuple(place * np.nan for place in matrix.coords)
    with pytest.raises(ValueError, match="the sparse context of shape"):
        bopl.BanditLog(**{**GOOD, "context": matrix})


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_every_sound_sparse_matrix_is_read(form):
    log = bopl.BanditLog(**{**GOOD, "context": sparse.eye_array(4).asformat(form)})
    np.testing.assert_array_equal(log.context.toarray(), np.eye(4))
    with pytest.raises(ValueError, match="Complex data not supported: context must be real"):
        bopl.BanditLog(**{**GOOD, "context": (1j * sparse.eye_array(4)).asformat(form)})
