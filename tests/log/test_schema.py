"""How columns become numbers, and that a policy remembers it."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bopl
from bopl._errors import UnseenCategoryWarning
from bopl.log.column import MAX_CATEGORIES, OTHER
from bopl.log.schema import LogSchema

ROLES = {"action": "item", "reward": "click", "propensity": "p"}
CONVERT = {
    "pandas": lambda f: f,
    "polars": pl.from_pandas,
    "polars categories": lambda f: pl.from_pandas(f).cast({pl.String: pl.Categorical}),
    "arrow": lambda f: pa.Table.from_pandas(f),
}


def mixed_frame(n_samples=400, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rom", "Ulm", "Bonn"], n_samples).astype(object)
    city[::17] = None
    item = rng.choice(["tea", "milk", "water"], n_samples)
    best = np.where(city == "Rom", "tea", np.where(city == "Ulm", "milk", "water"))
    return pd.DataFrame(
        {
            "city": city,
            "age": np.where(rng.random(n_samples) < 0.1, np.nan, rng.integers(18, 80, n_samples)),
            "is_member": rng.random(n_samples) < 0.5,
            "when": pd.Timestamp("2024-01-01 13:30") + pd.to_timedelta(rng.integers(0, 72, n_samples), unit="h"),
            "item": item,
            "click": (item == best).astype(int),
            "p": np.full(n_samples, 1 / 3),
        }
    )


@pytest.mark.parametrize("convert", CONVERT.values(), ids=CONVERT.keys())
def test_every_kind_of_frame_becomes_the_same_numbers(convert):
    frame = mixed_frame()
    log = bopl.BanditLog.from_frame(convert(frame), **ROLES)
    assert log.feature_names == ("city", "age", "is_member", "when (day)", "when (weekday)", "when (hour)")
    assert log.categorical == (0,)
    assert log.schema.columns[0].categories == ("Bonn", "Rom", "Ulm")
    assert log.schema.categories == {"city": ("Bonn", "Rom", "Ulm"), "is_member": ("no", "yes")}
    code = {"Bonn": 0.0, "Rom": 1.0, "Ulm": 2.0}
    np.testing.assert_array_equal(log.context[:, 0], [code.get(one, np.nan) for one in frame["city"]])
    np.testing.assert_array_equal(log.context[:, 2], frame["is_member"].astype(float))
    assert log.schema.encode(convert(frame)).tobytes() == log.context.tobytes()


def test_a_time_becomes_day_weekday_and_hour():
    frame = pd.DataFrame({"t": [datetime.datetime(2024, 5, 1, 13, 30), None, datetime.datetime(1969, 12, 31, 23, 0)]})
    log = bopl.BanditLog.from_frame(frame.assign(item=[0, 1, 0], click=1, p=0.5), **ROLES)
    assert log.context[0].tolist() == [19844.0, 2.0, 13.5]  # a Wednesday
    assert np.isnan(log.context[1]).all()
    assert log.context[2].tolist() == [-1.0, 2.0, 23.0]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.int64())])
def test_lists_of_one_length_become_columns(kind):
    rest = {"item": [0, 1, 0], "click": [1, 0, 1], "p": [0.5] * 3}
    log = bopl.BanditLog.from_frame(pa.table({"v": pa.array([[1, 2], None, [3, 4]], kind), **rest}), **ROLES)
    assert log.feature_names == ("v[0]", "v[1]")
    np.testing.assert_array_equal(log.context, [[1, 2], [np.nan, np.nan], [3, 4]])
    with pytest.raises(ValueError, match="column 'v' must hold lists of 2 numbers; row 1 holds 3"):
        log.schema.encode(pa.table({"v": pa.array([[1, 2], [3, 4, 5]], pa.list_(pa.float32()))}))
    assert np.isnan(log.schema.encode(pa.table({"v": pa.nulls(2)}))).all()


def test_a_category_that_was_never_seen_is_missing():
    log = bopl.BanditLog.from_frame(mixed_frame(), **ROLES)
    frame = mixed_frame().assign(city="Oslo")
    with pytest.warns(UnseenCategoryWarning, match=r"^100% of the rows hold a 'city' that .+ missing: 'Oslo'\.$"):
        assert np.isnan(log.schema.encode(frame)[:, 0]).all()


def test_missing_categories_are_no_unseen_ones():
    numbers = pd.DataFrame({"c": [1.0, np.nan, 2.0, 1.0], "item": [0, 1] * 2, "click": 1, "p": 0.5})
    schema = bopl.BanditLog.from_frame(numbers, categorical=["c"], **ROLES).schema
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schema.encode(pl.DataFrame({"c": [float("nan"), None, 2.0]}))
    assert not caught


def test_rare_categories_are_merged_and_unseen_ones_join_them():
    names = [f"c{i:04d}" for i in range(400)]
    column = names[:300] * 2 + names[300:]  # the last hundred are the rarest
    frame = pd.DataFrame({"c": column, "item": [0, 1] * 350, "click": 1, "p": 0.5})
    schema = bopl.BanditLog.from_frame(frame, **ROLES).schema
    column = schema.columns[0]
    assert len(column.categories) == MAX_CATEGORIES - 1
    assert column.n_merged == 400 - len(column.categories)
    assert set(column.categories) <= set(names[:300])
    assert schema.describe("c", 3.0) == "c0003"
    assert schema.describe("c", float(len(column.categories))) == OTHER
    code = schema.encode(pd.DataFrame({"c": [names[399], "new", None, names[0]]}))[:, 0]
    assert code[:2].tolist() == [len(column.categories)] * 2
    assert np.isnan(code[2])
    assert code[3] == 0.0


@pytest.mark.parametrize("read_as", [int, float, str])
def test_numbers_that_are_categories_are_recognised_however_they_are_stored(read_as):
    frame = pd.DataFrame({"zone": [7, 3, 7, 3], "item": [0, 1, 0, 1], "click": 1, "p": 0.5})
    as_number = bopl.BanditLog.from_frame(frame, categorical=["zone"], **ROLES).schema
    as_text = bopl.BanditLog.from_frame(frame.assign(zone=["7", "3", "7", "3"]), **ROLES).schema
    values = pd.DataFrame({"zone": pd.Series([3, 7]).astype(read_as)})
    assert as_text.encode(values)[:, 0].tolist() == [0.0, 1.0]
    assert as_number.encode(values)[:, 0].tolist() == [0.0, 1.0]


def test_identifiers_are_recognised():
    n_samples = 3000
    frame = pd.DataFrame(
        {
            "request": [f"r{i}" for i in range(n_samples)],
            "row": np.arange(n_samples),
            "x": np.random.default_rng(0).random(n_samples),
            "item": np.arange(n_samples) % 2,
            "click": 1,
            "p": 0.5,
        }
    )
    columns = {column.name: column for column in bopl.BanditLog.from_frame(frame, **ROLES).schema.columns}
    assert columns["request"].is_identifier
    assert columns["row"].is_identifier
    assert not columns["x"].is_identifier


def test_a_schema_survives_json():
    schema = bopl.BanditLog.from_frame(mixed_frame(), **ROLES).schema
    assert LogSchema.from_json(schema.to_json()) == schema


def test_wrong_columns_get_one_sentence():
    schema = bopl.BanditLog.from_frame(mixed_frame(), **ROLES).schema
    with pytest.raises(ValueError, match=r"lack 1 of the 4 columns .*: 'city'\. Did you mean 'City'\?"):
        schema.encode(mixed_frame().rename(columns={"city": "City"}))
    with pytest.raises(ValueError, match="column 'age' held numbers when the policy was fitted; here it holds text"):
        schema.encode(mixed_frame().assign(age="old"))
    with pytest.raises(ValueError, match=r"1 of 2 do not: 'x' \(List\(String\)\)\. Exclude them with ignore"):
        bopl.BanditLog.from_frame(
            pa.table({"x": [["a"]], "y": [1], "item": [0], "click": [1], "p": [0.5]}), actions=[0, 1], **ROLES
        )
    with pytest.raises(
        ValueError, match=r"categorical names 'cty', which is not a context column. Did you mean 'city'"
    ):
        bopl.BanditLog.from_frame(mixed_frame(), categorical=["cty"], **ROLES)


def test_columns_to_ignore_are_no_context():
    log = bopl.BanditLog.from_frame(mixed_frame(), ignore=["when", "age"], **ROLES)
    assert log.feature_names == ("city", "is_member")
    with pytest.raises(ValueError, match=r"no column 'agee' .given as ignore"):
        bopl.BanditLog.from_frame(mixed_frame(), ignore=["agee"], **ROLES)


def test_policies_learn_from_categories_and_take_frames(tmp_path):
    frame = mixed_frame(600)
    log = bopl.BanditLog.from_frame(frame, **ROLES)
    policy = bopl.BoostedPolicy(n_rounds=8, reward_translation=-0.3, random_state=0).fit(log)
    split_on = {
        (int(feature), bool(is_equal))
        for entry in policy.ensemble_.rounds
        for feature, is_equal in zip(entry.predictor.tree.feature, entry.predictor.tree.is_equal, strict=True)
        if feature == 0
    }
    assert split_on == {(0, True)}  # one against the rest
    shuffled = frame.drop(columns=["item", "click", "p"])[["when", "is_member", "city", "age"]]
    np.testing.assert_array_equal(policy.predict_proba(shuffled), policy.predict_proba(log.context))
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert loaded.schema_ == log.schema
    np.testing.assert_array_equal(loaded.predict(frame), policy.predict(log.context))
    assert (loaded.predict(pd.DataFrame({**frame.iloc[:1], "city": ["Rom"]})) == "tea").all()


def test_a_reward_model_knows_the_categories_too():
    log = bopl.BanditLog.from_frame(mixed_frame(600), **ROLES)
    model = bopl.BoostedRewardModel(n_rounds=3).fit(log)
    trees = [predictor.tree for predictor in model.predictors_]
    assert all(tree.is_equal[tree.feature == 0].all() for tree in trees)


def test_text_can_be_time_and_group():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "item": [0, 1, 0], "click": 1, "p": 0.5})
    frame = frame.assign(day=["2024-02-01", "2024-01-01", "2024-03-01"], user=["b", "a", "b"])
    log = bopl.BanditLog.from_frame(frame, time="day", group="user", **ROLES)
    assert [str(one) for one in log.time] == frame["day"].tolist()
    assert log.group.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="time is missing in 1 of 3 samples, the first at row 1"):
        bopl.BanditLog.from_frame(frame.assign(day=["2024-02-01", None, "2024-03-01"]), time="day", **ROLES)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=2, max_size=30))
def test_encoding_and_describing_are_inverse(values):
    table = pa.table({"c": pa.array(values, pa.string()), "item": list(range(len(values)))})
    table = table.append_column("click", [[1] * len(values)]).append_column("p", [[0.5] * len(values)])
    log = bopl.BanditLog.from_frame(table, **ROLES)
    described = [log.schema.describe("c", code) for code in log.context[:, 0]]
    assert described == ["missing" if value is None else value for value in values]


@pytest.mark.parametrize("dtype", ["str", "category", "object"])
def test_text_of_joined_frames_is_read_like_that_of_one(dtype):
    frame = mixed_frame().astype({"city": dtype})
    joined = pd.concat([frame[:150], frame[150:]])
    log, one = (bopl.BanditLog.from_frame(each, **ROLES) for each in (joined, frame))
    np.testing.assert_array_equal(log.context, one.context)
