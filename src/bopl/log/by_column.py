"""Work on the columns of a log, several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bopl._interrupt import Threads

MAX_THREADS = 8  # each holds some copies of a column
MIN_ENTRIES = 2_000_000  # below which threads cost more than they save
T = TypeVar("T")


def each_column(work: Callable[[Any], T], columns: Sequence[Any], n_samples: int) -> list[T]:
    """Return what the work makes of every column, in their order; large logs are worked on by several threads."""
    n_threads = min(os.cpu_count() or 1, MAX_THREADS, len(columns))
    if n_threads <= 1 or n_samples * len(columns) < MIN_ENTRIES:
        return [work(column) for column in columns]
    with Threads(n_threads) as threads:
        return threads.each(work, columns)
