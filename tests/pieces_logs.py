"""Frames in files of all sizes, and what it means that two logs are the same."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bopl import BanditLog

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
    assert (left.schema and left.schema.to_json()) == (right.schema and right.schema.to_json())  # gaps as well
    assert left.feature_names == right.feature_names
    assert left.propensity_source == right.propensity_source
    assert left.other_rewards.keys() == right.other_rewards.keys()
    for name, values in left.other_rewards.items():
        np.testing.assert_array_equal(values, right.other_rewards[name])


EVERYTHING = {"time": "when", "group": "user", "other_rewards": ["revenue"], "segment": "country"}
