"""A log in pieces is the log in memory, whatever its files and row groups are."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bopl import BanditLog, PartitionedLog
from pieces_logs import EVERYTHING, ROLES, a_frame, assert_same, write


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
    assert log.schema.to_json() == whole.schema.to_json()
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


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_partition_changes_the_log(tmp_path_factory, data):
    frame = a_frame(30, seed=3)
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=5).map(sorted))
    sizes = np.diff([0, *cuts, 30]).tolist()
    path = write(tmp_path_factory.mktemp("log"), frame, sizes, data.draw(st.integers(1, 12)))
    roles = {**ROLES, **EVERYTHING}
    assert_same(BanditLog.scan_parquet(path, **roles).to_log(), BanditLog.from_frame(frame, **roles))


def test_only_columns_with_gaps_may_be_left_out_of_a_record_as_in_memory(tmp_path):
    frame = a_frame()
    frame["whole"] = 1.5
    path = write(tmp_path, frame)
    log, whole = BanditLog.scan_parquet(path, **ROLES), BanditLog.read(path, **ROLES)
    optional = [column.name for column in log.schema.columns if column.is_optional]
    assert optional == [column.name for column in whole.schema.columns if column.is_optional] == ["age", "city"]


def test_a_gap_that_is_not_a_number_in_the_last_row_group_is_found(tmp_path):
    frame = a_frame()
    frame["age"] = np.where(np.arange(len(frame)) == len(frame) - 1, np.nan, 1.0 + np.arange(len(frame)))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.set_column(
        table.column_names.index("age"), "age", pa.array(frame["age"].to_numpy(), from_pandas=False)
    )
    assert table["age"].null_count == 0  # it is NaN, which no footer counts
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=8)
    log = BanditLog.scan_parquet(tmp_path / "log.parquet", **ROLES)
    assert {column.name: column.is_optional for column in log.schema.columns}["age"]
