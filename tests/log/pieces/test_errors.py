"""What is wrong with a log in pieces is told with the file and the row."""

import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl import BanditLog, BoostedPolicy, HistTree, load
from bopl._errors import UsageError
from pieces_logs import ROLES, a_frame, assert_same, write


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("p", 1.5, r"part003.parquet', row group 1 from row 8 on: propensity must lie in \(0, 1\].*at row 11 with 1.5"),
        ("click", np.nan, r"part003.parquet', row group 1 from row 8 on: reward must be finite.*at row 11 with nan"),
        ("item", None, r"part003.parquet', row group 1 from row 8 on: action is missing.*at row 11"),
        (
            "age",
            np.inf,
            r"part003.parquet', row group 1 from row 8 on: context must be finite.*at row 11, column 'age'",
        ),
    ],
)
def test_an_error_names_the_file_and_the_row(tmp_path, column, value, said):
    frame = a_frame()
    frame["click"] = frame["click"].astype(float)
    frame.loc[20 + 1 + 11, column] = value
    log = BanditLog.scan_parquet(write(tmp_path, frame), **ROLES)
    with pytest.raises(ValueError, match=said):
        log.to_log()


def test_a_row_is_named_by_its_place_in_the_file_also_if_others_are_left_out(tmp_path):
    frame = a_frame()
    rows = np.flatnonzero(frame["country"] == "DE")
    bad = int(rows[rows > 21][-1])
    frame.loc[bad, "p"] = 2.0
    log = BanditLog.scan_parquet(write(tmp_path, frame), **ROLES, where="country == 'DE'")
    with pytest.raises(ValueError, match=f"at row {bad - 21} with 2"):
        log.to_log()
    frame["user"] = None
    with pytest.raises(ValueError, match=r"part000.parquet', row group 0 from row 0 on: group is missing"):
        BanditLog.scan_parquet(write(tmp_path / "group", frame), **ROLES, group="user")


def test_data_that_looks_like_a_row_number_stays_as_it_is(tmp_path):
    frame = a_frame()
    frame["item"] = "row 7"
    log = BanditLog.scan_parquet(write(tmp_path, frame), **ROLES, actions=["a", "b"])
    with pytest.raises(ValueError, match="the first at row 0 with 'row 7'"):
        log.to_log()


def test_invalid_rows_are_left_out_and_counted_as_in_memory(tmp_path):
    frame = a_frame(400)
    frame["click"] = frame["click"].astype(float)
    frame.loc[frame["item"] == "a", "click"] = np.nan
    frame.loc[[3, 33, 45], "p"] = [0.0, 1.5, -1.0]
    frame.loc[[8, 50], "age"] = np.inf
    frame.loc[24:28, "item"] = None
    path = write(tmp_path, frame, (20, 0, 1, 379))
    whole = BanditLog.read(path, **ROLES, drop_invalid=True)
    log = BanditLog.scan_parquet(path, **ROLES, drop_invalid=True)
    assert_same(log.to_log(), whole)
    assert log.origin.uneven == whole.origin.uneven is not None
    assert {one.reason: one for one in log.origin.dropped} == {one.reason: one for one in whole.origin.dropped}
    assert log.origin.n_rows == whole.origin.n_rows


def test_no_row_that_is_left_is_refused(tmp_path):
    path = write(tmp_path, a_frame())
    with pytest.raises(ValueError, match="0 of 60 rows satisfy age > 99"):
        BanditLog.scan_parquet(path, **ROLES, where="age > 99")
    with pytest.raises(ValueError, match=r"the log is empty: there is no row in .*part000.parquet"):
        BanditLog.scan_parquet(write(tmp_path / "none", a_frame(0), (0, 0)), **ROLES)


def test_categories_that_only_the_last_file_has_are_known_in_the_first(tmp_path):
    frame = a_frame()
    frame.loc[59, "city"] = "Aachen"
    frame.loc[59, "item"] = "z"
    log = BanditLog.scan_parquet(write(tmp_path, frame), **ROLES)
    city = next(column for column in log.schema.columns if column.name == "city")
    assert city.categories == ("Aachen", "Bonn", "Rom", "Ulm")
    assert log.actions.tolist() == ["a", "b", "c", "z"]
    assert_same(log.load(log.pieces[0]), BanditLog.from_frame(frame, **ROLES).subset(slice(0, 8)))


def test_rare_categories_are_merged_and_identifiers_found_as_in_memory(tmp_path):
    frame = a_frame(2500)
    frame["city"] = [f"city {row * row % 611}" for row in range(2500)]
    frame["number"] = np.arange(2500) // 2 * 3
    path = write(tmp_path, frame, (1000, 1, 1499), 400)
    log = BanditLog.scan_parquet(path, **ROLES)
    assert log.schema == BanditLog.read(path, **ROLES).schema


def test_numbers_of_several_widths_and_gaps_are_one_column(tmp_path):
    parts = [
        pa.table({"x": pa.array([1, 2], pa.int8()), "y": pa.nulls(2), "a": ["u", "v"], "r": [0, 1], "p": [0.5, 0.5]}),
        pa.table({"x": [300, None], "y": ["q", None], "a": ["u", "v"], "r": [0.5, 1.0], "p": [0.5, 0.5]}),
    ]
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p"}
    log = BanditLog.scan_parquet(str(tmp_path / "*.parquet"), **roles)
    assert_same(log.to_log(), BanditLog.read(str(tmp_path / "*.parquet"), **roles))


KINDS = [
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", "Europe/Rome"),
    pa.decimal128(12, 2),
    pa.int64(),
    pa.bool_(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_categories_of_any_kind_are_those_of_the_log_in_memory(tmp_path, kind):
    whole = pa.array([0, 1, 1, 0, None, 1], pa.int32()).cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    table = pa.table({"x": whole.cast(kind), "y": range(6), "a": [*"uvuvuv"], "r": [0, 1] * 3, "p": [0.5] * 6})
    for number, some in enumerate([table.slice(0, 4), table.slice(4)]):
        pq.write_table(some, tmp_path / f"{number}.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p", "categorical": ["x"]}
    log = BanditLog.scan_parquet(str(tmp_path / "*.parquet"), **roles)
    assert_same(log.to_log(), BanditLog.read(str(tmp_path / "*.parquet"), **roles))
    policy = BoostedPolicy("ips", HistTree(n_jobs=1), n_rounds=1, random_state=0, progress=False).fit(log)
    policy.save(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(load(tmp_path / "policy.bopl").predict_proba(table), policy.predict_proba(table))


@pytest.mark.parametrize(
    "use", [{}, {"categorical": ["t"]}, {"time": "t"}, {"where": "t > '2024-05-02 01:00:00'"}], ids=str
)
def test_times_are_the_same_instants_whatever_zones_their_files_have(tmp_path, use):
    for number, zone in enumerate(["Asia/Tokyo", "America/New_York"]):
        days = pa.array(pd.date_range(f"2024-05-0{1 + 2 * number}", periods=4, freq="17h", tz=zone))
        made = {"x": range(4), "a": [*"uvuv"], "r": [0, 1, 1, 0], "p": [0.5] * 4}
        pq.write_table(pa.table({"t": days, **made}), tmp_path / f"{number}.parquet", row_group_size=3)
    asked = {"action": "a", "reward": "r", "propensity": "p"} | use
    log = BanditLog.scan_parquet(str(tmp_path / "*.parquet"), **asked)
    assert_same(log.to_log(), BanditLog.read(str(tmp_path / "*.parquet"), **asked))


@pytest.mark.parametrize("role", ["action", "group", "context"])
def test_text_and_bytes_are_no_common_type_as_in_memory(tmp_path, role):
    for number, values in enumerate([["u", "v", None, "u"], [b"u", b"v", b"u", b"v"]]):
        made = {"x": range(4), "a": [*"uvuv"], "r": [0, 1, 1, 0], "p": [0.5] * 4}
        pq.write_table(pa.table(made | {role[0]: values}), tmp_path / f"{number}.parquet")
    asked = {"action": "a", "reward": "r", "propensity": "p"} | ({"group": "g"} if role == "group" else {})
    with pytest.raises(ValueError, match="the 2 files do not match"):
        BanditLog.read(tmp_path, **asked)
    with pytest.raises(ValueError, match=r"holds string in '.*0\.parquet' and binary in '.*1\.parquet'"):
        BanditLog.scan_parquet(tmp_path, **asked)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_text_is_text_in_whatever_form_a_file_has_it(tmp_path, kind):
    for number, form in enumerate([pa.string(), kind]):
        made = {"t": pa.array([*"xyzx"]).cast(form), "a": pa.array([*"uvuv"]).cast(form)}
        pq.write_table(pa.table(made | {"r": [0, 1, 1, 0], "p": [0.5] * 4}), tmp_path / f"{number}.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p"}
    assert_same(BanditLog.scan_parquet(tmp_path, **roles).to_log(), BanditLog.read(tmp_path, **roles))


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.int64()], ids=str)
def test_actions_that_are_all_missing_are_told(tmp_path, kind):
    pq.write_table(pa.table({"x": range(4), "a": pa.nulls(4, kind), "r": [0, 1, 1, 0]}), tmp_path / "0.parquet")
    with pytest.raises(ValueError, match=r"action is missing in all 4 samples, the first at row 0 of '.*0\.parquet'"):
        BanditLog.scan_parquet(tmp_path, action="a", reward="r", has_propensity=False)


def test_columns_of_maps_are_refused_as_in_memory(tmp_path):
    maps = pa.array([[("k", 1.0)]] * 4, pa.map_(pa.string(), pa.float64()))
    table = pa.table({"x": maps, "a": [*"uvuv"], "r": [0, 1, 1, 0], "p": [0.5] * 4})
    pq.write_table(table, tmp_path / "0.parquet")
    for read in (BanditLog.read, BanditLog.scan_parquet):
        with pytest.raises(ValueError, match=r"context columns must hold numbers.*1 of 1 do not: 'x'"):
            read(tmp_path / "0.parquet", action="a", reward="r", propensity="p")


def test_large_integers_are_the_same_numbers_whether_values_are_missing_in_all_parts_or_not(tmp_path):
    between = 2**60 + 2**36 + 1  # of two floats of 32 bits: by way of 64 bits it becomes the lower one
    made = {"a": ["u", "v"], "r": [0, 1], "p": [0.5, 0.5]}
    pq.write_table(pa.table({"x": [between, 2**53 + 1], "y": pa.nulls(2), **made}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": [None, 7], "y": [2**62, 1], **made}), tmp_path / "1.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p"}
    log = BanditLog.scan_parquet(str(tmp_path / "*.parquet"), **roles)
    assert_same(log.to_log(), BanditLog.read(str(tmp_path / "*.parquet"), **roles))
    assert log.to_log().context[:, 0].tolist()[:2] == [2.0**60, 2.0**53]


def test_numbers_that_do_not_suit_the_type_of_another_file_are_named(tmp_path):
    made = {"a": ["u", "v"], "r": [0, 1], "p": [0.5, 0.5]}
    for name, values in (("0", [2**60 + 1, 2]), ("1", [0.5, 1.5])):
        pq.write_table(pa.table({"x": values, **made}), tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"'x' holds double in another file.*0.parquet'.*1152921504606846977"):
        BanditLog.scan_parquet(str(tmp_path / "*.parquet"), action="a", reward="r", propensity="p")


@pytest.mark.parametrize("role", ["action", "group", "categorical"])
def test_lists_as_labels_are_refused_with_the_column_or_the_role(tmp_path, role):
    table = pa.table({"x": [[1.0, 2.0]] * 4, "y": range(4), "a": [*"uvuv"], "r": [0, 1] * 2, "p": [0.5] * 4})
    pq.write_table(table, tmp_path / "log.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p"} | {role: ["x"] if role == "categorical" else "x"}
    for read in (BanditLog.read, BanditLog.scan_parquet):
        with pytest.raises(TypeError, match=r"column 'x' holds list|labels.* hashable; row 0 holds .*1\.0?, 2\."):
            read(tmp_path / "log.parquet", **roles)


@pytest.mark.parametrize(("reward", "said"), [(-1e101, "must not exceed"), (1e-9, "too small to learn from")])
@pytest.mark.parametrize("where", [None, "country == 'DE'"])
def test_a_reward_that_nothing_can_be_learned_from_is_named(tmp_path, reward, said, where):
    frame = a_frame()
    frame["click"] = np.where(np.arange(len(frame)) % 2, reward / 2.0, 0.0)
    bad = int(np.flatnonzero(frame["country"] == "DE")[-1])
    frame.loc[bad, "click"] = reward
    log = BanditLog.scan_parquet(write(tmp_path, frame), **ROLES, where=where)
    with pytest.raises(
        ValueError, match=rf"{said}.*row {bad - 21} of '.*part003.parquet'.*" + re.escape(f"{reward:g}")
    ):
        BoostedPolicy("ips", progress=False).fit(log)


def test_files_of_other_columns_are_refused_in_one_sentence(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "a": ["u"], "r": [0], "p": [0.5]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"x": ["text"], "a": ["u"], "r": [0], "p": [0.5]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"a": ["v"], "r": [0], "p": [0.5]}), tmp_path / "three.parquet")
    roles = {"action": "a", "reward": "r", "propensity": "p"}
    paths = [tmp_path / name for name in ("one.parquet", "two.parquet", "three.parquet")]
    with pytest.raises(ValueError, match=r"column 'x' holds double in '.*one.parquet' and string in '.*two.parquet'"):
        BanditLog.scan_parquet(paths[:2], **roles)
    with pytest.raises(ValueError, match=r"one.parquet' has a column 'x' but '.*three.parquet' does not"):
        BanditLog.scan_parquet([paths[0], paths[2]], **roles)
    with pytest.raises(UsageError, match="no column 'nope'"):
        BanditLog.scan_parquet(paths[:1], **{**roles, "action": "nope"})


def test_a_file_that_changes_or_vanishes_is_told(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    file = tmp_path / "part003.parquet"
    state = file.stat()
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(ValueError, match=r"part003.parquet' has changed since the log was scanned"):
        log.to_log()
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"part003.parquet' existed when the log was scanned but is gone"):
        log.to_log()


def test_copies_are_not_looked_for_and_that_is_told(tmp_path):
    path = write(tmp_path, a_frame())
    with pytest.raises(UsageError, match="there is no file to scan"):
        BanditLog.scan_parquet([], **ROLES)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        BanditLog.scan_parquet(str(tmp_path / "none.parquet"), **ROLES)
    with pytest.raises(UsageError, match="which column is the action"):
        BanditLog.scan_parquet(path)


def test_files_written_from_a_log_say_what_they_are(tmp_path):
    rng = np.random.default_rng(0)
    mask = rng.random((30, 3)) < 0.7
    action = rng.integers(0, 3, 30)
    mask[np.arange(30), action] = True
    whole = BanditLog(
        rng.normal(size=(30, 2)),
        action,
        rng.random(30),
        np.full(30, 0.4),
        actions=[0, 1, 2],
        action_mask=mask,
        action_features=rng.normal(size=(3, 2)),
        time=np.arange(30) + 1_700_000_000,
        group=rng.integers(0, 5, 30),
    )
    for number, rows in enumerate((slice(0, 10), slice(10, 11), slice(11, 30))):
        whole.subset(rows).to_parquet(tmp_path / f"{number}.parquet")
    read = BanditLog.read(str(tmp_path / "*.parquet"))
    log = BanditLog.scan_parquet(str(tmp_path / "*.parquet"))
    assert_same(log.to_log(), read)
    assert log.has_action_mask
    assert log.n_features == 2
    np.testing.assert_array_equal(log.action_features, read.action_features)


def test_sparse_contexts_stay_sparse(tmp_path):
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    context = random_array((30, 6), density=0.3, rng=rng, format="csr", dtype=np.float32)
    whole = BanditLog(context, rng.integers(0, 3, 30), rng.random(30), np.full(30, 0.4), feature_names=list("abcdef"))
    for number, rows in enumerate((slice(0, 12), slice(12, 30))):
        whole.subset(rows).to_parquet(tmp_path / f"{number}.parquet")
    path = str(tmp_path / "*.parquet")
    log = BanditLog.scan_parquet(path)
    assert_same(log.to_log(), BanditLog.read(path))
    few = {"where": "a > 0.0"}
    assert_same(BanditLog.scan_parquet(path, **few).to_log(), BanditLog.read(path, **few))


def test_folders_are_columns(tmp_path):
    frame = a_frame(20)
    for day, part in (("2024-05-01", frame[:7]), ("2024-05-02", frame[7:])):
        write(tmp_path / f"day={day}", part, (len(part),))
    log = BanditLog.scan_parquet(tmp_path, **ROLES, group="day")
    assert_same(log.to_log(), BanditLog.read(tmp_path, **ROLES, group="day"))
    assert log.group_labels.tolist() == ["2024-05-01", "2024-05-02"]


@pytest.mark.parametrize(
    "times",
    [
        [f"2024-05-{day:02}" for day in range(1, 13)],
        ["2024-05-01"] * 6 + [f"2024-05-{day:02}T10:00:00.5" for day in range(7, 13)],
        [1_700_000_000 + 3600 * hour for hour in range(12)],
        [float(1_700_000_000 + 3600 * hour) for hour in range(12)],
        [90_000_000 * count for count in range(12)],  # the later ones look like seconds since 1970, all of them do not
        list(pd.date_range("2024-05-01", periods=12, freq="7h", tz="Europe/Rome")),
        [pd.Timestamp("2024-05-01")] * 12,
    ],
    ids=["dates", "dates and times", "seconds", "floats", "counts", "zones", "one"],
)
def test_times_are_read_as_in_the_whole_log(tmp_path, times):
    frame = a_frame(12).drop(columns=["when"]).assign(when=times)
    path = write(tmp_path, frame, (5, 7), 3)
    log = BanditLog.scan_parquet(path, **ROLES, time="when")
    whole = BanditLog.read(path, **ROLES, time="when")
    assert log.to_log().time.dtype == whole.time.dtype
    assert_same(log.to_log(), whole)


def test_zones_in_some_files_only_are_refused(tmp_path):
    frame = a_frame(12)
    frame["when"] = ["2024-05-01T10:00:00"] * 6 + ["2024-05-01T10:00:00+02:00"] * 6
    with pytest.raises(ValueError, match="time has a zone in some rows and none in others"):
        BanditLog.scan_parquet(write(tmp_path, frame, (6, 6)), **ROLES, time="when")


@pytest.mark.parametrize(
    "use",
    [
        lambda log: bopl.baseline.UniformPolicy().fit(log),
        lambda log: bopl.BoostedRewardModel().fit(log),
        lambda log: bopl.estimate_propensity(log),
        lambda log: bopl.ValueAccumulator({"a": np.ones(60)}).add(log),
        lambda log: BoostedPolicy("ips", progress=False).fit(log.to_log(), validation=log),
        lambda log: log.context,
    ],
)
def test_what_needs_the_log_in_memory_says_so(tmp_path, use):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    with pytest.raises((TypeError, ValueError, AttributeError), match=r"in memory.*to_log\(\)"):
        use(log)
    assert not hasattr(log, "nothing")
    assert not hasattr(log, "context")
