"""Times of a log: read from whatever holds them, compared by instant, refused where they cannot be."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bopl
from bopl.log.instant import check_time, instant_text
from bopl.log.schema import LogSchema
from bopl.log.time_text import parse_moment

ROLES = {"action": "item", "reward": "click", "propensity": "p"}
NOON = np.datetime64("2024-05-01T12:00:00")
BERLIN = dt.timezone(dt.timedelta(hours=2))


def frame_with(when, **more):
    n_samples = len(when)
    rest = {"x": np.arange(n_samples) % 7, "item": np.arange(n_samples) % 2, "click": np.arange(n_samples) % 3}
    return pd.DataFrame({**rest, "p": 0.5, **more, "when": when})


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01 12:00:00+00:00",
        "2024-05-01T14:00+02:00",
        "2024-05-01T14+02",
        "20240501T140000+0200",
        "2024-05-01T08:30:00,000-03:30",
        "2024-W18-3T12:00:00Z",
        "2024-122T12:00Z",
        "2024/5/1 12:00:00 UTC",
        "Wed, 01 May 2024 12:00:00 GMT",
        "Wed May  1 12:00:00 UTC 2024",
        "May 1, 2024 2:00 PM +0200",
        "1-May-2024 12:00Z",
        "2024-05-01T14:00:00+02:00[Europe/Berlin]",
    ],
)
def test_texts_of_one_instant_are_one_instant(text):
    assert check_time([text, "2024-05-01T13:00:00+01:00"]).astype("datetime64[s]").tolist() == [NOON.item()] * 2


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-05-31", "2024-05-31"),
        ("20240531", "2024-05-31"),
        ("2024-05", "2024-05-01"),
        ("2024", "2024-01-01"),
        ("2024-Q3", "2024-07-01"),
        ("2024-W01", "2024-01-01"),
        ("2024-366", "2024-12-31"),
        ("31 December 2024", "2024-12-31"),
        ("Sept 3rd, 2024", "2024-09-03"),
    ],
)
def test_texts_without_a_time_of_day_are_days(text, day):
    assert [str(one) for one in check_time([text, text])] == [day] * 2


@given(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), st.integers(-840, 840))
def test_what_python_writes_is_read_back(moment, minutes):
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    assert check_time([moment.isoformat()])[0] == np.datetime64(moment)
    instant = np.datetime64(moment) - np.timedelta64(minutes, "m")
    aware = moment.replace(tzinfo=zone)
    for written in (aware.isoformat(), aware.isoformat(" "), aware):
        assert check_time([written])[0] == instant
    basic = moment.strftime("%Y%m%dT%H%M%S")
    assert check_time([basic])[0] == np.datetime64(moment.replace(microsecond=0))


@given(st.text(max_size=20))
def test_any_other_text_is_refused_in_one_sentence(text):
    refused = None
    try:
        parse_moment(text)
    except ValueError as error:
        refused = str(error).split()[0]
    assert refused in (None, "which", "where", "whose", "digits")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("03/04/2024", "in which day, month and year cannot be distinguished"),
        ("31.12.2024 10:00", "in which day, month and year cannot be distinguished"),
        ("24-05-01", "in which day, month and year cannot be distinguished"),
        ("1714550000", "digits with an unknown unit"),
        ("202405", "digits with an unknown unit"),
        ("2024-02-30", "which is not a day of the calendar"),
        ("2023-366", "which is not a day of the calendar"),
        ("2024-05-01T25:00", "whose time of day does not exist"),
        ("2024-05-01T10:00+24:00", "whose zone does not exist"),
        ("2024-05-01 10:00 EST", "which is not a known date or time format"),
        ("Jan 5", "which is not a known date or time format"),
        ("yesterday", "which is not a known date or time format"),
    ],
)
def test_ambiguous_and_wrong_texts_are_refused_with_row_and_value(text, why):
    with pytest.raises(ValueError, match="row 1 holds") as caught:
        check_time(["2024-05-01", text, "2024-05-02"])
    assert text in str(caught.value)
    assert why in str(caught.value)
    assert "Write times as 2024-12-31" in str(caught.value)


def test_zones_in_some_rows_only_are_refused():
    with pytest.raises(ValueError, match=r"zone in some rows and none in others.*row 1 holds .*Z', row 0 '2024"):
        check_time(["2024-05-01T10:00", "2024-05-01T10:00Z"])
    with pytest.raises(ValueError, match="zone in some rows and none in others"):
        check_time([dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 1, tzinfo=BERLIN)])


SAME = {
    "numpy": lambda moments: moments,
    "list of datetimes": lambda moments: [one.item() for one in moments.astype("datetime64[us]")],
    "list of datetimes with a zone": lambda moments: [
        one.item().replace(tzinfo=dt.UTC).astimezone(BERLIN) for one in moments.astype("datetime64[us]")
    ],
    "pandas": lambda moments: pd.Series(moments),
    "pandas with a zone": lambda moments: pd.Series(moments).dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    "pandas objects": lambda moments: pd.Series([pd.Timestamp(one) for one in moments], dtype=object),
    "pandas text": lambda moments: pd.Series([str(one) for one in moments]),
    "pandas categories": lambda moments: pd.Series([str(one) for one in moments]).astype("category"),
    "polars with a zone": lambda moments: (
        pl.Series(moments.astype("datetime64[us]")).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
    "arrow with a zone": lambda moments: pa.chunked_array([pa.array(moments).cast(pa.timestamp("ns", "Asia/Tokyo"))]),
    "arrow text": lambda moments: pa.chunked_array([pa.array([f"{one}Z" for one in moments])]),
    "seconds": lambda moments: moments.astype(np.int64),
    "seconds as floats": lambda moments: moments.astype(np.int64) / 1.0,
    "milliseconds": lambda moments: pd.Series(moments.astype("datetime64[ms]").astype(np.int64)),
    "nanoseconds": lambda moments: pl.Series(moments.astype("datetime64[ns]").astype(np.int64)),
}


@pytest.mark.parametrize("convert", SAME.values(), ids=SAME.keys())
def test_every_kind_of_column_holds_the_same_instants(convert):
    moments = np.datetime64("2024-03-01T05:06:07") + 7919 * np.arange(50)
    found = check_time(convert(moments))
    assert found.dtype.kind == "M"
    np.testing.assert_array_equal(found.astype("datetime64[s]"), moments)


def test_days_of_any_kind_stay_days():
    days = np.array(["2024-05-01", "2024-06-02"], dtype="datetime64[D]")
    for column in (
        days,
        pa.chunked_array([pa.array(days)]),
        pl.Series(days),
        [dt.date(2024, 5, 1), dt.date(2024, 6, 2)],
    ):
        np.testing.assert_array_equal(check_time(column), days)
    assert instant_text(check_time(pl.Series(days))[0]) == "2024-05-01"


def test_nanoseconds_in_text_are_not_lost():
    found = check_time(["2024-05-01T10:00:00.123456788", "2024-05-01T10:00:00.123456789"])
    assert (found[1] - found[0]).astype(int) == 1


def test_numbers_that_count_something_else_stay_numbers():
    assert check_time([3, 1, 2]).tolist() == [3, 1, 2]
    assert check_time(np.array([0.5, 2e9])).tolist() == [0.5, 2e9]
    assert instant_text(check_time([3, 1])[0]) == "3"


@pytest.mark.parametrize(
    "column",
    [
        ["2024-05-01", None],
        [dt.datetime(2024, 5, 1), None],
        pd.Series([pd.Timestamp("2024-05-01"), pd.NaT]),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series(["2024-05-01", pd.NA], dtype="string"),
        pd.Series([1.5, pd.NA], dtype=object),
        np.array(["2024-05-01", "NaT"], dtype="datetime64[s]"),
        np.ma.array([1, 2], mask=[False, True]),
        pl.Series([None, None])[:2].extend_constant("x", 0),
    ],
    ids=lambda column: type(column).__name__,
)
def test_missing_times_are_refused(column):
    with pytest.raises(ValueError, match=r"time is missing in [12] of 2 samples, the first at row [01]"):
        check_time(column)


@pytest.mark.parametrize("column", [[True, False], pd.Series([True, False]), pl.Series([dt.time(10), dt.time(11)])])
def test_what_is_no_time_at_all_is_a_type_error(column):
    with pytest.raises(TypeError, match="time must hold dates, timestamps, numbers or text"):
        check_time(column)
    with pytest.raises(ValueError, match="time must be finite; row 1"):
        check_time([1.0, np.inf])


def test_autumn_is_after_summer_however_it_is_written():
    # Five characters of "2024-1…" and "2024-0…" told no more than the year: October to December used to come first.
    months = [f"2024-{month}-15" for month in range(1, 13)]
    log = bopl.BanditLog.from_frame(frame_with(months), time="when", **ROLES)
    _, test = log.split(0.25, by="time")
    assert [one.astype("datetime64[M]").astype(int) % 12 + 1 for one in test.time] == [10, 11, 12]


def test_zones_are_compared_by_instant_and_not_by_the_clock():
    when = ["2024-05-01T01:00:00+10:00", "2024-05-01T00:30:00+00:00", "2024-04-30T23:00:00-05:00"]
    log = bopl.BanditLog.from_frame(frame_with(when), time="when", **ROLES)
    assert np.argsort(log.time).tolist() == [0, 1, 2]


# -- Weekday and hour -------------------------------------------------------------------------------------------------

START = np.datetime64("2024-05-01T00:30:00")
WRITTEN = {
    "timestamps": lambda moments: moments,
    "text": lambda moments: [str(one) for one in moments],
    "zoned text": lambda moments: [f"{one + np.timedelta64(2, 'h')}+02:00" for one in moments],
    "seconds": lambda moments: moments.astype(np.int64),
}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN.keys())
def test_naming_the_time_leaves_weekday_and_hour_in_the_context(write):
    moments = START + 3600 * np.arange(100)
    log = bopl.BanditLog.from_frame(frame_with(write(moments)), time="when", **ROLES)
    assert log.feature_names == ("x", "when (weekday)", "when (hour)")
    np.testing.assert_array_equal(log.context[:, 2], np.arange(100) % 24 + 0.5)
    np.testing.assert_array_equal(log.context[:, 1], (2 + np.arange(100) // 24) % 7)  # a Wednesday
    written = json.loads(json.dumps(log.schema.to_json()))
    again = LogSchema.from_json(written)
    assert again == log.schema
    np.testing.assert_array_equal(again.encode(frame_with(write(moments[:3]))), log.context[:3])


def test_the_day_stays_out_of_the_context_of_a_log_that_is_split_by_it():
    frame = frame_with(START + 3600 * np.arange(100))
    assert "when (day)" in bopl.BanditLog.from_frame(frame, **ROLES).feature_names
    assert "when (day)" not in bopl.BanditLog.from_frame(frame, time="when", **ROLES).feature_names


def test_a_policy_serves_with_the_hour_of_the_decision(tmp_path):
    moments = START + 3600 * np.arange(600)
    is_late = np.arange(600) % 24 >= 12
    item = np.random.default_rng(0).integers(0, 2, 600)
    frame = pd.DataFrame({"x": 1.0, "when": moments, "item": item, "click": item == is_late, "p": 0.5})
    log = bopl.BanditLog.from_frame(frame, time="when", **ROLES)
    bopl.BoostedPolicy("ips", n_rounds=5, progress=False, random_state=0).fit(log).save(tmp_path / "policy.bopl")
    policy = bopl.load(tmp_path / "policy.bopl")
    later = pd.DataFrame({"x": 1.0, "when": ["2025-01-01T09:00", "2025-01-01T21:00"]})
    assert policy.predict(later).tolist() == [0, 1]
    with pytest.raises(ValueError, match="column 'when' must hold times; row 0 holds 'noon'"):
        policy.predict(later.assign(when="noon"))
    with pytest.raises(ValueError, match=r"the contexts lack 1 of the 2 columns.*'when'"):
        policy.predict(later.drop(columns="when"))


def test_parts_of_the_time_that_never_change_are_left_out():
    days = pd.date_range("2024-05-01", periods=30)
    assert bopl.BanditLog.from_frame(frame_with(days), time="when", **ROLES).feature_names == ("x", "when (weekday)")
    hours = START + 60 * np.arange(30)
    assert bopl.BanditLog.from_frame(frame_with(hours), time="when", **ROLES).feature_names == ("x", "when (hour)")
    counted = frame_with(np.arange(30))
    assert bopl.BanditLog.from_frame(counted, time="when", **ROLES).feature_names == ("x",)


def test_context_and_ignore_decide_about_the_time_too():
    frame = frame_with(START + 3600 * np.arange(100))
    named = {"time": "when", **ROLES}
    assert bopl.BanditLog.from_frame(frame, ignore=["when"], **named).feature_names == ("x",)
    assert bopl.BanditLog.from_frame(frame, context=["x"], **named).feature_names == ("x",)
    both = bopl.BanditLog.from_frame(frame, context=["when", "x"], **named)
    assert both.feature_names == ("when (weekday)", "when (hour)", "x")
    with pytest.raises(ValueError, match="context contains 'when', which is the time by which the log is split"):
        bopl.BanditLog.from_frame(frame_with(np.arange(100)), context=["when", "x"], **named)
    with pytest.raises(ValueError, match="categorical names 'when', which is not a context column"):
        bopl.BanditLog.from_frame(frame, categorical=["when"], **named)
