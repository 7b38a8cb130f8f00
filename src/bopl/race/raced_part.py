"""Which part of a large log races, and which part of a log in pieces fits into memory."""

from __future__ import annotations

import numpy as np

from bopl._typing import IntArray
from bopl.cluster.memory import memory_budget
from bopl.log import BanditLog, PartitionedLog

MAX_RACED = 30_000  # samples of a log that is too large to race in full
BYTES_PER_SCORE = 40  # of a sample and an action in a fit: scores, gradients, predictions and their copies
BYTES_PER_COLUMN = 16  # of a sample and a context column: the number, its code, and the copies of both
BYTES_PER_SAMPLE = 100  # of everything else


def raced_rows(n_samples: int, seed: int) -> IntArray:
    """Return the samples of a large log that race, in order."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(n_samples)[:MAX_RACED])


def samples_in_memory(log: PartitionedLog, memory: int | str | None) -> int:
    """Return how many samples of a log can be trained on in this much memory; half of the free memory by default."""
    per_sample = BYTES_PER_SCORE * log.n_actions + BYTES_PER_COLUMN * log.n_features + BYTES_PER_SAMPLE
    return max(memory_budget(memory) // per_sample, MAX_RACED)


def part_in_memory(log: PartitionedLog, memory: int | str | None, seed: int) -> tuple[BanditLog, IntArray]:
    """Return as many random samples of a log as can be trained on in memory, all if they fit, and their row numbers."""
    n_samples = samples_in_memory(log, memory)
    if n_samples >= log.n_samples:
        return log.to_log(), np.arange(log.n_samples)
    rows = np.sort(np.random.default_rng([seed, 4]).choice(log.n_samples, n_samples, replace=False, shuffle=False))
    return log.subset(rows).to_log(), rows
