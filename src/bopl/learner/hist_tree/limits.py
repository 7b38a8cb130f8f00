"""Settings of the growth, as the kernels read them."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """What bounds a tree, and what its randomness is drawn from."""

    max_depth: int
    min_child_weight: float
    min_samples_leaf: int
    large: int  # problems of at least this many contexts go back to the caller
    reg_lambda: float = 0.0
    colsample: float = 1.0
    n_always: int = 0  # columns at the end that every node may split, however few are drawn
    seed: int = 0
