"""The state of boosting: scores, gradient and risk, updated by one step at a time.

`ascend` returns compiled code for objectives of the form `bopl.objective.RewardTerms`, and plain numpy for any other;
both do the same (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bopl._exact import Limbs, no_limbs, value_of
from bopl._interrupt import Threads
from bopl._typing import AnyArray, FloatArray
from bopl._weight import effective_sample_size, snips_value
from bopl.boosting import ascent_kernel as kernel
from bopl.log import BanditLog
from bopl.objective import BoundObjective, RewardTerms, TrainingData
from bopl.objective.softmax import log_softmax

MIN_PARALLEL = 1 << 16  # (sample, action) pairs below which threads cost more than they save


@dataclass(frozen=True)
class Sums:
    """The numbers that determine the step size, for one prediction f."""

    slope: float  # mean(G·f)
    weighted_norm: float  # mean(w‖f‖²)
    bend: float  # mean(s‖f‖²)
    largest: float  # max|f| over eligible actions


@dataclass(frozen=True)
class Standing:
    """Statistics of the policy at the current scores."""

    risk: float  # of the objective that is boosted
    empirical_risk: float  # on the translated rewards with plain weights, like the surrogate risk
    surrogate_risk: float
    gradient_norm: float  # Euclidean norm of the gradient of the mean risk
    largest_gradient: float  # largest entry of G
    mean_importance_weight: float
    effective_sample_size: float
    snips_value: float


class Ascent(Protocol):
    """Scores under an objective."""

    score: FloatArray  # (n_samples, n_actions)
    gradient: FloatArray  # (n_samples, n_actions)
    standing: Standing

    def measure(self, prediction: FloatArray) -> Sums:
        """Return the numbers that determine the step size along a prediction."""
        ...

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and update gradient and statistics."""
        ...


def ascend(bound: BoundObjective, data: TrainingData, logged: BanditLog, score: FloatArray, n_jobs: int) -> Ascent:
    """Return the state of boosting at given scores.

    ``data`` is what the objective was bound to, ``logged`` the same samples with the logged rewards. The scores, of
    shape (n_samples, n_actions), lie column by column in memory and are changed in place. ``n_jobs``, the number of
    threads, affects only the time.
    """
    if isinstance(bound, RewardTerms):
        return CompiledAscent(bound, data, logged, score, n_jobs)
    return PlainAscent(bound, data, logged, score)


class Terms(NamedTuple):
    """An objective in the form that the kernel reads."""

    linear: AnyArray
    log: AnyArray
    dense: AnyArray  # (n_actions, n_samples) or (0, 0)


class Outcomes(NamedTuple):
    """Samples in the form that the kernel reads."""

    action_idx: AnyArray  # int32
    gain: AnyArray  # r/p, rewards translated
    inverse: AnyArray  # 1/p as a share of the largest: squares of 1/p may overflow
    reward: AnyArray  # as logged
    mask: AnyArray  # (n_actions, n_samples) or (0, 0)


@dataclass(frozen=True)
class Totals:
    """Exact sums over samples, and a maximum; those of several parts can be added."""

    limbs: Limbs  # (n_sums, N_LIMBS), int64
    largest: float

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.limbs + other.limbs, max(self.largest, other.largest))

    def values(self) -> list[float]:
        """Return the sums."""
        return [value_of(limbs) for limbs in self.limbs]


def step_sums(totals: Totals, n_samples: int) -> Sums:
    """Return the numbers that determine the step size, from the result of `CompiledAscent.measure_totals`."""
    slope, norm, bend = (value / n_samples for value in totals.values())
    return Sums(slope, norm, bend, totals.largest)


def standing_of(totals: Totals, n_samples: int, least_propensity: float) -> Standing:
    """Return the statistics of the policy, from the result of `CompiledAscent.move_totals`."""
    sums, largest_inverse = totals.values(), 1.0 / least_propensity
    weight, square = sums[kernel.WEIGHT], sums[kernel.WEIGHT_SQUARE]
    return Standing(
        risk=-sums[kernel.VALUE] / n_samples,
        empirical_risk=-sums[kernel.EMPIRICAL] / n_samples,
        surrogate_risk=-sums[kernel.SURROGATE] / n_samples,
        gradient_norm=float(np.sqrt(sums[kernel.GRADIENT_SQUARE])) / n_samples,
        largest_gradient=totals.largest,
        mean_importance_weight=weight * largest_inverse / n_samples,
        effective_sample_size=weight**2 / square if square > 0.0 else 0.0,
        snips_value=sums[kernel.WEIGHT_REWARD] / weight if weight > 0.0 else float("nan"),
    )


class CompiledAscent:
    """`Ascent` in compiled code, block by block on several threads.

    The parameters are those of `ascend`; ``least_propensity`` is the minimum over all samples, if these are only a part
    of them.
    """

    def __init__(
        self,
        bound: RewardTerms,
        data: TrainingData,
        logged: BanditLog,
        score: FloatArray,
        n_jobs: int,
        *,
        least_propensity: float | None = None,
    ) -> None:
        self.score, self.gradient = score, np.empty_like(score, order="F")
        self._weight, self._curvature = _plain(bound.weight), _plain(bound.curvature)
        none = np.zeros((0, 0))
        self._terms = Terms(
            _plain(bound.linear), _plain(bound.log), none if bound.dense is None else _plain(bound.dense.T)
        )
        self._least = float(logged.propensity.min()) if least_propensity is None else least_propensity
        mask = data.action_mask
        self._outcomes = Outcomes(
            np.require(data.action_idx, np.int32, ["C", "W"]),
            _plain(data.log.reward / data.log.propensity),
            _plain(self._least / logged.propensity),
            _plain(logged.reward),
            np.zeros((0, 0), bool) if mask is None else np.require(mask.T, bool, ["C", "W"]),
        )
        # Matrices are by action in memory, (n_actions, n_samples), as the engine reads gradients and writes
        # predictions.
        self._n_jobs = n_jobs if score.size >= MIN_PARALLEL else 1
        if least_propensity is None:
            self.look()

    @property
    def nbytes(self) -> int:
        """Bytes in memory; the weights are the caller's."""
        own = (self.score, self.gradient, self._curvature, *self._terms, *self._outcomes)
        return sum(array.nbytes for array in own)

    def look(self) -> Totals:
        """Update gradient and statistics for the current scores."""
        return self.move_totals(np.zeros_like(self.score[:0]), 0.0)

    def measure(self, prediction: FloatArray) -> Sums:
        """Return the numbers that determine the step size; the prediction of ineligible actions is set to zero."""
        return step_sums(self.measure_totals(prediction), len(self.score))

    def measure_totals(self, prediction: FloatArray) -> Totals:
        """Return the sums of `measure`."""
        arguments = (self.gradient.T, _by_action(prediction), self._weight, self._curvature, self._outcomes.mask)
        return self._each_block(kernel.N_MEASURED, lambda *block: kernel.measure_block(*arguments, *block))

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and update gradient and statistics."""
        self.move_totals(prediction, size)

    def move_totals(self, prediction: FloatArray, size: float) -> Totals:
        """Like `move`, but return the sums of the statistics."""
        arguments = (float(size), _by_action(prediction), self._terms, self._outcomes)
        state = (self.score.T, self.gradient.T)
        totals = self._each_block(kernel.N_MOVED, lambda span, sums: kernel.move_block(*arguments, span, *state, sums))
        self.standing = standing_of(totals, max(len(self.score), 1), self._least)
        return totals

    def _each_block(self, n_sums: int, work: Callable[..., Any]) -> Totals:
        """Process every block and return its totals."""
        n_samples, n_rows = len(self.score), kernel.block_rows(self.score.shape[1])
        starts = range(0, n_samples, n_rows)
        limbs, largest = no_limbs(self._n_jobs, n_sums), np.zeros((self._n_jobs, 1))

        # Blocks are dealt out in turn, one sum for each thread: integers, so it does not matter who has which block.
        def run(first: int) -> None:
            for number in range(first, len(starts), self._n_jobs):
                start = starts[number]
                work((start, min(start + n_rows, n_samples)), kernel.BlockSums(limbs[first], largest[first]))

        if self._n_jobs == 1:
            run(0)
        else:
            with Threads(self._n_jobs) as threads:
                threads.each(run, range(self._n_jobs))
        return Totals(limbs.sum(axis=0), float(largest.max()))


def _plain(values: AnyArray) -> FloatArray:
    """Return contiguous, writeable float64: for anything else numba would compile again."""
    return np.require(values, np.float64, ["C", "W"])


def _by_action(prediction: FloatArray) -> FloatArray:
    return _plain(prediction.T)


class PlainAscent:
    """`Ascent` in numpy, for objectives of any form."""

    def __init__(self, bound: BoundObjective, data: TrainingData, logged: BanditLog, score: FloatArray) -> None:
        self.score = score
        self._bound, self._data, self._logged = bound, data, logged
        self._look()

    def measure(self, prediction: FloatArray) -> Sums:
        """Return the numbers that determine the step size along a prediction."""
        eligible = self._eligible(prediction)
        square_norm = (eligible**2).sum(axis=1)
        return Sums(
            float((self.gradient * eligible).sum() / len(eligible)),
            float(np.mean(self._bound.weight * square_norm)),
            float(np.mean(self._bound.curvature * square_norm)),
            float(np.abs(eligible).max()),
        )

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and update gradient and statistics."""
        self.score += size * self._eligible(prediction)
        self._look()

    def _eligible(self, prediction: FloatArray) -> FloatArray:
        mask = self._data.action_mask
        return prediction if mask is None else np.where(mask, prediction, 0.0)

    def _look(self) -> None:
        log_prob = log_softmax(self.score, self._data.action_mask)
        self.gradient = self._bound.gradient(log_prob)
        logged = self._data.logged(log_prob)
        # ``data`` has translated rewards, which the risks are of; ``logged`` has those that SNIPS reports.
        gain = self._data.log.reward / self._data.log.propensity
        weight = np.exp(logged) / self._logged.propensity
        surrogate = np.where(gain < 0.0, np.exp(logged), logged + 1.0)
        self.standing = Standing(
            risk=self._bound.risk(log_prob),
            empirical_risk=float(np.mean(-gain * np.exp(logged))),
            surrogate_risk=float(np.mean(-np.where(gain == 0.0, 0.0, gain * surrogate))),
            gradient_norm=float(np.sqrt((self.gradient**2).sum())) / len(logged),
            largest_gradient=float(np.abs(self.gradient).max()),
            mean_importance_weight=float(weight.mean()),
            effective_sample_size=effective_sample_size(weight),
            snips_value=snips_value(weight, self._logged.reward),
        )
