"""Columns of kinds that few libraries know, and lines of JSON that are no objects: used, or refused in one sentence."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl.log.format.columnar import check_objects

ROLES = {"action": "action", "reward": "reward", "propensity": "propensity"}
N = 24


def table(**changes):
    columns = {
        "x": pa.array(np.arange(N, dtype=float)),
        "action": pa.array(["a", "b"] * (N // 2)),
        "reward": pa.array([0.0, 1.0] * (N // 2)),
        "propensity": pa.array([0.5] * N),
    }
    return pa.table({**columns, **changes})


def line(**changes):
    return json.dumps({"x": 1.5, "action": "a", "reward": 1, "propensity": 0.5, **changes})


# -- JSON lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number", "start"),
    [
        ("null", 1, "null"),
        (" null\n" + line(), 1, "null"),
        (line() + "\n\n \tnull\n" + line(), 3, "null"),
        (line() + "\n[1, 2]", 2, r"\[1, 2\]"),
        (line() + "\n5", 2, "5"),
        (line() + "\n" + '"text"', 2, '"text"'),
    ],
)
def test_a_line_that_is_no_object_is_named_and_does_not_end_the_process(tmp_path, text, number, start):
    file = tmp_path / "log.jsonl"
    file.write_text(text, encoding="utf8")
    with pytest.raises(ValueError, match=f"line {number} of .* is not a JSON object, it begins with .{start}"):
        bopl.BanditLog.read(file)


def test_a_line_that_is_no_object_is_found_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.log.format.columnar._BLOCK_BYTES", 7)
    file = tmp_path / "log.jsonl"
    for n_blank in range(20):
        text = line() + "\n" + line() + "\n" + " " * n_blank
        file.write_text(text + "null\n", encoding="utf8")
        with pytest.raises(ValueError, match="line 3 of"):
            check_objects(file)
        file.write_text(text + line(), encoding="utf8")
        check_objects(file)


def test_a_byte_order_mark_before_json_lines_is_named(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(line(), encoding="utf-8-sig")
    with pytest.raises(ValueError, match="save it without a byte-order mark"):
        bopl.BanditLog.read(file)


def test_json_lines_in_another_encoding_are_refused_in_one_sentence(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_bytes((line(action="ä") + "\n" + line(action="b")).replace("\\u00e4", "ä").encode("latin-1"))
    with pytest.raises(ValueError, match="cannot be read as JSON lines"):
        bopl.BanditLog.read(file)


# -- dsjson and Vowpal Wabbit -----------------------------------------------------------------------------------------


def decision(**changes):
    entry = {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_labelIndex": 0,
        "Timestamp": "2024-05-01T00:00:00Z",
        "c": {"x": 1.0, "_multi": [{"id": "a"}, {"id": "b"}]},
    }
    return json.dumps({**entry, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"_label_cost": {"a": 1}}, "line 1 of .* has a _label_cost that is not a number"),
        ({"_label_probability": "often"}, "has a _label_probability that is not a number: 'often'"),
        ({"_labelIndex": [0]}, "has a _labelIndex that is not a number"),
        ({"_labelIndex": 0.5}, "says that action 1.5 was taken, but offers only 2"),
        ({"Timestamp": 5}, "has a Timestamp that is not a time"),
        ({"c": {"_multi": [1, 2]}}, "must list the actions it offers under '_multi'"),
        ({"c": {"_multi": {"a": 1}}}, "must list the actions it offers under '_multi'"),
    ],
)
def test_a_decision_of_dsjson_with_something_else_in_it_is_named(tmp_path, changes, said):
    file = tmp_path / "log.dsjson"
    file.write_text(decision(**changes) + "\n" + decision(_labelIndex=1), encoding="utf8")
    with pytest.raises(ValueError, match=said):
        bopl.BanditLog.read(file)


def test_json_that_is_nested_too_deeply_is_refused_in_one_sentence(tmp_path):
    file = tmp_path / "log.dsjson"
    file.write_text(decision() + "\n" + "[" * 100_000, encoding="utf8")
    with pytest.raises(ValueError, match=r"line 2 of .* nested too deeply"):
        bopl.BanditLog.read(file)


def test_a_huge_number_of_dsjson_is_infinite_and_refused_as_such(tmp_path):
    file = tmp_path / "log.dsjson"
    huge = decision(c={"x": 10**400, "_multi": [{"id": "a"}, {"id": "b"}]})
    file.write_text(huge + "\n" + decision(_labelIndex=1), encoding="utf8")
    with pytest.raises(ValueError, match="context must be finite"):
        bopl.BanditLog.read(file)


def test_an_action_of_vowpal_wabbit_beyond_64_bits_is_named(tmp_path):
    file = tmp_path / "log.vw"
    file.write_text("1:0:0.5 | x\n99999999999999999999:0:0.5 | x\n", encoding="utf8")
    with pytest.raises(ValueError, match=r"line 2 of log\.vw has an action beyond 64 bits"):
        bopl.BanditLog.read(file)


# -- Kinds of arrow ---------------------------------------------------------------------------------------------------


def _runs():
    return pa.RunEndEncodedArray.from_arrays(pa.array([N // 2, N], pa.int32()), pa.array(["u", "v"]))


@pytest.mark.parametrize("kind", ["view", "runs"])
def test_text_in_views_and_runs_is_text(tmp_path, kind):
    city = pa.array(["u"] * (N // 2) + ["v"] * (N // 2))
    odd = city.cast(pa.string_view()) if kind == "view" else _runs()
    usual = bopl.BanditLog.from_frame(table(city=city), **ROLES)
    with pa.ipc.new_file(tmp_path / "odd.arrow", table(city=odd).schema) as file:
        file.write_table(table(city=odd))
    for log in (
        bopl.BanditLog.from_frame(table(city=odd), **ROLES),
        bopl.BanditLog.read(tmp_path / "odd.arrow", where="city in ('u', 'v')", drop_duplicates=True),
    ):
        assert log.fingerprint() == usual.fingerprint()


def test_times_of_a_zone_that_nobody_knows_are_compared_in_utc(tmp_path):
    times = pa.array(np.arange(N) * 3_600_000, pa.timestamp("ms", "Nowhere/Town"))
    pq.write_table(table(at=times), tmp_path / "log.parquet")
    log = bopl.BanditLog.read(tmp_path / "log.parquet", time="at", drop_duplicates=True)
    assert str(log.time[1].astype("datetime64[s]")) == "1970-01-01T01:00:00"


@pytest.mark.parametrize(
    "times",
    [
        pa.array([2**62] * N, pa.timestamp("us")),
        pa.array([2**31 - 1] * N, pa.date32()),
        pa.array([2**62 // 86_400_000 * 86_400_000] * N, pa.date64()),
        pa.array([-(2**62)] * N, pa.duration("s")),
    ],
    ids=lambda times: str(times.type),
)
def test_times_that_no_calendar_holds_are_refused_with_their_column(tmp_path, times):
    pq.write_table(table(at=times), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=r"column 'at' holds .* outside the years 1 to 9999"):
        bopl.BanditLog.read(tmp_path / "log.parquet")
    assert bopl.BanditLog.read(tmp_path / "log.parquet", ignore=["at"]).n_features == 1


def test_times_of_polars_that_no_calendar_holds_are_refused():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(table(at=pa.array([2**62] * N, pa.timestamp("us"))))
    with pytest.raises(ValueError, match="column 'at' holds times outside the years"):
        bopl.BanditLog.from_frame(frame, **ROLES)


def test_lists_are_no_categories(tmp_path):
    pairs = pa.array([[1.0, 2.0]] * N, pa.list_(pa.float32(), 2))
    with pytest.raises(TypeError, match=r"column 'pair' holds .*, whose values cannot be used as labels"):
        bopl.BanditLog.from_frame(table(pair=pairs), **ROLES, categorical=["pair"])


def test_dates_and_decimals_as_categories_can_be_written_and_read_again(tmp_path):
    days = pd.to_datetime(["2024-05-01", "2024-05-02"] * (N // 2)).date
    log = bopl.BanditLog.from_frame(
        table(day=pa.array(days), price=pa.array([1, 2] * (N // 2)).cast(pa.decimal128(21, 2))),
        **ROLES,
        categorical=["day", "price"],
    )
    log.to_parquet(tmp_path / "log.parquet")
    again = bopl.BanditLog.read(tmp_path / "log.parquet")
    assert again.fingerprint() == log.fingerprint()
    assert log.schema.columns[1].categories == ("2024-05-01", "2024-05-02")


def test_ids_of_several_kinds_in_one_arrow_column_tell_duplicates_apart(tmp_path):
    ids = pa.UnionArray.from_dense(
        pa.array([0, 1] * (N // 2), pa.int8()),
        pa.array(np.arange(N) // 2, pa.int32()),
        [pa.array(np.arange(N // 2) // 2), pa.array([str(one) for one in range(N // 2)])],
    )
    odd = table(decision=ids)
    with pa.ipc.new_file(tmp_path / "odd.arrow", odd.schema) as file:
        file.write_table(odd)
    log = bopl.BanditLog.read(tmp_path / "odd.arrow", **ROLES, ignore=["decision"], drop_duplicates="decision")
    assert log.n_samples == N // 4 + N // 2  # every number is there twice, every text once
