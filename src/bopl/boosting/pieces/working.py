"""What a fit over pieces takes in memory beside the states of pieces: estimated before it begins, for its budget.

The numbers were measured, with some room: `benchmarks/scale.py --show budgets` shows what is left of it.
"""

from __future__ import annotations

from typing import Any

from bopl.cluster.memory import MIB, WorkingMemory
from bopl.learner.hist_tree.learner import HistTree
from bopl.learner.hist_tree.levels import GATHER_BYTES, GATHER_ROWS
from bopl.learner.pieces.facts import COLUMNS_AT_ONCE
from bopl.learner.pieces.keys import KEYS_AT_ONCE

CODE = 72 * MIB  # libraries and compiled code that a fit loads
KEY_BYTES = 32  # of a hash that the owner holds, with what it takes to count it
COUNT_BYTES = 5 * MIB  # of a column whose values are being counted
COLUMN_BYTES = 20  # of an entry of the context while its piece is read or changed: copies, codes and the number itself
ACTION_BYTES = 26  # of an action of a sample: scores, gradients, the prediction and a copy
ROW_BYTES = 150  # of everything else of a sample
MAX_SPARSE = 100  # entries of a sparse context: how many there are is not known before they are read


def working_memory(log: Any, learner: HistTree) -> WorkingMemory:
    """Return what a fit takes: reading, counting, hashing and growing trees follow each other.

    Parameters
    ----------
    log : PiecesLog
    learner : HistTree
        Its settings.
    """
    is_sparse = log.schema is not None and log.schema.is_sparse
    n_columns = min(log.n_features, MAX_SPARSE) if is_sparse else log.n_features
    per_row = COLUMN_BYTES * n_columns + ACTION_BYTES * log.n_actions + ROW_BYTES
    largest = max(getattr(piece, "n_available", piece.n_rows) for piece in log.pieces)
    counting = COUNT_BYTES * min(COLUMNS_AT_ONCE, n_columns)
    hashing = KEY_BYTES * min(log.n_samples, KEYS_AT_ONCE)
    n_open = min(1 << min(learner.max_depth, 62), log.n_samples // max(GATHER_ROWS, 1) + 1)
    histograms = 8 * learner.max_bins * log.n_features * n_open // 2  # of the smaller children of a level
    growing = 2 * histograms + min(2 * GATHER_BYTES, per_row * log.n_samples)
    return WorkingMemory(CODE + max(counting, hashing, growing), per_row * largest + max(counting, histograms))
