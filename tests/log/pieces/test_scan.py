"""A log in pieces is the log in memory, whatever its files and row groups are."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bopl import BanditLog, PartitionedLog

ROLES = {"action": "item", "reward": "click", "propensity": "p"}
COLUMNS = (
    "context",
    "action_idx",
    "reward",
    "propensity",
    "actions",
    "time",
    "action_mask",
    "action_features",
    "group",
    "segment",
    "group_labels",
)


def a_frame(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    day = np.datetime64("2024-05-01T00:00:00", "us") + rng.integers(0, 10_000, n_rows) * np.timedelta64(7, "m")
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "city": rng.choice(["Rom", "Ulm", "Bonn", None], n_rows),
            "n_visits": rng.integers(0, 9, n_rows),
            "is_new": rng.random(n_rows) < 0.5,
            "seen": day - np.timedelta64(3, "h"),
            "when": day,
            "user": rng.choice([f"u{i}" for i in range(12)], n_rows),
            "country": rng.choice(["DE", "IT"], n_rows),
            "revenue": rng.gamma(1.0, size=n_rows),
            "item": rng.choice(["a", "b", "c"], n_rows),
            "click": rng.integers(0, 2, n_rows),
            "p": rng.uniform(0.1, 1.0, n_rows),
        }
    )


def write(folder: Path, frame: pd.DataFrame, sizes=(20, 0, 1, 39), group_rows=8) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    start = 0
    for number, size in enumerate(sizes):
        pq.write_table(table.slice(start, size), folder / f"part{number:03}.parquet", row_group_size=group_rows)
        start += size
    assert start == len(frame)
    return str(folder / "*.parquet")


def assert_same(left: BanditLog, right: BanditLog) -> None:
    for name in COLUMNS:
        mine, theirs = getattr(left, name), getattr(right, name)
        if mine is None or theirs is None:
            assert mine is theirs, name
            continue
        if hasattr(mine, "toarray"):
            mine, theirs = mine.toarray(), theirs.toarray()
        assert mine.dtype.kind == theirs.dtype.kind, name
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert left.schema == right.schema
    assert left.feature_names == right.feature_names
    assert left.propensity_source == right.propensity_source
    assert left.other_rewards.keys() == right.other_rewards.keys()
    for name, values in left.other_rewards.items():
        np.testing.assert_array_equal(values, right.other_rewards[name])


EVERYTHING = {"time": "when", "group": "user", "other_rewards": ["revenue"], "segment": "country"}


@pytest.mark.parametrize(
    "roles",
    [
        {},
        {"time": "when"},
        {"group": "user"},
        {"time": "when", "ignore": ["when", "user"]},
        {"context": ["age", "city"]},
        {"categorical": ["n_visits"]},
        {"propensity": None, "has_propensity": False, "ignore": ["p"]},
        {"actions": ["c", "b", "a", "z"]},
        {"where": "country == 'DE' and n_visits > 2"},
        EVERYTHING,
        {**EVERYTHING, "where": "city is missing"},
    ],
    ids=lambda roles: " ".join(roles) or "plain",
)
def test_a_log_in_pieces_is_the_log_in_memory(tmp_path, roles):
    path = write(tmp_path, a_frame())
    whole = BanditLog.read(path, **{**ROLES, **roles})
    log = BanditLog.scan_parquet(path, **{**ROLES, **roles})
    assert isinstance(log, PartitionedLog)
    assert_same(log.to_log(), whole)
    assert (log.n_samples, log.n_features, log.n_actions) == (whole.n_samples, whole.n_features, whole.n_actions)
    assert log.schema == whole.schema
    assert log.feature_names == whole.feature_names
    assert log.categorical == whole.categorical
    assert log.origin == whole.origin
    assert log.has_propensity == whole.has_propensity


def test_pieces_are_the_row_groups_that_have_rows_in_order(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    assert [piece.n_rows for piece in log.pieces] == [8, 8, 4, 1, 8, 8, 8, 8, 7]
    assert [piece.offset for piece in log.pieces] == np.cumsum([0, 8, 8, 4, 1, 8, 8, 8, 8]).tolist()
    assert [piece.row_group for piece in log.pieces] == [0, 1, 2, 0, 0, 1, 2, 3, 4]


def test_a_piece_is_the_same_in_another_process(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES, **EVERYTHING)
    spec, piece = pickle.loads(pickle.dumps((log.spec, log.pieces[4])))
    assert piece == log.pieces[4]
    assert_same(spec.load(piece), log.load(log.pieces[4]))
    assert_same(pickle.loads(pickle.dumps(log)).to_log(), log.to_log())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_partition_changes_the_log(tmp_path_factory, data):
    frame = a_frame(30, seed=3)
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=5).map(sorted))
    sizes = np.diff([0, *cuts, 30]).tolist()
    path = write(tmp_path_factory.mktemp("log"), frame, sizes, data.draw(st.integers(1, 12)))
    roles = {**ROLES, **EVERYTHING}
    assert_same(BanditLog.scan_parquet(path, **roles).to_log(), BanditLog.from_frame(frame, **roles))
