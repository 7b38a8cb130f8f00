"""Training the winner on all samples of a log in memory or in pieces."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bopl._errors import PartTrainedWarning
from bopl._typing import FloatArray, IntArray
from bopl.boosting import TimeLimit, Workbench
from bopl.boosting.keeper import Keeper
from bopl.log import BanditLog, PartitionedLog
from bopl.policy.boosted import BoostedPolicy
from bopl.race.contender import Contender
from bopl.race.raced_part import part_in_memory

FINAL_FOLDS = ((100_000, 4), (500_000, 3), (np.inf, 2))  # folds of cross-fitting the winner's reward model, by samples
ROUNDS_GROWTH = 0.25  # the number of rounds grows with this power of the number of samples


class WinnerFit(Protocol):
    """Trains winners of a race."""

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Trains winners on a log in memory.

    Attributes
    ----------
    make_workbench : callable
        Returns the workbench for all winners; called once, if there is anything to train.
    n_jobs : int or None
    deadline : float
        On the monotonic clock.
    keeper : Keeper
        Stores the rounds as they are made.
    """

    make_workbench: Callable[[], Workbench]
    n_jobs: int | None
    deadline: float
    keeper: Keeper

    @cached_property
    def _workbench(self) -> Workbench:
        return self.make_workbench()

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        workbench = self._workbench
        policy = unfitted(winner, workbench.log.n_samples, self.n_jobs)
        self.keeper.fit(policy, workbench.log, workbench=workbench, callbacks=limits(self.deadline))
        return policy


@dataclass(frozen=True)
class OverPieces:
    """Trains winners on a log in pieces; others are trained on as many samples as fit into memory.

    Attributes
    ----------
    log : PartitionedLog
    sample_weight : ndarray of shape (n_samples,) or None
    cluster, memory
        As for `BoostedPolicy.fit`.
    make_workbench : callable
        Makes the workbench of a log in memory and its weights.
    n_folds : int
        Folds of cross-fitting reward models.
    n_jobs : int or None
    deadline : float
        On the monotonic clock.
    seed : int
    keeper : Keeper
        Stores the rounds as they are made.
    """

    log: PartitionedLog
    sample_weight: FloatArray | None
    cluster: Any
    memory: int | str | None
    make_workbench: Callable[..., Workbench]
    n_folds: int
    n_jobs: int | None
    deadline: float
    seed: int
    keeper: Keeper

    def fit(self, winner: Contender) -> BoostedPolicy:
        """Return a winner, trained on all samples."""
        policy = unfitted(winner, self.log.n_samples, self.n_jobs).set_params(n_folds=self.n_folds)
        try:
            self.keeper.fit(
                policy,
                self.log,
                sample_weight=self.sample_weight,
                cluster=self.cluster,
                memory=self.memory,
                callbacks=limits(self.deadline),
            )
        except TypeError as error:  # its learner needs the log in memory
            self._warn(str(error))
            return self._drawn.fit(winner)
        return policy

    def _warn(self, reason: str) -> None:
        n_drawn = self._part[0].n_samples
        if n_drawn < self.log.n_samples:
            warnings.warn(
                f"the winner is trained on {n_drawn:,} of {self.log.n_samples:,} samples, drawn at random: {reason}",
                PartTrainedWarning,
                stacklevel=7,  # the caller of AutoPolicy.fit
            )

    @cached_property
    def _part(self) -> tuple[BanditLog, IntArray]:
        return part_in_memory(self.log, self.memory, self.seed)

    @cached_property
    def _drawn(self) -> InMemory:
        log, rows = self._part
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return InMemory(lambda: self.make_workbench(log, weight), self.n_jobs, self.deadline, self.keeper)


def folds_for(n_samples: int) -> int:
    """Return the number of folds on which a winner's reward models are cross-fitted."""
    return next(folds for size, folds in FINAL_FOLDS if n_samples <= size)


def unfitted(winner: Contender, n_samples: int, n_jobs: int | None) -> BoostedPolicy:
    """Return a winner before its training: the more samples beyond those it raced on, the more rounds it makes."""
    policy = winner.unfitted(n_jobs=n_jobs)
    growth = max(n_samples / winner.n_trained_on, 1.0) ** ROUNDS_GROWTH
    policy.set_params(n_rounds=round(policy.n_rounds * growth))
    return policy


def limits(deadline: float) -> list[TimeLimit]:
    """Return the callback that keeps a deadline, if there is one."""
    left = deadline - time.monotonic()
    return [] if np.isinf(left) else [TimeLimit(max(left, 0.0))]
