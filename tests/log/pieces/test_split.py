"""Splits, samples and changes of a log in pieces are those of the log in memory."""

import gc
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bopl import BanditLog, PartitionedLog
from bopl._errors import UsageError
from pieces_logs import EVERYTHING, ROLES, a_frame, assert_same, write

WITH_GROUP = {"group": "user"}
WITH_TIME = {"time": "when", "ignore": ["user"]}


@pytest.mark.parametrize(
    ("by", "roles"),
    [("random", {}), ("random", WITH_GROUP), ("group", WITH_GROUP), ("time", WITH_TIME), ("random", EVERYTHING)],
)
@pytest.mark.parametrize("rows", [{}, {"where": "country == 'DE'"}], ids=["all", "where"])
def test_a_split_holds_out_the_same_rows_as_in_memory(tmp_path, by, roles, rows):
    path = write(tmp_path, a_frame())
    whole = BanditLog.read(path, **ROLES, **roles, **rows).split(0.3, by=by, random_state=5)
    pieces = BanditLog.scan_parquet(path, **ROLES, **roles, **rows).split(0.3, by=by, random_state=5)
    for mine, theirs in zip(pieces, whole, strict=True):
        assert_same(mine.to_log(), theirs)
    assert pieces.facts == whole.facts
    assert str(pieces) == str(whole)


def test_a_split_by_time_drops_groups_that_are_on_both_sides(tmp_path):
    frame = a_frame()
    frame["user"] = np.where(np.arange(len(frame)) < 6, "always", [f"u{row}" for row in range(len(frame))])
    path = write(tmp_path, frame)
    whole = BanditLog.read(path, **ROLES, time="when", group="user").split(0.3, by="time")
    pieces = BanditLog.scan_parquet(path, **ROLES, time="when", group="user").split(0.3, by="time")
    assert pieces.facts == whole.facts
    assert pieces.facts.n_dropped > 0
    assert_same(pieces.train.to_log(), whole.train)


def test_a_split_by_group_needs_groups(tmp_path):
    path = write(tmp_path, a_frame())
    for log in (BanditLog.read(path, **ROLES), BanditLog.scan_parquet(path, **ROLES)):
        with pytest.raises(ValueError, match="needs the group of each sample"):
            log.split(0.2, by="group")


def test_parts_of_a_split_are_logs_in_pieces_of_their_own(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    train, test = log.split(0.4, random_state=0)
    again = train.split(0.5, random_state=1)
    assert [piece.offset for piece in train.pieces] == np.cumsum([0, *(p.n_rows for p in train.pieces)])[:-1].tolist()
    assert again.train.n_samples + again.test.n_samples == train.n_samples
    assert_same(again.test.to_log(), log.to_log().split(0.4, random_state=0).train.split(0.5, random_state=1).test)
    assert train.fingerprint() != test.fingerprint() != log.fingerprint()
    assert pickle.loads(pickle.dumps(train)).fingerprint() == train.fingerprint()


def test_pieces_without_selected_rows_are_left_out(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    part = log.subset(slice(10, 21))
    assert [(piece.n_rows, piece.offset) for piece in part.pieces] == [(6, 0), (4, 6), (1, 10)]
    assert_same(part.to_log(), log.to_log().subset(slice(10, 21)))
    with pytest.raises(ValueError, match="no row was selected"):
        log.subset(np.zeros(60, dtype=bool))
    with pytest.raises(ValueError, match="more than once"):
        log.subset([3, 3])


def test_a_sample_is_a_log_in_memory_and_the_same_for_one_seed(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **ROLES)
    drawn = log.sample(17, random_state=3)
    assert isinstance(drawn, BanditLog)
    assert drawn.n_samples == 17
    assert_same(drawn, log.sample(17, random_state=3))
    assert_same(log.sample(1000), log.to_log())


def test_changes_of_a_log_in_pieces_are_those_of_the_log_in_memory(tmp_path):
    path = write(tmp_path, a_frame())
    whole = BanditLog.read(path, **ROLES)
    log = BanditLog.scan_parquet(path, **ROLES)
    assert_same(log.translated(-0.5).to_log(), whole.translated(-0.5))
    assert_same(log.with_propensity("uniform").to_log(), whole.with_propensity("uniform"))
    assert log.with_propensity("uniform").propensity_source == "uniform"
    fewer = log.without_columns(["city"])
    assert_same(fewer.to_log(), whole.without_columns(["city"]))
    assert (fewer.n_features, fewer.schema) == (whole.n_features - 1, whole.without_columns(["city"]).schema)


def test_batches_become_a_log_and_their_files_go_with_it():
    frame = a_frame()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    batches = (batch for batch in table.to_batches(max_chunksize=11))
    log = PartitionedLog.from_batches(batches, **ROLES, **EVERYTHING, piece_rows=16)
    assert_same(log.to_log(), BanditLog.from_frame(frame, **ROLES, **EVERYTHING))
    assert len(log.pieces) > 2
    folder = log.spill.folder
    part = log.split(0.5, random_state=0, by="group").test
    copy = pickle.loads(pickle.dumps(part))
    del log, copy
    gc.collect()
    assert part.to_log().n_samples == part.n_samples  # the part still needs the files
    del part
    gc.collect()
    assert not folder.exists()


def test_a_folder_that_is_named_stays_and_must_be_empty(tmp_path):
    with PartitionedLog.from_batches([a_frame(9)], **ROLES, folder=tmp_path / "kept") as log:
        assert log.n_samples == 9
    assert len(list((tmp_path / "kept").glob("*.parquet"))) == 1
    with pytest.raises(UsageError, match="already contains Parquet files"):
        PartitionedLog.from_batches([a_frame(9)], **ROLES, folder=tmp_path / "kept")


def test_batches_that_fail_or_are_none_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def broken():
        yield a_frame(5)
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="line is dead"):
        PartitionedLog.from_batches(broken(), **ROLES)
    with pytest.raises(ValueError, match="iterable is empty"):
        PartitionedLog.from_batches([], **ROLES)
    with pytest.raises(UsageError, match="no column 'nope'"):
        PartitionedLog.from_batches([a_frame(5)], **{**ROLES, "action": "nope"})
    with pytest.raises(TypeError, match="got int"):
        PartitionedLog.from_batches([3], **ROLES)
    assert not list(tmp_path.iterdir())


def test_a_dask_frame_becomes_the_log_of_its_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dask_frame = pytest.importorskip("dask.dataframe")
    frame = a_frame(40)
    with PartitionedLog.from_dask(dask_frame.from_pandas(frame, npartitions=3, sort=False), **ROLES) as log:
        assert_same(log.to_log(), BanditLog.from_frame(frame, **ROLES))
    with pytest.raises(TypeError, match="Dask DataFrame"):
        PartitionedLog.from_dask(pd.DataFrame({"a": [1]}), **ROLES)


def test_an_empty_first_batch_of_other_types_is_left_out():
    frame = a_frame()
    empty = pd.DataFrame({name: np.zeros(0) for name in frame})
    with PartitionedLog.from_batches((some for some in (empty, frame[:7], empty[:0], frame[7:])), **ROLES) as log:
        assert_same(log.to_log(), BanditLog.from_frame(frame, **ROLES))


def test_a_batch_that_cannot_be_stored_is_named():
    frame = a_frame()
    with pytest.raises(ValueError, match=r"batch 1 cannot be stored as Parquet.*column city"):
        PartitionedLog.from_batches([frame, frame.assign(city=[1, "two"] * 30)], **ROLES)
