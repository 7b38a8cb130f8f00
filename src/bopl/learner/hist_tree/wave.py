"""Growing over pieces: what the owner of a tree asks of every piece in one pass, and what the pieces answer.

All that is answered are integers, which are added up over pieces in any order, and the rows of nodes that have become
small, which are kept apart. Requests are arrays, not a record per node: every piece reads all of them in compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.grid import Grid
from bopl.learner.hist_tree.problem import ACTION_SUMS, Norms
from bopl.learner.hist_tree.rows import RowCodes

# A node is split on a context column; its rows go to two others.
DIVIDE = np.dtype(
    [("node", np.int64), ("left", np.int64), ("right", np.int64), ("position", np.int64), ("default_left", np.bool_)],
    align=True,
)
# A node's action set is split: both of its children have all of its rows.
BRANCH = np.dtype([("node", np.int64), ("left", np.int64), ("right", np.int64)])
# How a node is counted: in the integers of its problem, and whether with a histogram.
COUNT = np.dtype(
    [
        ("gradient_scale", np.float64),
        ("weight_scale", np.float64),
        ("fine", np.float64),  # units that a weight needs not to be coarse
        ("is_wide", np.bool_),
        ("has_histogram", np.bool_),
    ],
    align=True,
)

# What pieces answer are records of int64 alone, so that they can be added up.
MEASURED = np.dtype([(name, np.int64) for name in ("rows", "of_pairs", *Norms._fields)])
COUNTED = np.dtype(
    [
        ("rows", np.int64),
        ("coarse", np.int64),  # weights of too few units
        ("gradient", np.int64),  # sums in the integers of the problem
        ("weight", np.int64),
        ("absolute", np.int64),
        ("pairs", np.int64),
        ("leaf_gradient_high", np.int64),  # unrounded sums, on the grids
        ("leaf_gradient_low", np.int64),
        ("leaf_weight_high", np.int64),
        ("leaf_weight_low", np.int64),
    ]
)


class NodeSets(NamedTuple):
    """Nodes that something is asked of, each with its action set."""

    node: NDArray[np.int64]
    actions: NDArray[np.int32]  # set after set
    start: NDArray[np.int64]  # (n_nodes + 1,): where each set begins

    @classmethod
    def of(cls, nodes: Sequence[tuple[int, NDArray[np.int32]]]) -> NodeSets:
        """Return nodes, given with their action sets."""
        start = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum([len(actions) for _, actions in nodes], out=start[1:])
        return cls(
            np.array([node for node, _ in nodes], np.int64),
            np.concatenate([np.zeros(0, np.int32), *(actions for _, actions in nodes)]),
            start,
        )


@dataclass(frozen=True, eq=False)
class Wave:
    """What is done with all pieces in one pass: first rows are divided, then what was asked for is found."""

    divides: NDArray[Any]  # of DIVIDE
    branches: NDArray[Any]  # of BRANCH
    measures: NodeSets  # new problems: what their scales are computed from is wanted
    counts: NodeSets  # nodes whose sums, and histograms, are wanted
    how: NDArray[Any]  # of COUNT, for each of ``counts``
    gathers: NodeSets  # nodes whose rows are wanted: they are grown elsewhere
    n_nodes: int  # nodes of the tree so far

    @property
    def n_histograms(self) -> int:
        """Number of histograms that are asked for."""
        return int(np.count_nonzero(self.how["has_histogram"]))


@dataclass(frozen=True, eq=False)
class TreeTask:
    """What all waves of one tree have in common."""

    grids: tuple[Grid, Grid]
    is_classifier: bool
    has_count: bool
    n_actions: int  # of the problem
    n_positions: int  # of a histogram
    # the samples drawn for this tree, one bit for each of the log's; None for all
    drawn: NDArray[np.uint8] | None = None

    def rows(self, first: int, n_rows: int, order: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """Return the rows of a piece that are drawn: their places, if they are stored in an order of their own."""
        if self.drawn is None:
            return np.arange(n_rows, dtype=np.int32)
        bits = np.unpackbits(self.drawn[first // 8 : (first + n_rows + 7) // 8])[first % 8 :][:n_rows]
        return np.flatnonzero(bits if order is None else bits[order]).astype(np.int32)


@dataclass(frozen=True)
class Rows:
    """Rows of the gathered nodes of one piece, node after node, as the engine needs them to grow these."""

    counts: NDArray[np.int64]  # rows of each node
    codes: RowCodes
    gradient: NDArray[np.float64]  # of the actions of each node, action after action
    weight: NDArray[np.float64]
    mask: NDArray[np.bool_] | None  # (n_rows, n_actions)


class Counted(NamedTuple):
    """What was counted of every node: sums, sums by action, and histograms of those that have one."""

    sums: NDArray[Any]  # (n_counts,) of COUNTED
    action_sums: NDArray[Any]  # (n_counts, n_actions) of ACTION_SUMS
    packed: NDArray[np.int64]  # (n_histograms, n_positions)
    wide: NDArray[np.int64]
    pairs: NDArray[np.int64]


@dataclass
class Answer:
    """What the pieces answered: sums over all of them, and rows by the number of the first sample of their piece."""

    n_left: NDArray[np.int64]  # of each divided node
    measures: NDArray[Any]  # (n_measures,) of MEASURED
    counts: Counted
    rows: dict[int, Rows] = field(default_factory=dict)

    @classmethod
    def nothing(cls, wave: Wave, task: TreeTask) -> Answer:
        """Return the answer that pieces add theirs to."""
        n_counts, n_histograms = len(wave.how), wave.n_histograms
        n_wide = n_histograms if wave.how["is_wide"].any() else 0
        n_pairs = n_histograms if task.has_count else 0
        counts = Counted(
            np.zeros(n_counts, COUNTED),
            np.zeros((n_counts, task.n_actions), ACTION_SUMS),
            *(np.zeros((n, task.n_positions), np.int64) for n in (n_histograms, n_wide, n_pairs)),
        )
        return cls(np.zeros(len(wave.divides), np.int64), np.zeros(len(wave.measures.node), MEASURED), counts)

    def __add__(self, other: Answer) -> Answer:
        for mine, theirs in (
            (self.n_left, other.n_left),
            (self.measures, other.measures),
            *zip(self.counts, other.counts, strict=True),
        ):
            whole = mine.view(np.int64)
            whole += theirs.view(np.int64)
        self.rows.update(other.rows)
        return self
