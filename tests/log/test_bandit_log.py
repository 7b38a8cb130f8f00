import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array, csr_matrix

import bopl
from helpers import make_log

COLUMNS = {"action": "item", "reward": "click", "propensity": "p"}


def frame():
    return pd.DataFrame(
        {
            "age": [20.0, 30.0, np.nan, 50.0],
            "mobile": [True, False, True, True],
            "visits": pd.array([1, None, 3, 4], dtype="Int64"),
            "item": ["tea", "milk", "tea", "milk"],
            "click": [0, 1, 0, 1],
            "p": [0.5, 0.25, 0.5, 0.75],
            "day": pd.to_datetime(["2024-01-04", "2024-01-02", "2024-01-03", "2024-01-01"]),
        }
    )


@pytest.mark.parametrize(
    "convert", [lambda f: f, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
def test_every_kind_of_frame_gives_the_same_log(convert):
    log = bopl.BanditLog.from_frame(convert(frame().drop(columns="day")), **COLUMNS)
    assert log.feature_names == ("age", "mobile", "visits")
    assert log.actions.tolist() == ["milk", "tea"]
    assert log.action.tolist() == ["tea", "milk", "tea", "milk"]
    np.testing.assert_array_equal(
        log.context, np.array([[20, 1, 1], [30, 0, np.nan], [np.nan, 1, 3], [50, 1, 4]], dtype=np.float32)
    )
    assert log.reward.tolist() == [0, 1, 0, 1]


def test_files_give_the_same_log_as_the_frame(tmp_path):
    table = frame().drop(columns="day")
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "log.parquet")
    table.to_csv(tmp_path / "log.csv", index=False)
    expected = bopl.BanditLog.from_frame(table, **COLUMNS)
    assert bopl.BanditLog.from_parquet(tmp_path / "log.parquet", **COLUMNS).fingerprint() == expected.fingerprint()
    assert bopl.BanditLog.from_csv(tmp_path / "log.csv", **COLUMNS).fingerprint() == expected.fingerprint()
    some = bopl.BanditLog.from_parquet(tmp_path / "log.parquet", context=["visits"], **COLUMNS)
    assert some.feature_names == ("visits",)


def test_sparse_context_is_kept_sparse_and_means_the_same():
    dense = np.random.default_rng(0).integers(0, 2, size=(30, 5)).astype(float)
    rest = (np.arange(30) % 3, np.ones(30), np.full(30, 0.5))
    log = bopl.BanditLog(csr_matrix(dense), *rest)
    np.testing.assert_array_equal(log.context.toarray(), dense)
    assert isinstance(log.context, csr_array)


def test_sparse_context_of_the_caller_is_left_alone():
    matrix = csr_array((np.array([1.0, 0.0, 2.0], np.float32), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    before = matrix.indices.copy()
    bopl.BanditLog(matrix, [0, 1], [1, 1], [0.5, 0.5])
    np.testing.assert_array_equal(matrix.indices, before)
    matrix.data[0] = 5.0  # still writable


@pytest.mark.parametrize("labels", [["b", "a", "b"], [(1, "x"), (0, "y"), (1, "x")], [1, "a", 1], [True, False, True]])
def test_any_hashable_labels_are_actions(labels):
    log = bopl.BanditLog(np.eye(3), labels, [1, 0, 1], [0.5] * 3)
    assert log.action.tolist() == labels
    assert log.n_actions == 2


def test_actions_never_logged_can_be_listed():
    log = bopl.BanditLog([[1.0]], ["b"], [1], [0.5], actions=["c", "b", "a"])
    assert log.actions.tolist() == ["c", "b", "a"]
    assert log.action_idx.tolist() == [1]


def test_log_is_frozen():
    log = make_log()
    with pytest.raises(AttributeError):
        log.reward = np.zeros(3)
    for array in (log.context, log.reward, log.propensity, log.action_idx, log.actions):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_changing_the_callers_arrays_does_not_change_the_log():
    reward, propensity = np.ones(4), np.full(4, 0.5)
    log = bopl.BanditLog(np.eye(4), [0, 1, 0, 1], reward, propensity)
    reward[:], propensity[:] = 7.0, 0.1
    assert log.reward.tolist() == [1.0] * 4
    assert log.propensity.tolist() == [0.5] * 4


def test_random_split_is_a_partition_and_repeats_with_its_seed():
    log = make_log(n_samples=50)
    train, test = log.split(0.2, random_state=3)
    assert (len(train), len(test)) == (40, 10)
    assert sorted([*train.reward, *test.reward]) == sorted(log.reward)
    assert log.split(0.2, random_state=3)[1].fingerprint() == test.fingerprint()
    assert log.split(0.2, random_state=4)[1].fingerprint() != test.fingerprint()
    assert train.actions.tolist() == log.actions.tolist()


def test_split_by_time_puts_the_latest_into_the_test_part():
    log = bopl.BanditLog.from_frame(frame(), time="day", **COLUMNS)
    train, test = log.split(0.25, by="time")
    assert test.time.max() > train.time.max()
    assert len(test) == 1


def test_subset_takes_masks_slices_and_repeated_rows():
    log = make_log(n_samples=10)
    assert log.subset(log.reward > 0).reward.min() > 0
    assert len(log.subset(slice(2, 5))) == 3
    assert log.subset([0, 0, -1]).reward.tolist() == [log.reward[0], log.reward[0], log.reward[9]]


def test_translated_adds_the_translation_with_the_papers_sign():
    log = make_log()
    np.testing.assert_array_equal(log.translated(-0.4).reward, log.reward - 0.4)
    assert log.translated(0.0) is log


def test_fingerprint_sees_every_column():
    log = make_log(n_samples=20)
    changed = [
        bopl.BanditLog(log.context + 1, log.action, log.reward, log.propensity),
        bopl.BanditLog(log.context, (log.action + 1) % 4, log.reward, log.propensity),
        bopl.BanditLog(log.context, log.action, log.reward + 1, log.propensity),
        bopl.BanditLog(log.context, log.action, log.reward, log.propensity / 2),
        bopl.BanditLog(log.context, log.action, log.reward, log.propensity, feature_names=["a", "b", "c"]),
    ]
    assert len({other.fingerprint() for other in [log, *changed]}) == 6
