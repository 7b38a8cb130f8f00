"""Binned contexts as the kernels read them.

Every row is a short list of *codes*: positions in the histogram to which the row adds itself. Two layouts share that
idea:

- fixed: each histogram column contributes one code, mutually exclusive indicators being bundled into one column;
- sparse: only values that differ from their column's most common bin have a code; that bin is recovered from the
  node's total. All two-valued columns together form one histogram column, one position each.

Codes are 16 bit, so the histogram is cut into blocks of at most 65536 positions; a block also fits the second-level
cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.binning import ColumnBins

ORDERED, ONE_AGAINST_REST, INDICATORS = 0, 1, 2  # kinds of histogram columns
TOP_THRESHOLD = np.finfo(np.float32).max  # every present value is below it: present left, missing right

# Records of int64 where kernels do arithmetic with the fields; int32 where an entry per position would cost cache.
# A run of histogram columns whose positions 16 bits can tell apart.
BLOCK = np.dtype(
    [
        ("row_width", np.int64),  # codes of every row, or 0 if rows are of different lengths
        ("position_start", np.int64),
        ("position_end", np.int64),
        ("column_start", np.int64),
        ("column_end", np.int64),
    ]
)

# A column of the histogram: one context column, or several indicators.
COLUMN = np.dtype(
    [
        ("start", np.int64),  # its first position
        ("n_bins", np.int64),  # its positions, that of missing values included
        ("common", np.int64),  # bin without codes, or -1
        ("missing", np.int64),  # bin of missing values, or -1
        ("first", np.int64),  # first bin that is a split; 1 for bundles, whose bin 0 is "none of them"
        ("kind", np.int64),  # ORDERED, ONE_AGAINST_REST or INDICATORS
    ]
)

# A position of the histogram, and the split that it stands for.
POSITION = np.dtype(
    [
        ("feature", np.int32),  # context column that the split reads
        ("part", np.int32),  # ... as a partition column
        ("bin", np.int32),  # ... and the bin that it compares with
        ("is_equal", np.bool_),  # that bin goes right; otherwise bins up to that one go left
        ("is_left", np.bool_),  # indicator whose rarer value is the smaller one
    ],
    align=True,
)

# A column that rows are divided by. Where its bins are not stored by column, they are searched for in a row's codes.
PART = np.dtype(
    [
        ("missing", np.int64),  # bin of missing values, or -1
        ("block", np.int64),
        ("first_code", np.int64),  # code of the first bin that has one
        ("n_codes", np.int64),
        ("first_bin", np.int64),
        ("common", np.int64),  # bin without a code
    ]
)


class Binned(NamedTuple):
    """The arrays that the growing kernels read; positions are histogram positions.

    Codes are by row, because a histogram is filled row by row and all codes of a row are then on a few cache lines.
    ``part_bins`` has the same bins by column, because rows are divided by one column at a time.

    The codes of row i in block b lie at ``block_code[b] + i * row_width`` (fixed), or between ``row_start[b, i]`` and
    ``row_start[b, i + 1]`` (sparse, ``row_width`` being 0). They count from the block's first position.
    """

    codes: NDArray[np.uint16]
    row_start: NDArray[np.int64]  # (n_blocks, n_samples + 1), or (n_blocks, 1)
    block_code: NDArray[np.int64]  # (n_blocks,)
    part_bins: NDArray[np.uint8]  # (n_parts, n_samples) bins by column, or no rows for CSR contexts
    block: NDArray[Any]  # (n_blocks,) of BLOCK
    column: NDArray[Any]  # (n_histogram_columns,) of COLUMN
    position: NDArray[Any]  # (n_positions,) of POSITION
    part: NDArray[Any]  # (n_parts,) of PART


@dataclass(frozen=True)
class SplitTable:
    """What a split at each histogram position means for a raw context."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    is_equal: NDArray[np.bool_]  # x == threshold goes right (NaN: missing goes right)


@dataclass(frozen=True)
class BinnedContext:
    """Binned training contexts and the meaning of their splits."""

    columns: tuple[ColumnBins, ...]
    arrays: Binned
    splits: SplitTable
    n_samples: int

    @property
    def n_positions(self) -> int:
        """Length of a histogram."""
        return len(self.arrays.position)
