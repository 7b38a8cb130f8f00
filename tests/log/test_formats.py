"""Every format gives the log that its file says."""

import datetime
import gzip
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import bopl
from bopl._errors import UsageError
from bopl.log.format import read_parts, read_table, write_table
from bopl.log.read import read_log
from bopl.log.request import LogRequest
from product import SMALL, click_table, run_bopl, run_json

ROLES = {"action": "item", "reward": "click", "propensity": "p"}


def write_json_lines(table, path):
    write_table({name: table[name] for name in table.column_names}, path)


WRITERS = {
    "parquet": pq.write_table,
    "csv": pyarrow.csv.write_csv,
    "arrow": lambda table, path: pyarrow.feather.write_feather(table, str(path)),
    "feather": lambda table, path: pyarrow.feather.write_feather(table, str(path), compression="uncompressed"),
    "jsonl": write_json_lines,
}


@pytest.fixture(scope="module")
def expected():
    return bopl.BanditLog.from_frame(click_table(200), **ROLES)


@pytest.mark.parametrize("extension", WRITERS)
def test_tables_in_files_give_the_log_of_the_table(tmp_path, extension, expected):
    WRITERS[extension](click_table(200), tmp_path / f"log.{extension}")
    log = bopl.BanditLog.read(tmp_path / f"log.{extension}", **ROLES)
    assert log.fingerprint() == expected.fingerprint()
    assert log.schema == expected.schema


@pytest.mark.parametrize("extension", WRITERS)
def test_a_folder_and_a_pattern_are_one_log(tmp_path, extension, expected):
    for part in range(4):
        WRITERS[extension](click_table(200).slice(50 * part, 50), tmp_path / f"part-{part}.{extension}")
    (tmp_path / "_SUCCESS").touch()
    assert bopl.BanditLog.read(tmp_path, **ROLES).fingerprint() == expected.fingerprint()
    assert bopl.BanditLog.read(f"{tmp_path}/part-*.{extension}", **ROLES).fingerprint() == expected.fingerprint()


def test_folders_that_a_pattern_matches_are_read_with_their_files_and_are_not_mixed_with_files(tmp_path, expected):
    for part in range(4):
        folder = tmp_path / f"part-{part}.parquet"  # as Spark and Dask write them
        folder.mkdir()
        WRITERS["parquet"](click_table(200).slice(50 * part, 50), folder / "0.parquet")
    (tmp_path / "_temporary.parquet" / "0").mkdir(parents=True)
    pattern = f"{tmp_path}/*.parquet"
    for read in (bopl.BanditLog.read, lambda path, **roles: bopl.BanditLog.scan_parquet(path, **roles).to_log()):
        assert read(pattern, **ROLES).fingerprint() == expected.fingerprint()
        assert read(f"{tmp_path}/**", **ROLES).fingerprint() == expected.fingerprint()
    shutil.copy(tmp_path / "part-0.parquet" / "0.parquet", tmp_path / "whole.parquet")
    with pytest.raises(UsageError, match=r"\*\.parquet' matches files and also folders, such as '.*part-0\.parquet'"):
        bopl.BanditLog.read(pattern, **ROLES)
    assert bopl.BanditLog.read(f"{tmp_path}/**/*.parquet", **ROLES).n_samples == 250


def test_an_address_of_another_machine_is_told_from_a_file_that_is_missing():
    for path in ("s3://days/1.parquet", "https://days/*.parquet"):
        with pytest.raises(UsageError, match="is an address, and only files of this machine are read"):
            bopl.BanditLog.scan_parquet(path, **ROLES)


def test_packed_text_files_are_read(tmp_path, expected):
    for extension in ("csv", "jsonl"):
        WRITERS[extension](click_table(200), tmp_path / f"log.{extension}")
        packed = tmp_path / f"log.{extension}.gz"
        packed.write_bytes(gzip.compress((tmp_path / f"log.{extension}").read_bytes()))
        assert bopl.BanditLog.read(packed, **ROLES).fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize(("separator", "decimal"), [(";", "."), (";", ","), ("\t", "."), ("|", ","), (",", ".")])
def test_csv_files_with_other_separators_are_read(tmp_path, expected, separator, decimal, packed):
    file = tmp_path / ("log.csv.gz" if packed else "log.csv")
    click_table(200).to_pandas().to_csv(file, index=False, sep=separator, decimal=decimal)
    assert bopl.BanditLog.read(file, **ROLES).fingerprint() == expected.fingerprint()


def test_only_the_separators_of_the_header_count(tmp_path):
    (tmp_path / "log.csv").write_text('"a;b;c",note\n1,x;y;z\n2.5,"u;v"\n')
    assert read_table(tmp_path / "log.csv").to_pydict() == {"a;b;c": [1.0, 2.5], "note": ["x;y;z", "u;v"]}


def test_commas_in_lists_are_no_decimal_marks_where_there_are_points(tmp_path):
    (tmp_path / "log.csv").write_text("size;x\n3,5;0.5\n4,6;1.5\n")
    assert read_table(tmp_path / "log.csv").to_pydict() == {"size": ["3,5", "4,6"], "x": [0.5, 1.5]}


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "bars in names": ("a|x|1,a|x|2,a|y,p\n1,2,3,0.5\n", {"a|x|1": [1], "a|x|2": [2], "a|y": [3], "p": [0.5]}),
        "commas in names": ("price, EUR;size, cm;p\n1;2;0.5\n", {"price, EUR": [1], "size, cm": [2], "p": [0.5]}),
        "quoted decimals": ('"a";"p"\n"x";"0,5"\n"y";"1"\n', {"a": ["x", "y"], "p": [0.5, 1.0]}),
        "dates with points": ("day;p\n01.05.2024;0,5\n", {"day": ["01.05.2024"], "p": [0.5]}),
        "lists beside decimals": ("a;p\n3,5,7;0,5\n", {"a": ["3,5,7"], "p": [0.5]}),
        "a header alone": ("a;p\n", {"a": [], "p": []}),
        "gaps": ("a;p\n;0,5\n2;\n", {"a": [None, 2], "p": [0.5, None]}),
        "lines in quotes": ('a;p\n"x\n;;y";0,5\n', {"a": ["x\n;;y"], "p": [0.5]}),
    }.values(),
)
def test_separators_are_told_by_all_of_a_files_beginning(tmp_path, text, expected):
    (tmp_path / "log.csv").write_text(text)
    assert read_table(tmp_path / "log.csv").to_pydict() == expected


def test_the_line_in_which_the_beginning_of_a_file_ends_tells_nothing(tmp_path, monkeypatch):
    (tmp_path / "log.csv").write_text("day;p\n" + "01.05.2024;0,5\n" * 4)
    for size in range(22, 60):
        monkeypatch.setattr("bopl.log.format.columnar._HEAD_BYTES", size)
        assert read_table(tmp_path / "log.csv")["p"].to_pylist() == [0.5] * 4


def test_folders_named_after_a_column_are_that_column(tmp_path):
    for city in ("Rom", "Ulm"):
        (tmp_path / f"city={city}").mkdir()
        pq.write_table(click_table(50).drop_columns(["city"]), tmp_path / f"city={city}" / "part.parquet")
    log = bopl.BanditLog.read(tmp_path, context=["city", "age"], **ROLES)
    assert log.schema.columns[0].categories == ("Rom", "Ulm")
    assert log.context[:, 0].tolist() == [0.0] * 50 + [1.0] * 50


def test_columns_that_pandas_leaves_behind_are_no_context(tmp_path):
    frame = click_table(50).to_pandas()
    frame.index = np.arange(50) + 7
    frame.to_csv(tmp_path / "log.csv")
    frame.sample(frac=1.0, random_state=0).to_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        names = bopl.BanditLog.read(tmp_path / name, **ROLES).schema
        assert [column.name for column in names.columns] == ["city", "age", "is_member", "when", "user"]


def test_numbers_that_become_fractions_late_in_a_csv_file_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.log.format.columnar._BLOCK_BYTES", 1000)
    rows = [f"{i}" for i in range(2000)] + ["0.5"]
    (tmp_path / "log.csv").write_text("x\n" + "\n".join(rows) + "\n")
    assert read_table(tmp_path / "log.csv")["x"].to_pylist()[-1] == 0.5


def test_nested_json_becomes_columns(tmp_path):
    lines = [
        {"user": {"age": age, "home": {"city": "Rom"}}, "item": age % 2, "click": 1, "p": 0.5} for age in range(20)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert bopl.BanditLog.read(tmp_path / "log.jsonl", **ROLES).feature_names == ("user.age", "user.home.city")


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T10:00:00.000", None, "2024-05-01T10:00:00.250"],
        ["2024-05-01T10:00:00.000Z", None, "2024-05-01T10:00:00.250Z"],
        ["2024-05-01 12:00:00+02:00", None, "2024-05-01 12:00:00.25+02:00"],
        ["2024-05-01T10:00:00", None, "2024-05-01T10:00:00"],
    ],
)
def test_times_in_json_lines_are_times(tmp_path, times):
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"t": time, "x": "2 o'clock"}) for time in times))
    table = read_table(tmp_path / "log.jsonl")
    first, gap, last = table["t"].cast(pa.timestamp("ms")).to_pylist()
    assert (first, gap) == (datetime.datetime(2024, 5, 1, 10), None)
    assert last - first in (datetime.timedelta(0), datetime.timedelta(milliseconds=250))
    assert table["x"].to_pylist() == ["2 o'clock"] * 3


@pytest.mark.parametrize(
    "other", ["", "later", "9999-12-31T00:00:00.5Z", "2024-05-01T11:00:00Z", "2024-05-01T11:00:00"]
)
def test_files_whose_times_are_written_in_several_ways_fit_together(tmp_path, other):
    (tmp_path / "1.jsonl").write_text('{"t": "2024-05-01T10:00:00.5Z"}\n')
    (tmp_path / "2.jsonl").write_text(json.dumps({"t": other}) + "\n")
    times = read_table(tmp_path)["t"].to_pylist()
    if other.startswith(("2", "9")):
        assert times[0] == datetime.datetime(2024, 5, 1, 10, 0, 0, 500_000)
        assert times[1] == datetime.datetime.fromisoformat(other).replace(tzinfo=None)
    else:
        assert times[1] == other
        assert times[0].startswith("2024-05-01 10:00:00.5")


def test_text_that_begins_like_a_time_stays_text(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"t": "2024-05-01 10:00 at the earliest"}\n{"t": "later"}\n')
    assert read_table(tmp_path / "log.jsonl")["t"].to_pylist() == ["2024-05-01 10:00 at the earliest", "later"]


def test_a_policy_reads_text_as_text_in_files_that_do_not_tell(tmp_path, capsys):
    table = click_table(600)
    zips = np.array(["01", "02", "10"])[np.arange(600) % 3]
    items = np.array(["1", "2", "3"])[np.unique(table["item"].to_numpy(zero_copy_only=False), return_inverse=True)[1]]
    table = table.select(["age", "click", "p"]).append_column("zip", [zips]).append_column("item", [items])
    names = {extension: str(tmp_path / f"log.{extension}") for extension in ("parquet", "csv", "jsonl")}
    for extension, name in names.items():
        WRITERS[extension](table, name)
    policy = bopl.BoostedPolicy(n_rounds=3, random_state=0).fit(bopl.BanditLog.read(names["parquet"], **ROLES))
    policy.save(tmp_path / "policy.bopl")
    results = []
    for extension, name in names.items():
        code, decided = run_json(
            capsys, "predict", name, tmp_path / "policy.bopl", "--out", tmp_path / f"{extension}.csv"
        )
        assert (code, decided["warnings"]) == (0, [])
        _, judged = run_json(capsys, "evaluate", name, tmp_path / "policy.bopl", "--estimators", "snips")
        results.append((decided["shares"], judged["rows"]))
    assert results[0] == results[1] == results[2]


def test_numbers_and_flags_that_a_program_writes_its_own_way_are_known(tmp_path):
    frame = click_table(300).to_pandas()[["item", "click", "p"]]
    frame = frame.assign(
        level=np.array(["1", "2", "3"])[np.arange(300) % 3], flag=np.array(["true", "false"])[np.arange(300) % 2]
    )
    schema = bopl.BanditLog.from_frame(frame, **ROLES).schema
    written = frame.assign(level=frame["level"].astype(float), flag=frame["flag"] == "true")
    written.loc[0, "level"] = np.nan
    written.to_csv(tmp_path / "log.csv", index=False)
    table = read_parts(tmp_path / "log.csv", text=schema.text_columns).table
    assert table["level"].to_pylist()[:3] == [None, "2.0", "3.0"]
    np.testing.assert_array_equal(schema.encode(table)[1:], schema.encode(frame)[1:])


def test_files_that_do_not_fit_together_say_so(tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["one"]}), tmp_path / "b.parquet")
    told = r"the 2 files do not match: column 'x' holds double in '.*a\.parquet' and string in '.*b\.parquet'\. Exclude"
    with pytest.raises(ValueError, match=told):
        bopl.BanditLog.read(tmp_path)
    (tmp_path / "c.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match=r"several formats .csv, parquet."):
        bopl.BanditLog.read(tmp_path)


BROKEN = {
    "packed.csv.gz": (gzip.compress(b"a,b\n1,2\n" * 9)[:-12], "cannot be read as CSV"),
    "unpacked.csv.gz": (b"a,b\n1,2\n", "cannot be read as CSV"),
    "unpacked.vw.gz": (b"1:0:0.5 | a\n", "cannot be read as text"),
    "cut.vw.gz": (gzip.compress(b"1:0:0.5 | a\n" * 9)[:-12], "cannot be read as text"),
    "binary.vw": (b"\xca\xfe\xba\xbe", "cannot be read as text"),
    "binary.dsjson": (b"\xca\xfe\xba\xbe", "cannot be read as text"),
    "wide.csv": ("city,p\nRom,1\n".encode("utf-16"), "is in UTF-16; save it in UTF-8"),
    "parquet.csv": (b"PAR1\x15\x04\x15\x80", "is not CSV but Parquet, by its first bytes"),
    "sheet.csv": (b"PK\x03\x04\x14\x00", "is not CSV but a ZIP archive"),
    "latin.csv": ("city,p\nM\xfcnchen,1\n".encode("latin-1"), "is not in UTF-8, see column 'city'"),
    "preamble.csv": (b"# all of May\na,b\n1,2\n", "cannot .* has 1 fields, and a row has 2: a,b. .*above the header"),
    "array.json": (b'[{"a": 1}, {"a": 2}]', "is one JSON array; write one object per line"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_not_what_they_say_are_named(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}' {message}"):
        bopl.BanditLog.read(tmp_path / name)


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_column_names_that_come_twice_are_named(tmp_path, extension):
    WRITERS[extension](pa.table([[1], [2]], names=["a", "a"]), tmp_path / f"log.{extension}")
    with pytest.raises(ValueError, match="the file has duplicated column names: 'a'"):
        bopl.BanditLog.read(tmp_path / f"log.{extension}")


# -- Vowpal Wabbit ---------------------------------------------------------------------------------------------------

CB = """1:2:0.4 |user age:30 Rom |:2.0 hour:4
3:-0.5:0.2 'tag|user age:20 Ulm
1:0:1.0 |user:10 age:2
"""


def test_vowpal_wabbit_cb_lines(tmp_path):
    (tmp_path / "log.vw").write_text(CB)
    log = bopl.BanditLog.read(tmp_path / "log.vw")
    assert log.feature_names == ("hour", "user^Rom", "user^Ulm", "user^age")
    assert log.context.toarray().tolist() == [[8, 1, 0, 30], [0, 0, 1, 20], [0, 0, 0, 20]]
    assert log.action.tolist() == [1, 3, 1]
    assert log.reward.tolist() == [-2.0, 0.5, 0.0]
    assert log.propensity.tolist() == [0.4, 0.2, 1.0]


def test_features_of_vowpal_wabbits_text_are_chosen_and_left_out_by_name(tmp_path):
    (tmp_path / "log.vw").write_text(CB)
    whole = bopl.BanditLog.read(tmp_path / "log.vw")
    for choice in ({"context": ["user^age", "hour"]}, {"ignore": ["user^Rom", "user^Ulm"]}):
        log = bopl.BanditLog.read(tmp_path / "log.vw", **choice)
        places = [whole.feature_names.index(name) for name in log.feature_names]
        assert set(log.feature_names) == {"hour", "user^age"}
        assert log.context.toarray().tolist() == whole.context.toarray()[:, places].tolist()
        assert log.schema.feature_names == log.feature_names
    for choice in ({"context": ["user^agee"]}, {"ignore": ["user^agee"]}):
        with pytest.raises(UsageError, match=r"there is no column 'user\^agee'.* Did you mean 'user\^age'\?"):
            bopl.BanditLog.read(tmp_path / "log.vw", **choice)
    with pytest.raises(UsageError, match="all features in Vowpal Wabbit's text are numbers"):
        bopl.BanditLog.read(tmp_path / "log.vw", categorical=["user^age"])


def test_groups_and_times_that_vowpal_wabbits_text_does_not_have_are_refused(tmp_path):
    (tmp_path / "log.vw").write_text(CB)
    for role in ("group", "time"):
        with pytest.raises(ValueError, match=f"there is no column 'user' .given as {role}.; the columns are '_action'"):
            bopl.BanditLog.read(tmp_path / "log.vw", **{role: "user"})


def test_contexts_in_vowpal_wabbits_text_need_no_labels(tmp_path):
    (tmp_path / "contexts.vw").write_text("|user age:30\n|user age:20 Ulm\n")
    parts = read_parts(tmp_path / "contexts.vw")
    assert parts.sparse.matrix.toarray().tolist() == [[0, 30], [1, 20]]
    (tmp_path / "contexts.vw").write_text("|user x\n|item tea\n\n|user x\n|item milk\n")
    assert len(read_parts(tmp_path / "contexts.vw").table) == 2


ADF = """shared |user age:30
0:1.0:0.5 |item tea hot
|item milk cold

shared |user age:20 Ulm
|item tea hot
|item milk cold
1:-1.0:0.25 |item water cold

|item tea hot
0:0.0:0.75 |item milk cold
"""


def test_vowpal_wabbit_adf_blocks(tmp_path):
    (tmp_path / "log.vw").write_text(ADF)
    log = bopl.BanditLog.read(tmp_path / "log.vw")
    assert log.actions.tolist() == ["item^hot item^tea", "item^cold item^milk", "item^cold item^water"]
    assert log.action_idx.tolist() == [0, 2, 1]
    assert log.reward.tolist() == [-1.0, 1.0, 0.0]
    assert log.action_mask.tolist() == [[True, True, False], [True, True, True], [True, True, False]]
    assert log.action_features.tolist() == [[0.0], [1.0], [1.0]]  # cold: what actions share
    assert log.context.toarray().tolist() == [[0, 30], [1, 20], [0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:2:0.4 a b\n", r"line 1 of log\.vw has no '\|'"),
        ("1:x:0.4 | a\n", "line 1 of log.vw has a label that is not action:cost:probability"),
        ("1:2:0.4 | a:b\n", "line 1 of log.vw has a feature whose value is not a number: 'a:b'"),
        ("1:2:0.4 2:1:0.6 | a\n", "line 1 of log.vw has the costs of 2 actions"),
        ("tea:2:0.4 | a\n", "an action that is not an integer: 'tea'"),
        ("shared | a\n0:1:0.5 | x\n| x\n", "line 2 of log.vw offers two actions with the same features"),
        ("shared | a\n", "line 1 of log.vw shares a context, but no action follows"),
        ("\n\n", "holds no example"),
    ],
)
def test_bad_vowpal_wabbit_text_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "log.vw").write_text(text)
    with pytest.raises(ValueError, match=message):
        bopl.BanditLog.read(tmp_path / "log.vw")


def test_actions_described_by_what_changes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.log.format.action_table.MAX_ACTIONS", 10)
    blocks = [f"shared | a\n0:1:0.5 | price:{i}\n| price:{i + 0.5}\n" for i in range(20)]
    (tmp_path / "log.vw").write_text("\n".join(blocks))
    with pytest.raises(ValueError, match="more than 10 different sets of features"):
        bopl.BanditLog.read(tmp_path / "log.vw")


def decision(age, city, taken, cost, *, topics=("sports", "politics"), **more):
    return {
        "_label_cost": cost,
        "_label_probability": 0.5,
        "_label_Action": taken + 1,
        "_labelIndex": taken,
        "Timestamp": f"2024-01-01T00:00:{age:02d}.000Z",
        "a": [1, 2],
        "c": {"User": {"age": age, "city": city, "_secret": 1}, "_multi": [{"Action": {"topic": t}} for t in topics]},
        **more,
    }


def write_dsjson(path, entries):
    path.write_text("\n".join(map(json.dumps, entries)))
    return path


def test_dsjson_decisions(tmp_path):
    entries = [
        decision(30, "Rom", 0, -1.0),
        {"RewardValue": 1.0, "EventId": "dangling"},
        decision(20, None, 1, 0.0, _skipLearn=True),
        decision(20, None, 1, 0.0),
        decision(25, "Ulm", 1, -0.5, topics=("politics", "music")),
    ]
    for name in ("log.dsjson", "log.json"):  # told by the extension, or by the first line
        log = bopl.BanditLog.read(write_dsjson(tmp_path / name, entries))
        assert log.feature_names == ("User.age", "User.city")
        assert log.actions.tolist() == ["sports", "politics", "music"]
        assert log.action.tolist() == ["sports", "politics", "music"]
        assert log.reward.tolist() == [1.0, 0.0, 0.5]
        assert log.action_mask.tolist() == [[True, True, False], [True, True, False], [False, True, True]]
        assert log.time is not None
        assert log.schema.columns[1].categories == ("Rom", "Ulm")


def test_columns_of_dsjson_are_left_out_by_name(tmp_path):
    file = write_dsjson(tmp_path / "log.dsjson", [decision(30, "Rom", 0, -1.0), decision(20, None, 1, 0.0)])
    assert bopl.BanditLog.read(file, ignore=["User.city"]).feature_names == ("User.age",)
    assert bopl.BanditLog.read(file, ignore=["Timestamp"]).time is None
    with pytest.raises(UsageError, match=r"no column 'User.cty' to ignore. Did you mean 'User.city'"):
        bopl.BanditLog.read(file, ignore=["User.cty"])


def test_dsjson_names_of_actions_are_their_tags_and_shared_features_are_kept(tmp_path):
    offered = [
        {"_tag": "tea", "i": {"price": 2.0}, "j": [{"kind": "hot"}]},
        {"_tag": "cola", "i": {"price": 3.0}, "j": [{"kind": "cold"}]},
        {"_tag": "water", "i": {"price": 1.0}, "j": [{"kind": "cold"}]},
    ]
    entry = {"_label_cost": 0.0, "_label_probability": 0.4, "_labelIndex": 2, "c": {"x": 1, "_multi": offered}}
    log = bopl.BanditLog.read(write_dsjson(tmp_path / "log.dsjson", [entry, entry]))
    assert log.actions.tolist() == ["tea", "cola", "water"]
    assert log.action_mask is None
    assert log.action_features.tolist() == [[2.0, 0.0], [3.0, 1.0], [1.0, 1.0]]
    dearer = json.loads(json.dumps(entry).replace("3.0", "4.0"))  # a price that changes describes no action
    log = bopl.BanditLog.read(write_dsjson(tmp_path / "log.dsjson", [entry, dearer]))
    assert log.action_features.tolist() == [[0.0], [1.0], [1.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"c": {"_multi": [', "line 1 of log.dsjson is not valid JSON"),
        ("[1, 2]", "line 1 of log.dsjson is not a JSON object"),
        (
            json.dumps(decision(1, "Rom", 5, 0.0)),
            "line 1 of log.dsjson says that action 6 was taken, but offers only 2",
        ),
        ('{"x": 1}', "holds no decision in dsjson"),
    ],
)
def test_bad_dsjson_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "log.dsjson").write_text(text)
    with pytest.raises(ValueError, match=message):
        bopl.BanditLog.read(tmp_path / "log.dsjson")


# -- Open Bandit -------------------------------------------------------------------------------------------------------


def write_open_bandit(folder, n_samples=300, seed=0):
    """Write a campaign in the dataset's layout: hashed user features, affinities, positions, and the items beside."""
    rng = np.random.default_rng(seed)
    header = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0"
    lines = [
        f"{row},2019-11-24 00:{row // 60:02d}:{row % 60:02d}.504000+00:00,{rng.integers(0, 4)},{1 + row % 3},"
        f"{rng.integers(0, 2)},0.25,{'ab'[row % 2] * 32},{'cd'[row % 2] * 32},{rng.random():.1f}"
        for row in range(n_samples)
    ]
    (folder / "all.csv").write_text("\n".join([header, *lines]) + "\n")
    items = [f"{item},{item},{-0.5 + item},{'xy'[item % 2] * 32},{item * '7'}k" for item in range(5)]
    (folder / "item_context.csv").write_text(
        "\n".join([",item_id,item_feature_0,item_feature_1,item_feature_2", *items]) + "\n"
    )
    return folder


def test_the_open_bandit_datasets_layout(tmp_path):
    folder = write_open_bandit(tmp_path)
    for path in (folder / "all.csv", folder):
        log = bopl.BanditLog.read(path)
        assert log.feature_names == ("position", "user_feature_0", "user_feature_1", "user-item_affinity_0")
        assert log.schema.categorical == ("position", "user_feature_0", "user_feature_1")
        assert log.actions.tolist() == [0, 1, 2, 3]
        assert log.time is not None
        assert bopl.BanditLog.read(path, ignore=["timestamp"]).time is None
        assert log.action_features.tolist() == [[-0.5, 1, 0], [0.5, 0, 1], [1.5, 1, 0], [2.5, 0, 1]]


def test_open_bandit_pipelines_dictionary():
    rng = np.random.default_rng(0)
    feedback = {
        "n_rounds": 50,
        "n_actions": 3,
        "context": rng.normal(size=(50, 2)),
        "action_context": rng.normal(size=(3, 4)),
        "action": rng.integers(0, 2, 50),
        "position": np.arange(50) % 3,
        "reward": rng.integers(0, 2, 50),
        "pscore": np.full(50, 0.5),
    }
    log = bopl.BanditLog.from_obp(feedback)
    assert (log.n_samples, log.n_actions, log.feature_names) == (50, 3, ("x0", "x1", "position"))
    np.testing.assert_allclose(log.action_features, feedback["action_context"], rtol=1e-6)
    plain = bopl.BanditLog.from_obp({**feedback, "action_context": np.eye(3), "position": None, "pscore": None})
    assert (plain.n_features, plain.action_features, plain.has_propensity) == (2, None, False)
    with pytest.raises(ValueError, match="the feedback has no 'reward'"):
        bopl.BanditLog.from_obp({**feedback, "reward": None})


# -- The command on them -----------------------------------------------------------------------------------------------


def adf_lines(n_samples, seed):
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(n_samples):
        x = rng.normal()
        offered = [name for name in ("tea", "milk", "water") if name == "tea" or rng.random() < 0.8]
        taken = rng.integers(len(offered))
        cost = -float((offered[taken] == "tea") == (x > 0))
        lines = [f"shared |user x:{x:.3f} {'young' if rng.random() < 0.5 else 'old'}"]
        for place, name in enumerate(offered):
            lines.append(f"{f'0:{cost}:{1 / len(offered)} ' if place == taken else ''}|item {name}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def test_the_command_learns_from_vowpal_wabbits_files_and_decides_on_them(tmp_path, capsys):
    (tmp_path / "log.vw").write_text(adf_lines(2500, 0))
    (tmp_path / "later.vw").write_text(adf_lines(800, 1))
    policy = tmp_path / "policy.bopl"
    assert run_bopl("train", tmp_path / "log.vw", *SMALL, "--out", policy) == 0
    code, result = run_json(capsys, "evaluate", tmp_path / "later.vw", policy, "--estimators", "snips")
    assert (code, result["verdicts"]) == (0, {"policy": "better"})
    assert run_bopl("predict", tmp_path / "later.vw", policy, "--sample", "--out", tmp_path / "d.csv") == 0
    decided = read_table(tmp_path / "d.csv")["action"].to_pylist()
    parts = read_parts(tmp_path / "later.vw")
    offered = parts.mask_for(parts.actions)
    assert all(offered[row, parts.actions.index(action)] for row, action in enumerate(decided))


def test_columns_that_a_later_dsjson_file_never_names_are_missing(tmp_path):
    first = read_log(LogRequest(write_dsjson(tmp_path / "a.dsjson", [decision(30, "Rom", 0, -1.0)] * 3)))
    later = write_dsjson(tmp_path / "b.dsjson", [decision(30, None, 1, 0.0)] * 2)
    log = read_log(LogRequest(later), known_actions=first.actions.tolist(), schema=first.schema)
    assert np.isnan(log.context[:, 1]).all()


# -- Labels that look like numbers ----------------------------------------------------------------------------------

BIG = 12345678901234567890  # beyond int64, and so near the next one that a float cannot tell them apart


def id_file(folder, extension, ids, role):
    """Write a log whose actions or groups are these texts, as they are, and return its path."""
    items = ids if role == "action" else ["a", "b"] * (len(ids) // 2)
    groups = ids if role == "group" else [1, 2] * (len(ids) // 2)
    file = folder / f"log.{extension}"
    rows = [f"{x},{item},{group},{x % 2},0.5" for x, (item, group) in enumerate(zip(items, groups, strict=True))]
    if extension == "jsonl":
        quoted = '"' if role == "group" else ""
        keys = f'"x": {{}}, "action": {quoted}{{}}{quoted}, "user": {{}}, "reward": {{}}, "propensity": {{}}'
        file.write_text("".join("{" + keys.format(*row.split(",")) + "}\n" for row in rows))
    else:
        text = "\n".join(["x,action,user,reward,propensity", *rows])
        file.write_text(text.replace(",", "\t" if extension == "tsv" else ","))
    return file


def read_labels(path, role):
    log = bopl.BanditLog.read(path, group="user")
    return log.actions.tolist() if role == "action" else log.group_labels.tolist()


@pytest.mark.parametrize("role", ["action", "group"])
@pytest.mark.parametrize("extension", ["csv", "tsv"])
def test_leading_zeros_are_part_of_a_label(tmp_path, extension, role):
    path = id_file(tmp_path, extension, ["01", "1", "007", "7"], role)
    assert read_labels(path, role) == ["007", "01", "1", "7"]


@pytest.mark.parametrize("role", ["action", "group"])
@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl"])
def test_whole_numbers_beyond_64_bits_keep_their_digits(tmp_path, extension, role):
    path = id_file(tmp_path, extension, [BIG, BIG + 1, 3, 5], role)
    assert read_labels(path, role) == [str(BIG), str(BIG + 1), "3", "5"]
    packed = tmp_path / f"packed.{extension}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_labels(packed, role) == [str(BIG), str(BIG + 1), "3", "5"]


@pytest.mark.parametrize("role", ["action", "group"])
@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl"])
def test_labels_that_are_numbers_stay_numbers(tmp_path, extension, role):
    ids = [0, 2**63 - 1, -5, 1234567890123456789]
    assert read_labels(id_file(tmp_path, extension, ids, role), role) == sorted(ids)


def test_versions_and_hexadecimal_labels_are_not_merged(tmp_path):
    assert read_labels(id_file(tmp_path, "csv", ["1.1", "1.10", "2.0", "1.1"], "action"), "action") == [
        "1.1",
        "1.10",
        "2.0",
    ]
    assert read_labels(id_file(tmp_path, "csv", ["0x1", "0x01", "2", "2"], "action"), "action") == ["0x01", "0x1", "2"]


def test_segments_keep_their_zeros(tmp_path):
    (tmp_path / "log.csv").write_text("zip,x,action,reward,propensity\n01,0,a,1,0.5\n1,1,b,0,0.5\n")
    assert bopl.BanditLog.read(tmp_path / "log.csv", segment="zip").segment.tolist() == ["01", "1"]


def test_a_file_with_a_header_alone_is_an_empty_log(tmp_path):
    (tmp_path / "log.csv").write_text("x,action,reward,propensity\n")
    with pytest.raises(ValueError, match="the log is empty"):
        bopl.BanditLog.read(tmp_path / "log.csv")


def test_a_file_that_is_named_twice_is_refused_and_so_are_none(tmp_path):
    path = id_file(tmp_path, "csv", ["a", "b", "a", "b"], "action")
    with pytest.raises(UsageError, match=r"log\.csv' more than once; name each file once"):
        bopl.BanditLog.read([path, tmp_path / "*.csv"])
    with pytest.raises(UsageError, match="path is an empty list"):
        bopl.BanditLog.read([])


def test_labels_are_text_in_all_files_where_they_are_in_one(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    id_file(tmp_path / "1", "csv", ["10", "11", "10", "11"], "action")
    id_file(tmp_path / "2", "csv", ["01", "10", "01", "10"], "action")
    assert bopl.BanditLog.read(tmp_path).actions.tolist() == ["01", "10", "11"]


def test_categories_keep_their_zeros(tmp_path):
    (tmp_path / "log.csv").write_text("zip,action,reward,propensity\n01,a,1,0.5\n1,b,0,0.5\n")
    log = bopl.BanditLog.read(tmp_path / "log.csv", categorical=["zip"])
    assert log.schema.columns[0].categories == ("01", "1")


def test_numbers_with_a_decimal_point_are_no_ids(tmp_path):
    path = id_file(tmp_path, "csv", ["0.5", "10.25", "0.5", "0"], "action")
    assert read_labels(path, "action") == [0.0, 0.5, 10.25]


def test_large_labels_given_in_python_keep_their_digits():
    labels = [2**63, 1, 2**63 + 1, -1]
    log = bopl.BanditLog(np.zeros((4, 1)), labels, [0, 1, 0, 1], [0.5] * 4)
    assert log.actions.tolist() == sorted(labels)
    assert log.action.tolist() == labels


@pytest.mark.parametrize("extension", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_column_that_some_files_lack_is_named_and_can_be_ignored(tmp_path, extension, lacking):
    rng = np.random.default_rng(0)
    for number in range(3):
        columns = {"x": rng.random(4), "y": rng.random(4), "action": ["a", "b"] * 2, "reward": [0.5] * 4}
        if number == lacking:
            del columns["y"]
        write_table({**columns, "propensity": [0.5] * 4}, tmp_path / f"{number}.{extension}")
    readers = {"in memory": bopl.BanditLog.read}
    if extension == "parquet":
        readers["in pieces"] = lambda path, **settings: bopl.BanditLog.scan_parquet(path, **settings).to_log()
    for read in readers.values():
        with pytest.raises(ValueError, match=rf"has a column 'y' but '.*{lacking}\.{extension}' does not"):
            read(str(tmp_path / f"*.{extension}"))
        with pytest.raises(ValueError, match=rf"has a column 'y' but '.*{lacking}\.{extension}' does not"):
            read(str(tmp_path / f"*.{extension}"), context=["x", "y"])
        assert read(str(tmp_path / f"*.{extension}"), ignore=["y"]).feature_names == ("x",)
        assert read(str(tmp_path / f"*.{extension}"), context=["x"]).feature_names == ("x",)
        with pytest.raises(UsageError, match="there is no column 'z' to ignore"):
            read(str(tmp_path / f"*.{extension}"), ignore=["z"])


@pytest.mark.parametrize("labels", [["1e5", "100000", "7"], ["+1", "1", "2"], ["1e-1", "0.1", "2"]])
def test_labels_written_in_two_ways_are_two_labels(tmp_path, labels):
    lines = [f"{row},{labels[row % 3]},{row % 2},0.5" for row in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(["x,item,click,p", *lines]))
    assert sorted(bopl.BanditLog.read(tmp_path / "log.csv", **ROLES).actions) == sorted(labels)


def test_zeros_after_a_point_and_spaces_make_no_other_label(tmp_path):
    lines = [f"{row},{['1', '1.0', ' 2', '2'][row % 4]},{row % 2},0.5" for row in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(["x,item,click,p", *lines]))
    assert bopl.BanditLog.read(tmp_path / "log.csv", **ROLES).actions.tolist() == [1, 2]


def test_paths_that_are_no_files_are_told_apart(tmp_path):
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, message in (
        ("", "path is empty"),
        (tmp_path / "loop.csv", "is a link to a file that is not there"),
        (tmp_path / "gone.csv", "is a link to a file that is not there"),
        (tmp_path / "pipe.csv", "is a device or a pipe"),
        ("a" * 5000 + ".csv", r"there is no file '.*…: file name too long\."),
    ):
        with pytest.raises((UsageError, FileNotFoundError), match=message):
            bopl.BanditLog.read(path, **ROLES)
