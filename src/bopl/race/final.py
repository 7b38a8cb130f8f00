"""Which samples of a large log race, and training the winner on all samples of a log in memory or in pieces."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from bopl._errors import PartTrainedWarning
from bopl._typing import FloatArray, IntArray
from bopl.boosting import TimeLimit, Workbench
from bopl.boosting.workbench import Keeper
from bopl.cluster.memory import memory_budget
from bopl.log import BanditLog, PartitionedLog
from bopl.policy.boosted import BoostedPolicy
from bopl.race.contender import Contender
from bopl.reward.logging_model import LoggingModel

FINAL_FOLDS = ((100_000, 4), (500_000, 3), (np.inf, 2))  # folds of cross-fitting the winner's reward model, by samples
ROUNDS_GROWTH = 0.25  # the number of rounds grows with this power of the number of samples
MAX_RACED = 30_000  # samples of a log that is too large to race in full
BYTES_PER_SCORE = 40  # of a sample and an action in a fit: scores, gradients, predictions and their copies
BYTES_PER_COLUMN = 16  # of a sample and a context column: the number, its code, and the copies of both
BYTES_PER_SAMPLE = 100  # of everything else


class WinnerFit(Protocol):
    """Trains winners of a race."""

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        ...


@dataclass(frozen=True)
class Training:
    """What the training of all winners has in common."""

    n_jobs: int | None
    deadline: float  # on the monotonic clock
    seed: int
    logging_model: LoggingModel  # of the race
    keeper: Keeper  # stores the rounds as they are made
    progress: bool  # whether to show them


@dataclass(frozen=True)
class InMemory:
    """Trains winners on a log in memory."""

    log: BanditLog
    sample_weight: FloatArray | None
    training: Training

    @cached_property
    def _workbench(self) -> Workbench:
        return Workbench(
            self.log,
            sample_weight=self.sample_weight,
            n_folds=folds_for(self.log.n_samples),
            seed=self.training.seed,
            logging_model=self.training.logging_model,
            keeper=self.training.keeper,
            name="winner",
        )

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        policy = unfitted(winner, self.log.n_samples, self.training)
        fit = partial(policy.fit, workbench=self._workbench)
        self.training.keeper.fit(fit, self.log, limits(self.training.deadline))
        return policy


@dataclass(frozen=True)
class OverPieces:
    """Trains winners on a log in pieces; others are trained on as many samples as fit into memory."""

    log: PartitionedLog
    sample_weight: FloatArray | None  # (n_samples,)
    cluster: Any  # as for `BoostedPolicy.fit`
    memory: int | str | None  # as for `BoostedPolicy.fit`
    training: Training

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        n_samples = self.log.n_samples
        policy = unfitted(winner, n_samples, self.training).set_params(n_folds=folds_for(n_samples))
        fit = partial(policy.fit, sample_weight=self.sample_weight, cluster=self.cluster, memory=self.memory)
        try:
            self.training.keeper.fit(fit, self.log, limits(self.training.deadline))
        except TypeError as error:  # its learner needs the log in memory
            self._warn(str(error))
            return self._drawn.fit(winner)
        return policy

    def _warn(self, reason: str) -> None:
        n_drawn = self._drawn.log.n_samples
        if n_drawn < self.log.n_samples:
            warnings.warn(
                f"the winner is trained on {n_drawn:,} of {self.log.n_samples:,} samples, drawn at random: {reason}",
                PartTrainedWarning,
                stacklevel=7,  # the caller of AutoPolicy.fit
            )

    @cached_property
    def _drawn(self) -> InMemory:
        log, rows = part_in_memory(self.log, self.memory, self.training.seed)
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return InMemory(log, weight, self.training)


def folds_for(n_samples: int) -> int:
    """Return the number of folds on which a winner's reward models are cross-fitted."""
    return next(folds for size, folds in FINAL_FOLDS if n_samples <= size)


def unfitted(winner: Contender, n_samples: int, training: Training) -> BoostedPolicy:
    """Return a winner before its training: the more samples beyond those it raced on, the more rounds it makes."""
    policy = winner.unfitted(n_jobs=training.n_jobs)
    growth = max(n_samples / winner.n_trained_on, 1.0) ** ROUNDS_GROWTH
    policy.set_params(n_rounds=round(policy.n_rounds * growth), progress=training.progress)
    return policy


def limits(deadline: float) -> list[TimeLimit]:
    """Return the callback that keeps a deadline, if there is one."""
    left = deadline - time.monotonic()
    return [] if np.isinf(left) else [TimeLimit(max(left, 0.0))]


def raced_rows(n_samples: int, seed: int) -> IntArray:
    """Return the samples of a large log that race, in order."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(n_samples)[:MAX_RACED])


def samples_in_memory(log: PartitionedLog, memory: int | str | None) -> int:
    """Return how many samples of a log can be trained on in this much memory; half of the free memory by default."""
    per_sample = BYTES_PER_SCORE * log.n_actions + BYTES_PER_COLUMN * log.n_features + BYTES_PER_SAMPLE
    return max(memory_budget(memory) // per_sample, MAX_RACED)


def part_in_memory(log: PartitionedLog, memory: int | str | None, seed: int) -> tuple[BanditLog, IntArray]:
    """Return as many random samples of a log as can be trained on in memory, all if they fit, and their row numbers."""
    n_samples = samples_in_memory(log, memory)
    if n_samples >= log.n_samples:
        return log.to_log(), np.arange(log.n_samples)
    rows = np.sort(np.random.default_rng([seed, 4]).choice(log.n_samples, n_samples, replace=False, shuffle=False))
    return log.subset(rows).to_log(), rows
