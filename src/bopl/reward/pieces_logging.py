"""The logging policy learned from a log in pieces: the model of `fit_logging_model`, to the last byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, FloatArray
from bopl.cluster import Cluster, Placement
from bopl.learner.pieces import PiecesLog, parts_of, place_parts
from bopl.learner.pieces.facts import LoadedPiece, LoadLog, add_some, gather_log, gather_values
from bopl.log import BanditLog
from bopl.log.input_layout import ColumnTotals, category_sizes, layout_from
from bopl.reward.boosted_model import BoostedRewardModel
from bopl.reward.folds import folds_of
from bopl.reward.logging_model import (
    MIN_PROB,
    TREE_ROUNDS,
    LoggingModel,
    fit_linear_part,
    is_linear_enough,
    rows_of_linear,
    with_trees,
)
from bopl.reward.pieces_rewards import FoldedPieces, cross_fit_pieces


def fit_logging_pieces(
    log: PiecesLog, raw: Placement, cluster: Cluster, *, seed: int, is_sparse: bool, n_jobs: int
) -> LoggingModel:
    """Learn the logging policy of a log in pieces.

    ``raw`` are its pieces, loaded; ``is_sparse`` says whether the contexts are.
    """
    layout = layout_from(raw.reduce(_totals, add=add_some), category_sizes(log))  # type: ignore[arg-type]
    is_taken = np.zeros(log.n_samples, bool)
    is_taken[rows_of_linear(layout, log.n_samples, log.n_actions, seed)] = True
    some = gather_log(raw, is_taken)
    model = fit_linear_part(some, layout)
    if is_linear_enough(model):
        return model
    if model.epsilon > 0.0:  # a floor that only makes up for what a linear model lacks
        model = fit_linear_part(some, layout, has_floor=False)
    fold = folds_of(log.n_samples, group_of(log, raw), 2, seed)
    parts = parts_of(log, fold=fold)
    with place_parts(cluster, parts, LoadLog(log.spec)) as placed:
        fitted = cross_fit_pieces(
            FoldedPieces(log, parts, placed, cluster, int(fold.max()) + 1, is_sparse),
            BoostedRewardModel(n_rounds=TREE_ROUNDS),
            seed=seed,
            read_reward=LeftOver(model),
            n_jobs=n_jobs,
        )
    return with_trees(model, fitted)


@dataclass(frozen=True)
class LeftOver:
    """What a model of the logging policy leaves of the log-propensities."""

    model: LoggingModel

    def __call__(self, log: BanditLog) -> FloatArray:
        """Return it for the samples of a log."""
        logged = logged_entries(self.model.log_prob(log.context, log.action_mask), log.action_idx)
        left: FloatArray = np.log(np.maximum(log.propensity, MIN_PROB)) - logged
        return left


def _totals(state: LoadedPiece) -> ColumnTotals | None:
    return None if state.log is None else ColumnTotals.of(state.log.context)


def group_of(log: PiecesLog, raw: Placement) -> AnyArray | None:
    """Return the group of every sample, None if the log has none."""
    return gather_values(raw, _group) if getattr(log, "group_labels", None) is not None else None


def _group(log: BanditLog) -> AnyArray:
    assert log.group is not None
    return log.group
