"""What a piece needs from the models of the start: estimates of its rewards, and its initial scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._exact import limbs_of, value_of, values_of
from bopl._policy_reader import logged_entries
from bopl._typing import FloatArray
from bopl.boosting.workbench import Prior, PriorSums, find_prior, has_spread
from bopl.cluster import Cluster, Placement
from bopl.learner.pieces import Part, PiecesLog, parts_of, place_parts
from bopl.learner.pieces.facts import LoadedPiece, LoadLog, add_some
from bopl.log import BanditLog
from bopl.reward.boosted_model import BoostedRewardModel
from bopl.reward.folds import folds_of
from bopl.reward.logging_model import LoggingModel
from bopl.reward.pieces_logging import fit_logging_pieces, group_of
from bopl.reward.pieces_rewards import FoldedPieces, cross_fit_pieces, estimate_rewards


@dataclass(frozen=True)
class StartModels:
    """Models of the rewards and of the logging policy."""

    logging: LoggingModel | None
    rewards: tuple[BoostedRewardModel, ...] | None  # one per fold
    prior: Prior | None  # what the reward models started from
    factor: float  # of estimated rewards in the initial scores; 0 if they are not part of the start
    has_logging: bool  # whether the logging policy is part of the start
    has_estimate: bool  # whether the objective needs the estimates

    def estimate_and_score(self, part: Part, log: BanditLog) -> tuple[FloatArray | None, FloatArray]:
        """Return the estimated rewards of a piece, if they are needed, and its scores at the start."""
        score = np.zeros((log.n_samples, log.n_actions), order="F")
        log_prob = None if self.logging is None else np.asfortranarray(self.logging.log_prob(log.context))
        estimate = None
        if self.rewards is not None:
            estimate = estimate_rewards(self.rewards, part, log)
            if self.prior is not None and log_prob is not None:
                for action in range(log.n_actions):
                    estimate[:, action] += self.prior.of(log_prob[:, action])
        if self.has_logging and log_prob is not None:
            score += log_prob
        if self.factor and estimate is not None:
            score += self.factor * estimate
        return (estimate if self.has_estimate else None), score


@dataclass(frozen=True)
class AfterPrior:
    """Rewards minus what the logging policy's probabilities imply about them."""

    logging: LoggingModel
    prior: Prior

    def __call__(self, log: BanditLog) -> FloatArray:
        """Return them for the samples of a log."""
        return log.reward - self.prior.of(_logged(self.logging, log))


def own_reward(log: BanditLog) -> FloatArray:
    """Return a log's rewards."""
    return log.reward


def _logged(model: LoggingModel, log: BanditLog) -> FloatArray:
    logged: FloatArray = logged_entries(model.log_prob(log.context), log.action_idx)
    return logged


class PiecesBench:
    """Models of a log in pieces: the counterpart of `Workbench`."""

    def __init__(
        self,
        log: PiecesLog,
        raw: Placement,  # its pieces, loaded
        cluster: Cluster,
        *,
        sample_weight: FloatArray | None,  # (n_samples,)
        n_folds: int,
        seed: int,
        n_jobs: int,
        is_sparse: bool,  # whether the contexts are
    ) -> None:
        self._log, self._raw, self._cluster, self._weight = log, raw, cluster, sample_weight
        self._n_folds, self._seed, self._n_jobs, self._is_sparse = n_folds, seed, n_jobs, is_sparse

    def logging(self) -> LoggingModel:
        """Return the logging policy, learned from the logged propensities."""
        return fit_logging_pieces(
            self._log,
            self._raw,
            self._cluster,
            seed=self._seed,
            is_sparse=self._is_sparse,
            n_jobs=self._n_jobs,
        )

    def prior(self, logging: LoggingModel) -> Prior:
        """Return what the logging policy's own probabilities imply about the rewards."""
        n_samples = self._log.n_samples
        mean = value_of(self._raw.reduce(_sum_logged, logging, add=add_some)) / n_samples
        variance = value_of(self._raw.reduce(_sum_squares, logging, mean, add=add_some)) / n_samples
        sums = self._raw.reduce(_prior_sums, logging, add=add_some)
        return find_prior(logging, values_of(sums), has_spread(variance))

    def rewards(self, model: Any, read_reward: Any) -> tuple[tuple[BoostedRewardModel, ...], list[Part]]:
        """Return the models of all folds, and the pieces with their folds."""
        fold = folds_of(self._log.n_samples, group_of(self._log, self._raw), self._n_folds, self._seed)
        parts = parts_of(self._log, sample_weight=self._weight, fold=fold)
        with place_parts(self._cluster, parts, LoadLog(self._log.spec)) as raw:
            fitted = cross_fit_pieces(
                FoldedPieces(self._log, parts, raw, self._cluster, int(fold.max()) + 1, self._is_sparse),
                model,
                seed=self._seed,
                read_reward=read_reward,
                n_jobs=self._n_jobs,
            )
        return fitted.models, parts

    def spread(self) -> float:
        """Return the standard deviation of the weighted rewards."""
        total = float(self._log.n_samples)
        if self._weight is not None:
            total = value_of(self._raw.reduce(_sum_weights, add=add_some))
        mean = value_of(self._raw.reduce(_sum_rewards, add=add_some)) / total
        square = value_of(self._raw.reduce(_sum_deviations, mean, add=add_some))
        return float(np.sqrt(square / total))


def _weighed(values: FloatArray, state: LoadedPiece) -> Any:
    weight = state.part.sample_weight
    return limbs_of(values if weight is None else np.multiply(values, weight))


def _sum_weights(state: LoadedPiece) -> Any:
    return None if state.log is None else _weighed(np.ones(state.log.n_samples), state)


def _sum_rewards(state: LoadedPiece) -> Any:
    return None if state.log is None else _weighed(state.log.reward, state)


def _sum_deviations(state: LoadedPiece, mean: float) -> Any:
    return None if state.log is None else _weighed((state.log.reward - mean) ** 2, state)


def _sum_logged(state: LoadedPiece, model: LoggingModel) -> Any:
    return None if state.log is None else limbs_of(_logged(model, state.log))


def _sum_squares(state: LoadedPiece, model: LoggingModel, mean: float) -> Any:
    return None if state.log is None else limbs_of((_logged(model, state.log) - mean) ** 2)


def _prior_sums(state: LoadedPiece, model: LoggingModel) -> Any:
    if state.log is None:
        return None
    return PriorSums(_logged(model, state.log), state.log.reward, state.part.sample_weight).limbs()
