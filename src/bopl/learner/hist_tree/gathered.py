"""Growing over pieces: nodes of few rows, which are cheaper sent than counted, are grown in memory to their end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bopl._interrupt import uninterrupted
from bopl.learner.hist_tree.assembly import Fragment
from bopl.learner.hist_tree.engine import GrowthTask
from bopl.learner.hist_tree.grow import grow
from bopl.learner.hist_tree.open_node import OpenNode
from bopl.learner.hist_tree.problem import Target
from bopl.learner.hist_tree.rows import join_rows
from bopl.learner.hist_tree.scale import NO_SCALE
from bopl.learner.hist_tree.scratch import Scratch
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.wave import Rows


class Extract:
    """Where the rows of each gathered node are in those of a piece."""

    def __init__(self, rows: Rows, n_actions: list[int]) -> None:
        self.rows = rows
        self._start = np.concatenate([[0], np.cumsum(rows.counts)])
        self._n_actions = n_actions
        self._gradient = np.concatenate([[0], np.cumsum(rows.counts * np.array(n_actions))])

    def span(self, number: int) -> tuple[int, int]:
        """Return the first row of a node, and that after its last."""
        return int(self._start[number]), int(self._start[number + 1])

    def gradient(self, number: int) -> NDArray[np.float64]:
        """Return the gradients of a node, of shape (n_actions, n_rows)."""
        own = self.rows.gradient[self._gradient[number] : self._gradient[number + 1]]
        return own.reshape(self._n_actions[number], -1)


def grow_whole(
    node: OpenNode,
    parts: list[Extract],  # of each piece, in the order of the log
    number: int,  # place of the node among those gathered
    layout: BinnedContext,  # without rows: what positions mean
    target: Target,  # without rows
    task: GrowthTask,
    scratch: Scratch,  # with room for the rows
) -> Fragment:
    """Grow a node whose rows have been gathered."""
    spans = [(part.rows, *part.span(number)) for part in parts]
    binned = join_rows(layout, [(rows.codes, start, end) for rows, start, end in spans])
    n_rows, n_actions = binned.n_samples, len(target.gradient)
    gradient = np.empty((n_actions, n_rows))
    gradient[node.actions] = np.concatenate([part.gradient(number) for part in parts], axis=1)
    mask = np.zeros((0, 0), bool)
    if target.has_mask:
        mask = np.concatenate([rows.mask[start:end] for rows, start, end in spans if rows.mask is not None])
    weight = np.concatenate([rows.weight[start:end] for rows, start, end in spans])
    with uninterrupted():
        nodes, _ = grow(
            binned.arrays,
            target._replace(gradient=gradient, weight=weight, mask=mask),
            task.action_table,
            task.limits._replace(large=n_rows + 1),
            np.arange(n_rows, dtype=np.int32),
            node.actions,
            node.depth,
            node.path,
            NO_SCALE if node.is_root else node.scale,
            scratch,
            np.empty((n_actions, n_rows)),
        )
    return Fragment(nodes, {})
