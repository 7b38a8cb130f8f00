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

# Where the codes of one context column lie in the rows of a sparse layout.
PART_SPAN = np.dtype(
    [
        ("block", np.int64),
        ("first_code", np.int64),  # code of the first bin that has one
        ("n_codes", np.int64),
        ("first_bin", np.int64),
        ("common", np.int64),  # bin without a code
    ]
)


class Binned(NamedTuple):
    """The arrays that the growing kernels read; positions are histogram positions.

    ``codes`` of row i in block b lie at ``block_code[b] + i * row_width[b]`` (fixed) or between ``row_start[b, i]`` and
    ``row_start[b, i + 1]`` (sparse, ``row_width[b] == 0``), relative to ``block_position[b]``.
    """

    codes: NDArray[np.uint16]
    row_start: NDArray[np.int64]
    row_width: NDArray[np.int64]
    block_code: NDArray[np.int64]
    block_position: NDArray[np.int64]  # (n_blocks + 1,)
    block_column: NDArray[np.int64]  # (n_blocks + 1,) first histogram column of each block
    column_start: NDArray[np.int64]  # first position of each histogram column
    column_bins: NDArray[np.int64]  # its number of positions, the missing one included
    column_common: NDArray[np.int64]  # bin without codes, or -1
    column_missing: NDArray[np.int64]  # bin of missing values, or -1
    column_kind: NDArray[np.int64]  # ORDERED, ONE_AGAINST_REST or INDICATORS
    column_first: NDArray[np.int64]  # first bin that is a split; 1 for bundles, whose bin 0 is "none of them"
    position_feature: NDArray[np.int32]  # context column that a split at this position reads
    position_part: NDArray[np.int32]  # partition column that a split at this position reads
    position_bin: NDArray[np.int32]  # ... and the bin it compares with
    position_is_equal: NDArray[np.bool_]  # bin == there goes right; otherwise bin <= there goes left
    position_is_left: NDArray[np.bool_]  # indicator whose rarer value is the smaller one
    part_bins: NDArray[np.uint8]  # (n_parts, n_samples) bins by column, or no rows for CSR contexts
    part_missing: NDArray[np.int64]
    part_span: NDArray[Any]  # (n_parts,) of PART_SPAN, for CSR contexts


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
        return int(self.arrays.block_position[-1])
