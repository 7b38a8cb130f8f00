"""Tree learners that are bound to a log: in memory, and in pieces."""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bopl.learner.base import FittedStep
from bopl.learner.hist_tree.engine import EngineRows
from bopl.learner.hist_tree.grid import largest_of
from bopl.learner.hist_tree.inputs import check_tree_settings
from bopl.learner.hist_tree.levels import Pieces, PiecesEngine
from bopl.learner.hist_tree.memory_engine import MemoryEngine, MemorySource
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.rounds import TreeRounds, WeightSummary
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.objective.protocol import StepTarget

if TYPE_CHECKING:
    from bopl.learner.hist_tree.learner import HistTree


class BoundHistTree:
    """A tree learner that has binned the contexts of its log; made by `HistTree.bind`.

    ``action_features`` are of shape (n_actions, n_action_features); ``row_order`` is the log's row at each place of
    targets and predictions.
    """

    def __init__(
        self,
        settings: HistTree,
        rows: EngineRows,
        action_features: NDArray[np.float64],
        n_jobs: int,
        seed: int,
        row_order: NDArray[np.int32] | None,
    ) -> None:
        self._rows, self._n_jobs, self.row_order = rows, n_jobs, row_order
        self._known: tuple[NDArray[np.float64], WeightSummary] | None = None
        self._rounds = TreeRounds[MemorySource](settings, MemoryEngine(n_jobs), rows, action_features, seed)

    @property
    def settings(self) -> HistTree:
        """The settings of the trees."""
        return self._rounds.settings

    @property
    def n_always(self) -> int:
        """Columns at the end of the contexts that every node may split, whatever ``colsample`` draws."""
        return self._rounds.n_always

    @n_always.setter
    def n_always(self, n_columns: int) -> None:
        self._rounds.n_always = n_columns

    def rebound(self, settings: HistTree, *, seed: int) -> BoundHistTree:
        """Return a learner with other settings on the same bins and in the same order.

        The two share working memory where they can, and must not fit at the same time. Settings that need other bins
        (``max_bins`` or ``categorical`` differ) raise a ValueError.
        """
        check_tree_settings(settings)
        if differing := self._differing_bins(settings):
            name = differing[0]
            raise ValueError(
                f"the contexts were binned with {name}={getattr(self.settings, name)!r}; "
                f"{name}={getattr(settings, name)!r} needs a binding of its own."
            )
        other = copy(self)
        other._n_jobs = settings.n_threads
        other._rounds = copy(self._rounds)
        other._rounds.use_settings(settings, MemoryEngine(other._n_jobs), seed=seed)
        return other

    def serves(self, settings: HistTree) -> bool:
        """Return whether other settings have the same bins, so that `rebound` takes them."""
        return not self._differing_bins(settings)

    def _differing_bins(self, settings: HistTree) -> list[str]:
        own = self.settings
        names = ("max_bins", "categorical")
        return [name for name in names if _as_plain(getattr(own, name)) != _as_plain(getattr(settings, name))]

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Fit one tree to a round's gradient and weight; return it with its values on the training contexts."""
        # By action: no copy where the objective already wrote column by column. Writeable, or numba compiles anew.
        gradient = np.require(target.gradient.T, np.float64, ["C", "W"])
        weight = np.require(target.weight, np.float64, ["C", "W"])
        source = MemorySource(gradient, weight, np.empty((self._rows.n_actions, self._rows.n_samples)))
        largest = largest_of(gradient) if target.largest is None else target.largest
        fitted = self._rounds.fit(source, largest, self._weight_summary(weight), round_idx)
        return FittedStep(HistTreePredictor(fitted.tree, self._n_jobs), source.step.T)

    def _weight_summary(self, weight: NDArray[np.float64]) -> WeightSummary:
        """Return what is known of the weights; those of the last round are mostly those of this one."""
        # By identity: weights of an objective do not change between rounds, and a sum over all samples would cost a
        # pass.
        if self._known is None or self._known[0] is not weight:
            self._known = weight, WeightSummary.of(weight)
        return self._known[1]


def _as_plain(setting: Any) -> Any:
    """Return a setting that can be compared: sequences of any kind as lists."""
    return setting if setting is None or isinstance(setting, Integral) else list(setting)


def placed_rounds(
    settings: HistTree,
    layout: BinnedContext,  # without rows: what positions mean
    action_features: NDArray[np.float64],  # (n_actions, n_action_features)
    n_samples: int,
    n_jobs: int,
    seed: int,
    *,
    has_mask: bool,  # whether some actions are not eligible
) -> TreeRounds[Pieces]:
    """Return what fits trees over pieces of a log."""
    rows = EngineRows(layout, n_samples, len(action_features), has_mask)
    return TreeRounds(settings, PiecesEngine(n_jobs), rows, action_features, seed)
