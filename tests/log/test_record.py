"""A record becomes the same numbers as a row of a frame."""

import copy
import datetime
import math
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bopl
from bopl.log.column import Column
from bopl.log.schema import LogSchema

CITIES = ("Bonn", "Rom", "Ulm")
UTC = datetime.UTC
MOMENTS = st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2090, 1, 1))
ZONES = st.sampled_from([UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30))])


def times_as_text(moment):
    clocks = ["", "T%H:%M", " %H:%M:%S", "T%H:%M:%S.%f", "T%H:%M:%SZ", "T%H:%M:%S.%f+02:00", " %H:%M:%S -0330"]
    forms = [*(f"%Y-%m-%d{clock}" for clock in clocks), "%d %b %Y", "%Y%m%d"]
    return st.sampled_from([moment.strftime(form) for form in forms])


@st.composite
def columns_with_values(draw, name):
    """A column, and a value that is there in a record of it."""
    kind = draw(st.sampled_from(["number", "flag", "category", "codes", "time", "epoch", "vector"]))
    if kind in ("number", "flag"):
        numbers = st.floats(-1e30, 1e30) | st.integers(-(1 << 62), 1 << 62) | st.booleans()
        return Column(name, kind), draw(numbers)
    if kind == "category":
        column = Column(name, kind, CITIES, n_merged=draw(st.sampled_from([0, 3])))
        return column, draw(st.sampled_from([*CITIES, "Köln", "", "rom"]))
    if kind == "codes":
        column = Column(name, "category", (1, 2.5, 7))
        return column, draw(st.sampled_from([1, 1.0, "1", "1.0", 2.5, "2.5", 7, True, 99]))
    parts = tuple(draw(st.lists(st.sampled_from(["day", "weekday", "hour"]), min_size=1, unique=True)))
    if kind == "time":
        moment = draw(MOMENTS)
        value = draw(st.just(moment) | times_as_text(moment) | ZONES.map(lambda zone: moment.replace(tzinfo=zone)))
        return Column(name, kind, parts=parts), value
    if kind == "epoch":
        unit, count = draw(st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]))
        seconds = draw(st.integers(946_684_800, 4_102_444_800))
        value = draw(st.sampled_from([seconds * count + 7 * count // 9, seconds * float(count) + 0.4321]))
        return Column(name, "time", parts=parts, unit=unit), value
    size = draw(st.integers(1, 3))
    entries = draw(st.sampled_from([st.floats(-1e6, 1e6), st.integers(-100, 100)]))
    return Column(name, "vector", size=size), draw(st.lists(entries, min_size=size, max_size=size))


@st.composite
def schemas_with_records(draw):
    pairs = [draw(columns_with_values(f"c{number}")) for number in range(draw(st.integers(1, 5)))]
    record = {column.name: draw(st.sampled_from([value, value, value, None])) for column, value in pairs}
    return LogSchema(tuple(column for column, _ in pairs)), record


FRAMES = {
    "pandas": lambda record: pd.DataFrame([record]),
    "polars": lambda record: pl.DataFrame([record]),
    "arrow": lambda record: pa.Table.from_pylist([record]),
}


@pytest.mark.filterwarnings("ignore::bopl._errors.UnseenCategoryWarning")
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@settings(max_examples=100, deadline=None)
@given(case=schemas_with_records())
def test_a_record_has_the_bits_of_a_frame_with_one_row(make, case):
    schema, record = case
    assert schema.encode_record(record).tobytes() == schema.encode(make(record))[0].tobytes()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_of_pandas_or_numpy_is_a_time(unit):
    schema = LogSchema((Column("t", "time"),))
    moment = np.datetime64("2024-05-01T13:30:00", unit)
    for value in (moment, pd.Timestamp(moment), pd.Timestamp(moment).tz_localize("UTC")):
        assert schema.encode_record({"t": value}).tolist() == [19844.0, 2.0, 13.5]
    assert np.isnan(schema.encode_record({"t": pd.NaT})).all()


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA, pd.NaT, np.float32("nan")])
@pytest.mark.parametrize("kind", ["number", "flag", "category", "time", "vector"])
def test_whatever_stands_for_missing_is_missing(kind, missing):
    assert np.isnan(LogSchema((Column("x", kind, CITIES),)).encode_record({"x": missing})).all()


def test_numbers_of_numpy_are_numbers():
    schema = LogSchema((Column("x", "number"), Column("c", "category", (1, 2)), Column("v", "vector", size=2)))
    record = {"x": np.float32(1.5), "c": np.int8(2), "v": np.array([1, 2])}
    assert schema.encode_record(record).tolist() == [1.5, 1.0, 1.0, 2.0]


def log_with_gaps():
    frame = pd.DataFrame({"city": ["Rom", None], "age": [31.0, 40.0], "item": [0, 1], "click": [1, 0], "p": 0.5})
    return bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity="p")


def test_a_column_that_had_gaps_may_be_left_out_of_a_record():
    schema = log_with_gaps().schema
    assert [column.is_optional for column in schema.columns] == [True, False]
    row = schema.encode_record({"age": 5})
    assert math.isnan(row[0])
    assert row[1] == 5.0
    with pytest.raises(ValueError, match=r"lacks 1 of the 2 columns .* missing then: 'age'\. Did you mean 'Age'\?"):
        schema.encode_record({"city": "Rom", "Age": 5})


def test_which_columns_had_gaps_is_kept_in_files():
    schema = log_with_gaps().schema
    again = LogSchema.from_json(schema.to_json())
    assert again == schema
    assert [column.is_optional for column in again.columns] == [True, False]


def test_what_a_sparse_record_leaves_out_is_zero():
    schema = LogSchema((Column("a", "number"), Column("b", "number")), is_sparse=True)
    assert schema.encode_record({"b": 2, "new": 1}).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Column("x", "number"), "7", r"column 'x' held numbers when the policy was fitted; the record holds '7'"),
        (Column("x", "number"), [1], r"the record holds \[1\]"),
        (Column("x", "number"), 1e39, r"hold infinity or a value beyond 3.4e38, the first at row 0, column 'x'"),
        (Column("x", "number"), 10**30, r"column 'x' holds 1e\+30, beyond the range of 64-bit integers"),
        (Column("x", "number"), -(10**400), r"column 'x' holds an integer of hundreds of digits, beyond the range"),
        (Column("x", "vector", size=2), [1, 10**400], r"column 'x' holds an integer of hundreds of digits"),
        (Column("x", "category", CITIES), {"a": 1}, r"held categories"),
        (Column("x", "time"), 17, r"held times when the policy was fitted; the record holds 17"),
        (Column("x", "time", unit="s"), True, r"held times"),
        (Column("x", "time", unit="s"), 1e300, r"out of range"),
        (
            Column("x", "time"),
            "03/04/2024",
            r"it holds '03/04/2024', in which day, month and year cannot be distinguished",
        ),
        (Column("x", "vector", size=2), [1.0], r"must hold lists of 2 numbers; the record holds 1"),
        (Column("x", "vector", size=2), [1.0, True], r"held lists of numbers"),
        (Column("x", "vector", size=2), "ab", r"held lists of numbers"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_named(column, value, message):
    with pytest.raises(ValueError, match=message):
        LogSchema((column,)).encode_record({"x": value})


def test_a_record_must_be_a_mapping():
    with pytest.raises(TypeError, match="must be a mapping of column names to values; got list"):
        LogSchema((Column("x", "number"),)).encode_record([1.0])


def test_a_schema_is_copied_after_it_has_encoded_a_record():
    schema = log_with_gaps().schema
    schema.encode_record({"age": 1})
    for other in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert other == schema
        assert other.encode_record({"age": 1}).tobytes() == schema.encode_record({"age": 1}).tobytes()


def test_a_frame_of_one_row_may_hold_none():
    schema = LogSchema(tuple(Column(kind, kind, CITIES) for kind in ("number", "flag", "category", "time", "vector")))
    frame = pd.DataFrame([dict.fromkeys(["number", "flag", "category", "time", "vector"])])
    assert np.isnan(schema.encode(frame)).all()


@settings(max_examples=200)
@given(
    st.lists(st.floats(width=64) | st.integers(-(1 << 53), 1 << 53) | st.booleans() | st.none(), min_size=3, max_size=3)
)
def test_a_single_record_is_rounded_as_records_of_a_batch_are(values):
    schema = LogSchema(tuple(Column(f"n{place}", "number") for place in range(3)))
    record = {f"n{place}": value for place, value in enumerate(values)}
    try:
        together = schema.encode_records([record, record])
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error).partition(" ")[0])):
            schema.encode_records([record])
        return
    assert schema.encode_record(record).tobytes() == together[0].tobytes() == together[1].tobytes()
