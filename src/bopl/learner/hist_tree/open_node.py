"""Growing over pieces: nodes that are still open, as their owner knows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.hist_tree.node import NodeSums
from bopl.learner.hist_tree.scale import NO_SCALE, Scale
from bopl.learner.hist_tree.split import Histogram
from bopl.learner.hist_tree.wave import Counted


@dataclass(frozen=True, eq=False)
class NodeCounts:
    """What the pieces counted of a node, or what one child leaves of it.

    Tables that were not asked for are empty.
    """

    record: NDArray[Any]  # (1,), of COUNTED
    action_sums: NDArray[Any]  # (n_actions,), of ACTION_SUMS
    histogram: Histogram

    @property
    def sums(self) -> NodeSums:
        """Sums in the integers of the problem."""
        return NodeSums(*(self.record[name][0] for name in NodeSums._fields))

    @property
    def leaf_sums(self) -> tuple[Any, ...]:
        """Unrounded sums on the grids: gradient high and low, weight high and low."""
        names = ("leaf_gradient_high", "leaf_gradient_low", "leaf_weight_high", "leaf_weight_low")
        return tuple(self.record[name][0] for name in names)

    def without(self, child: NodeCounts) -> NodeCounts:
        """Return what one child leaves of this, whose histogram becomes the other child's."""
        for table, taken in zip(self.histogram, child.histogram, strict=True):
            if len(taken):
                table -= taken
        record, action_sums = self.record.view(np.int64), self.action_sums.view(np.int64)
        return NodeCounts(
            (record - child.record.view(np.int64)).view(self.record.dtype),
            (action_sums - child.action_sums.view(np.int64)).view(self.action_sums.dtype),
            self.histogram,
        )


def counts_by_node(counted: Counted, how: NDArray[Any]) -> Iterator[NodeCounts]:
    """Yield what was counted for each node; ``how`` says what was asked for, as in `Wave`."""
    nothing, at = np.zeros(0, np.int64), 0
    wanted = zip(how["has_histogram"].tolist(), how["is_wide"].tolist(), strict=True)
    for number, (has_histogram, is_wide) in enumerate(wanted):
        has = (has_histogram, has_histogram and is_wide, has_histogram and len(counted.pairs) > 0)
        tables = (counted.packed, counted.wide, counted.pairs)
        histogram = Histogram(*(table[at].copy() if own else nothing for table, own in zip(tables, has, strict=True)))
        yield NodeCounts(counted.sums[number : number + 1], counted.action_sums[number], histogram)
        at += has_histogram


@dataclass
class OpenNode:
    """A node that is still open."""

    at: int  # its place in the table of nodes, and its name among the pieces
    actions: NDArray[np.int32]
    depth: int
    path: int
    n_rows: int
    scale: Scale = NO_SCALE  # of its problem; not given before the problem has one
    is_root: bool = True  # whether the problem begins here
    has_gradient: bool = True  # whether a context split can gain
    _counts: NodeCounts | None = None

    @property
    def counts(self) -> NodeCounts:
        """What the pieces counted."""
        assert self._counts is not None
        return self._counts

    @counts.setter
    def counts(self, counts: NodeCounts | None) -> None:
        self._counts = counts


@dataclass
class OpenPair:
    """The children of a context split that is being carried out: one is counted, the other is what it leaves."""

    parent: OpenNode
    counted: OpenNode
    other: OpenNode
    is_left: bool  # the counted one is the left one
    has_histogram: bool
