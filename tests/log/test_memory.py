"""What reading a file leaves behind."""

import time

import numpy as np
import pyarrow

import bopl


def test_arrow_gives_its_memory_back_when_nothing_of_the_table_is_left(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    bopl.BanditLog(
        rng.normal(size=(1000, 4)), rng.integers(0, 3, 1000), rng.random(1000), np.full(1000, 1 / 3)
    ).to_parquet(tmp_path / "log.parquet")
    before, held = pyarrow.total_allocated_bytes(), []

    def look() -> None:
        for _ in range(200):  # arrow's own threads let go of what they have read a moment later
            if pyarrow.total_allocated_bytes() <= before:
                break
            time.sleep(0.05)
        held.append(pyarrow.total_allocated_bytes())

    monkeypatch.setattr("bopl.log.read.return_unused_memory", look)
    bopl.BanditLog.read(tmp_path / "log.parquet")
    assert len(held) == 1
    assert held[0] <= before
