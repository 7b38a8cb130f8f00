"""A log that is written and read again is the same log; several logs are one."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bopl
from bopl._errors import UsageError
from bopl.log.column import Column
from bopl.log.frame_of import decode_column
from bopl.log.written import KEY
from product import click_table, run_json

ROLES = {"action": "item", "reward": "click", "propensity": "p"}
ARRAYS = ("reward", "propensity", "action", "actions", "time", "action_mask", "action_features")


def assert_same(log, other):
    """Compare all that a log holds; groups by their labels."""
    assert other.fingerprint() == log.fingerprint()
    assert (other.feature_names, other.schema) == (log.feature_names, log.schema)
    assert other.propensity_source == log.propensity_source
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(other, name), getattr(log, name), err_msg=name)
    assert (log.group is None) == (other.group is None)
    if log.group is not None:
        assert other.group_labels[other.group].tolist() == log.group_labels[log.group].tolist()


def written_and_read(log, folder):
    log.to_parquet(folder / "log.parquet")
    return bopl.BanditLog.read(folder / "log.parquet")


def odd_table(n_samples=400):
    """Return a log with a column of every kind, gaps in all of them."""
    rng = np.random.default_rng(0)
    many = [f"c{code}" for code in range(300)] + rng.choice(["other", "c1", "c2"], n_samples - 300).tolist()
    gap = rng.random(n_samples) < 0.1
    table = click_table(n_samples)
    return (
        table.append_column("many", pa.array(many, mask=gap))
        .append_column("size", pa.array(rng.integers(0, 4, n_samples), mask=gap))
        .append_column(
            "seen", pa.array(np.datetime64("1969-12-30T23:59:59.123") + rng.integers(0, 10**9, n_samples), mask=gap)
        )
        .append_column("is_new", pa.array(rng.random(n_samples) < 0.5, mask=gap))
        .append_column("vector", pa.array([None if empty else [1.5, float(row)] for row, empty in enumerate(gap)]))
    )


def random_log(n_samples=60, n_actions=4, seed=0, **settings):
    rng = np.random.default_rng(seed)
    action = rng.integers(0, n_actions, n_samples)
    mask = rng.random((n_samples, n_actions)) < 0.6
    mask[np.arange(n_samples), action] = True
    mask[:5] = True
    parts = {
        "actions": range(n_actions),
        "action_mask": mask,
        "action_features": rng.normal(size=(n_actions, 3)),
        "group": rng.integers(0, 9, n_samples),
        "time": np.arange(n_samples),
    } | settings
    context = np.where(rng.random((n_samples, 3)) < 0.1, np.nan, rng.normal(size=(n_samples, 3)))
    return bopl.BanditLog(context, action, rng.normal(size=n_samples), rng.uniform(0.1, 1, n_samples), **parts)


def test_columns_of_every_kind_come_back(tmp_path):
    log = bopl.BanditLog.from_frame(odd_table(), **ROLES, time="when", group="user", categorical=["size"])
    assert log.schema.columns[0].categories == ("Bonn", "Rom", "Ulm")
    assert_same(log, written_and_read(log, tmp_path))
    assert_same(log.subset(slice(20)), written_and_read(log.subset(slice(20)), tmp_path))
    table = pq.read_table(tmp_path / "log.parquet")
    assert set(table["city"].to_pylist()) <= {"Bonn", "Rom", "Ulm"}
    assert {"when", "user", "item", "click", "p"} <= set(table.column_names)


def test_masks_action_features_and_numbers_without_names_come_back(tmp_path):
    log = random_log()
    assert_same(log, written_and_read(log, tmp_path))
    assert written_and_read(log, tmp_path).feature_names is None
    lists = pq.read_table(tmp_path / "log.parquet")["eligible_actions"].to_pylist()
    assert lists[0] is None
    assert lists[10] == np.flatnonzero(log.action_mask[10]).tolist()


@pytest.mark.parametrize("names", [None, ("a", "action", "reward")])
@pytest.mark.parametrize("has_mask", [True, False])
def test_sparse_contexts_come_back(tmp_path, names, has_mask):
    log = random_log(feature_names=names, **({} if has_mask else {"action_mask": None}))
    context = csr_array(np.where(np.asarray(log.context) > 0.3, log.context, 0.0))
    sparse = bopl.BanditLog(
        context, log.action, log.reward, log.propensity, feature_names=names, action_mask=log.action_mask
    )
    assert_same(sparse, written_and_read(sparse, tmp_path))
    assert_same(sparse.subset([1, 1, 3]), written_and_read(sparse.subset([1, 1, 3]), tmp_path))


def test_logs_of_vowpal_wabbit_come_back(tmp_path):
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a b:2\n2:0:0.25 | b c:0.5\n1:0:0.5 |\n")
    log = bopl.BanditLog.read(tmp_path / "log.vw")
    assert_same(log, written_and_read(log, tmp_path))


@pytest.mark.parametrize("source", ["logged", "estimated", "balanced", "mismatched", "uniform"])
def test_where_propensities_come_from_is_kept(tmp_path, source):
    log = random_log()
    log = log.with_propensity(log.propensity, source=source)
    assert_same(log, written_and_read(log, tmp_path))


def test_a_log_without_propensities_comes_back_without(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(50).drop_columns("p"), action="item", reward="click", propensity=None)
    assert_same(log, written_and_read(log, tmp_path))


def test_several_loggers_come_back(tmp_path):
    log = random_log(100)
    both = np.column_stack([log.propensity, log.propensity / 2])
    mixed = log.balanced(np.arange(100) % 2, both)
    assert_same(mixed, written_and_read(mixed, tmp_path))


LABELS = st.one_of(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=2, max_size=5, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5, unique=True),
    st.just([False, True]),
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), labels=LABELS, seed=st.integers(0, 1000), n_samples=st.integers(1, 12))
def test_any_log_comes_back(tmp_path_factory, data, labels, seed, n_samples):
    rng = np.random.default_rng(seed)
    action = rng.integers(0, len(labels), n_samples)
    mask = rng.random((n_samples, len(labels))) < 0.5
    mask[np.arange(n_samples), action] = True
    names = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=3), min_size=2, max_size=2, unique=True)
    context = data.draw(st.sampled_from([rng.normal(size=(n_samples, 2)), csr_array(np.eye(n_samples, 2))]))
    log = bopl.BanditLog(
        context,
        [labels[place] for place in action],
        rng.normal(size=n_samples),
        rng.uniform(0.1, 1.0, n_samples),
        actions=labels,
        feature_names=data.draw(st.none() | names | st.just(["action", "time"])),
        action_mask=mask if data.draw(st.booleans()) else None,
        action_features=rng.normal(size=(len(labels), 2)) if data.draw(st.booleans()) else None,
        group=[labels[place] for place in action] if data.draw(st.booleans()) else None,
        time=np.datetime64("2024-01-01", "us") + np.arange(n_samples) if data.draw(st.booleans()) else None,
    )
    assert_same(log, written_and_read(log, tmp_path_factory.mktemp("log")))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.integers(-(10**13), 10**13), min_size=1, max_size=9))
def test_the_parts_of_a_time_come_back(moments):
    import narwhals.stable.v1 as nw

    column = Column("when", "time")
    values = pa.chunked_array([pa.array(moments, pa.timestamp("ms"))])
    code = column.encode(nw.from_native(values, series_only=True)).reshape(-1, 3).astype(np.float32)
    again = nw.from_native(pa.chunked_array([decode_column(column, code)]), series_only=True)
    np.testing.assert_array_equal(column.encode(again).reshape(-1, 3).astype(np.float32), code)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_has_the_columns_of_the_file_and_makes_the_log_again(backend):
    pytest.importorskip(backend)
    log = bopl.BanditLog.from_frame(odd_table(), **ROLES, time="when", group="user", categorical=["size"])
    again = bopl.BanditLog.from_frame(log.to_frame(backend), **ROLES, time="when", group="user", schema=log.schema)
    assert again.fingerprint() == log.fingerprint()


def test_the_frame_is_of_the_installed_kind():
    pandas = pytest.importorskip("pandas")
    assert isinstance(random_log().to_frame(), pandas.DataFrame)
    with pytest.raises(ValueError, match="backend must be"):
        random_log().to_frame("excel")


def test_arrow_files_of_the_table_are_read_as_the_log(tmp_path):
    log = random_log()
    pyarrow.feather.write_feather(log.to_frame("pyarrow"), str(tmp_path / "log.arrow"))
    assert_same(log, bopl.BanditLog.read(tmp_path / "log.arrow"))


def test_a_folder_of_parts_is_one_log(tmp_path):
    log = random_log()
    for part in range(3):
        log.subset(slice(20 * part, 20 * part + 20)).to_parquet(tmp_path / f"{part}.parquet")
    assert_same(log, bopl.BanditLog.read(tmp_path))
    random_log(n_actions=5).to_parquet(tmp_path / "4.parquet")
    with pytest.raises(ValueError, match=r"not one log.*bopl.concat"):
        bopl.BanditLog.read(tmp_path)


def test_rows_can_be_asked_for_and_the_mask_follows(tmp_path):
    log = random_log()
    log.to_parquet(tmp_path / "log.parquet")
    late = bopl.BanditLog.read(tmp_path / "log.parquet", where="time >= 30")
    np.testing.assert_array_equal(late.action_mask, log.action_mask[30:])
    assert late.schema is None


def test_columns_can_be_asked_for_and_the_mask_stays(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(50), **ROLES, action_mask=np.ones((50, 3)), categorical=["user"])
    log.to_parquet(tmp_path / "log.parquet")
    some = bopl.BanditLog.read(tmp_path / "log.parquet", context=["age", "user"])
    assert some.feature_names == ("age", "user")
    assert some.schema.categorical == ("user",)
    assert some.action_mask.all()
    assert bopl.BanditLog.read(tmp_path / "log.parquet", schema=some.schema).action_mask is not None
    other = bopl.BanditLog.read(tmp_path / "log.parquet", action="city")
    assert other.actions.tolist() == ["Bonn", "Rom", "Ulm"]
    assert other.action_mask is None


def test_the_command_reads_what_was_written(tmp_path, capsys):
    log = bopl.BanditLog.from_frame(click_table(500), **ROLES, action_mask=np.ones((500, 3)))
    log.to_parquet(tmp_path / "log.parquet")
    code, _ = run_json(capsys, "audit", tmp_path / "log.parquet")
    assert code == 0


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    log = random_log()
    log.to_parquet(tmp_path / "log.parquet")
    before = (tmp_path / "log.parquet").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        log.subset(slice(3)).to_parquet(tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").read_bytes() == before
    assert os.listdir(tmp_path) == ["log.parquet"]


def test_labels_without_a_form_in_a_table_are_refused(tmp_path):
    for labels in ([("a", 1), ("b", 2)], ["a", 1], [2**70, 1]):
        log = bopl.BanditLog([[0.0], [1.0]], labels, [0, 1], [0.5, 0.5])
        with pytest.raises(UsageError, match="labels of action cannot be stored in a table"):
            log.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(FileNotFoundError, match="no folder"):
        random_log().to_parquet(tmp_path / "none" / "log.parquet")


CHANGES = [
    ("format", 9),
    ("roles", {"boss": "x0"}),
    ("roles", [1]),
    ("actions", [[1], [2]]),
    ("action_features", {"shape": [4, 2], "float32": "AAAA"}),
    ("action_features", {"shape": [4, 3], "float32": "?"}),
    ("propensity_source", "guessed"),
    ("names", [1, 2]),
    ("schema", {"columns": [{}]}),
    ("eligible", 3),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_damaged_description_is_one_sentence(tmp_path, name, value):
    table = random_log().to_frame("pyarrow")
    document = json.loads(table.schema.metadata[KEY]) | {name: value}
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(document)}), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="its description of the columns cannot be read"):
        bopl.BanditLog.read(tmp_path / "log.parquet")


def test_lists_of_unknown_actions_are_refused(tmp_path):
    table = random_log().to_frame("pyarrow")
    document = json.loads(table.schema.metadata[KEY]) | {"actions": [0, 1, 2, 7], "eligible": "eligible_actions"}
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(document)}), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="'eligible_actions' lists 3"):
        bopl.BanditLog.read(tmp_path / "log.parquet")


# -- concat -----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_log_are_the_log():
    log = bopl.BanditLog.from_frame(odd_table(), **ROLES, time="when", group="user", categorical=["size"])
    assert_same(log, bopl.concat([log.subset(slice(100)), log.subset(slice(100, None))]))
    masked = random_log()
    assert_same(masked, bopl.concat(masked.subset(rows) for rows in (slice(7), slice(7, 30), slice(30, None))))
    assert_same(masked, bopl.concat([masked]))


def test_actions_are_united_and_masks_forbid_what_was_not_there():
    first, second = random_log(n_actions=2, action_features=None), random_log(n_actions=4, action_features=None)
    both = bopl.concat([first, second])
    assert both.actions.tolist() == [0, 1, 2, 3]
    assert not both.action_mask[:60, 2:].any()
    np.testing.assert_array_equal(both.action_mask[60:], second.action_mask)
    unmasked = bopl.concat([random_log(n_actions=2, action_mask=None, action_features=None), second])
    assert unmasked.action_mask[:60].all()


def test_labels_of_several_kinds_stay_apart():
    one = bopl.BanditLog([[0.0], [1.0]], ["1", "2"], [0, 1], [0.5, 0.5])
    two = bopl.BanditLog([[0.0], [1.0]], [1, 2], [0, 1], [0.5, 0.5])
    assert bopl.concat([one, two]).actions.tolist() == ["1", "2", 1, 2]


def test_groups_are_shared_by_label_or_kept_apart():
    one = random_log(group=["a", "b"] * 30)
    two = random_log(group=["b", "c"] * 30)
    assert len(set(bopl.concat([one, two]).group.tolist())) == 3
    apart = bopl.concat([one, two], share_groups=False)
    assert apart.group_labels.tolist() == ["1:a", "1:b", "2:b", "2:c"]


def test_sparse_and_dense_contexts_become_sparse():
    log = random_log()
    sparse = bopl.BanditLog(
        csr_array(np.eye(2, 3)), [0, 1], [0, 1], [0.5, 0.5], actions=range(4), action_features=log.action_features
    )
    both = bopl.concat([random_log(group=None, time=None), sparse])
    assert both.context.shape == (62, 3)


def test_doubt_about_propensities_is_kept():
    log = random_log()
    guessed = log.with_propensity(log.propensity, source="estimated")
    assert bopl.concat([log, guessed]).has_estimates
    assert bopl.concat([log, log]).propensity_source == "logged"


def test_what_was_left_out_is_told_log_by_log():
    table = click_table(60)
    table = table.set_column(6, "click", pa.array([None] + [1.0] * 59))
    log = bopl.BanditLog.from_frame(table, **ROLES, drop_invalid=True)
    origin = bopl.concat([log, log]).origin
    assert origin.n_rows == 120
    assert "log 2: reward is missing in 1 (row 0)" in " ".join(origin.sentences())


def bonn_less(table):
    return table.filter(pa.compute.not_equal(table["city"], "Bonn"))


REFUSED = {
    "other categories": (
        lambda: [bopl.BanditLog.from_frame(t, **ROLES) for t in (click_table(50), bonn_less(click_table(50)))],
        r"log 1 and log 2 turn 'city' into numbers differently.*schema=first.schema",
    ),
    "other columns": (
        lambda: [bopl.BanditLog.from_frame(click_table(50), **ROLES, ignore=i) for i in (["age"], ["user"])],
        "differ in their context columns: 'user', 'age' are in only one of them",
    ),
    "names": (lambda: [random_log(), random_log(feature_names=list("abc"))], "without names and with names"),
    "groups": (lambda: [random_log(), random_log(group=None)], "log 1 has group but log 2 does not"),
    "times": (
        lambda: [random_log(), random_log(time=np.datetime64("2024-01-01") + np.arange(60))],
        "times of log 1 are numbers, those of log 2 dates",
    ),
    "propensities": (
        lambda: [bopl.BanditLog([[0.0], [1.0]], [0, 1], [0, 1], p) for p in (None, [0.5, 0.5])],
        "log 2 has propensities but log 1 does not",
    ),
    "features": (
        lambda: [random_log(), random_log(action_features=np.ones((4, 3)))],
        "log 2 has other action_features for 0",
    ),
    "nothing": (list, "at least one log"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_logs_that_do_not_agree_are_refused(case):
    logs, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        bopl.concat(logs())


def test_only_logs_are_joined():
    with pytest.raises(TypeError, match="number 2 is of type list"):
        bopl.concat([random_log(), []])


# -- Other rewards, segments, and propensities that are exact ---------------------------------------------------------


def carrying_log(**changes):
    columns = {"other_rewards": {"revenue": [3.0, 0.0], "x0": [1.0, 2.0]}, "segment": ["x", None]}
    return bopl.BanditLog(np.zeros((2, 1)), ["a", "b"], [1, 0], [0.5, 0.5], **{**columns, **changes})


def assert_carries(log, again):
    assert_same(log, again)
    assert list(again.other_rewards) == list(log.other_rewards)
    for name, values in log.other_rewards.items():
        np.testing.assert_array_equal(again.other_rewards[name], values)
    np.testing.assert_array_equal(again.segment, log.segment)
    assert again.exact_propensity == log.exact_propensity


def test_a_file_keeps_other_rewards_segments_and_exact_propensities(tmp_path):
    log = carrying_log(exact_propensity=True)
    log.to_parquet(tmp_path / "log.parquet")
    again = bopl.BanditLog.read(tmp_path / "log.parquet")
    assert_carries(log, again)
    assert_carries(bopl.concat([log, log]), bopl.concat([again, again]))
    assert list(log.to_frame("pandas").columns) == ["x0", "action", "reward", "propensity", "revenue", "x0_", "segment"]


def test_a_file_of_a_frame_keeps_them_too_and_context_that_is_the_segment(tmp_path):
    table = pa.table(
        {
            "city": ["Rom", "Ulm", None, "Rom"],
            "click": [1.0, 0.0, 1.0, 0.0],
            "spent": [3.0, 0.0, 2.5, 0.0],
            "shown": ["a", "b", "b", "a"],
            "p": [0.5] * 4,
        }
    )
    log = bopl.BanditLog.from_frame(
        table, action="shown", reward="click", propensity="p", other_rewards=["spent"], segment="city"
    )
    log.to_parquet(tmp_path / "log.parquet")
    again = bopl.BanditLog.read(tmp_path / "log.parquet")
    assert_carries(log, again)
    assert again.schema == log.schema
    assert log.segment.tolist() == ["Rom", "Ulm", "missing", "Rom"]


def test_what_a_file_carries_is_no_context_where_other_columns_are_asked_for(tmp_path):
    context = np.zeros((2, 2))
    log = bopl.BanditLog(
        context, ["a", "b"], [1, 0], [0.5, 0.5], other_rewards={"revenue": [3.0, 0.0]}, segment=["x", "y"]
    )
    log.to_parquet(tmp_path / "log.parquet")
    fewer = bopl.BanditLog.read(tmp_path / "log.parquet", ignore=["x1"])
    assert fewer.feature_names == ("x0",)
    assert fewer.other_rewards["revenue"].tolist() == [3.0, 0.0]
    without = bopl.BanditLog.read(tmp_path / "log.parquet", ignore=["revenue", "segment"])
    assert (without.n_features, without.other_rewards, without.segment) == (2, {}, None)
    guarded = bopl.BanditLog.read(tmp_path / "log.parquet", other_rewards=["revenue"], segment="x0")
    assert (guarded.segment.tolist(), list(guarded.other_rewards)) == (["0.0", "0.0"], ["revenue"])


def test_a_file_without_a_word_of_them_has_none_of_them(tmp_path):
    log = random_log()
    log.to_parquet(tmp_path / "log.parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    said = json.loads(table.schema.metadata[KEY])
    older = {name: one for name, one in said.items() if name not in ("other_rewards", "segment", "exact_propensity")}
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(older)}), tmp_path / "older.parquet")
    assert_same(log, bopl.BanditLog.read(tmp_path / "older.parquet"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"other_rewards": {}}, "log 1 has the other reward 'revenue' but log 2 does not"),
        ({"segment": None}, "log 1 has segment but log 2 does not"),
    ],
)
def test_logs_are_not_joined_where_one_lacks_what_the_other_carries(changes, said):
    with pytest.raises(ValueError, match=said):
        bopl.concat([carrying_log(), carrying_log(**changes)])


def test_joined_propensities_are_exact_if_all_are():
    exact, other = carrying_log(exact_propensity=True), carrying_log()
    assert bopl.concat([exact, exact]).exact_propensity
    assert not bopl.concat([exact, other]).exact_propensity
    assert not exact.with_propensity([0.5, 0.5]).exact_propensity


def test_the_commands_take_the_word_that_propensities_are_exact(tmp_path, capsys):
    rng = np.random.default_rng(0)
    propensity = rng.integers(1, 99, 400) / 100
    action = np.array(["a", "b"])[(rng.random(400) < 0.5).astype(int)]
    bopl.BanditLog(rng.normal(size=(400, 1)), action, rng.random(400), propensity).to_parquet(tmp_path / "log.parquet")
    said = {}
    for flags in ((), ("--exact-propensity",)):
        _, found = run_json(capsys, "audit", tmp_path / "log.parquet", *flags)
        said[flags] = next(one["status"] for one in found["findings"] if one["check"] == "rounding")
    assert said == {(): "problem", ("--exact-propensity",): "ok"}
