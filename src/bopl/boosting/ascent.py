"""Where boosting stands: scores, gradient and risk, moved by one step at a time.

`ascend` returns compiled code for objectives of the form `bopl.objective.RewardTerms`, and plain numpy for any other;
both do the same (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bopl._interrupt import Threads
from bopl._typing import AnyArray, FloatArray
from bopl.boosting import ascent_kernel as kernel
from bopl.log import BanditLog
from bopl.log.weight import effective_sample_size
from bopl.objective import BoundObjective, RewardTerms, TrainingData
from bopl.objective.softmax import log_softmax
from bopl.objective.value import snips_value

MIN_PARALLEL = 1 << 16  # (sample, action) pairs below which threads cost more than they save


@dataclass(frozen=True)
class Sums:
    """What the step size is computed from, for one prediction f.

    Attributes
    ----------
    slope : float
        ``mean(G·f)``.
    weighted_norm, bend : float
        ``mean(w‖f‖²)`` and ``mean(s‖f‖²)``.
    largest : float
        ``max|f|`` over eligible actions.
    """

    slope: float
    weighted_norm: float
    bend: float
    largest: float


@dataclass(frozen=True)
class Standing:
    """What is known of the policy at the current scores.

    Attributes
    ----------
    risk : float
        Of the objective that is boosted.
    empirical_risk, surrogate_risk : float
        On the translated rewards with plain weights.
    gradient_norm, largest_gradient : float
        Euclidean norm of the gradient of the mean risk, and the largest entry of ``G``.
    mean_importance_weight, effective_sample_size, snips_value : float
    """

    risk: float
    empirical_risk: float
    surrogate_risk: float
    gradient_norm: float
    largest_gradient: float
    mean_importance_weight: float
    effective_sample_size: float
    snips_value: float


class Ascent(Protocol):
    """Scores under an objective."""

    score: FloatArray  # (n_samples, n_actions)
    gradient: FloatArray  # (n_samples, n_actions)
    standing: Standing

    def measure(self, prediction: FloatArray) -> Sums:
        """Return what the step size along a prediction is computed from."""
        ...

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and bring gradient and standing up to date."""
        ...


def ascend(bound: BoundObjective, data: TrainingData, logged: BanditLog, score: FloatArray, n_jobs: int) -> Ascent:
    """Return where boosting stands at some scores.

    Parameters
    ----------
    bound : BoundObjective
    data : TrainingData
        What the objective was bound to.
    logged : BanditLog
        The same samples with rewards as logged.
    score : ndarray of shape (n_samples, n_actions)
        Column by column in memory; moved in place.
    n_jobs : int
        Threads; they change nothing but the time.
    """
    if isinstance(bound, RewardTerms):
        return CompiledAscent(bound, data, logged, score, n_jobs)
    return PlainAscent(bound, data, logged, score)


class Terms(NamedTuple):
    """An objective as the kernel reads it."""

    linear: AnyArray
    log: AnyArray
    dense: AnyArray  # (n_actions, n_samples) or (0, 0)


class Outcomes(NamedTuple):
    """Samples as the kernel reads them."""

    action_idx: AnyArray  # int32
    gain: AnyArray  # r/p, rewards translated
    inverse: AnyArray  # 1/p as a share of the largest: squares of 1/p may overflow
    reward: AnyArray  # as logged
    mask: AnyArray  # (n_actions, n_samples) or (0, 0)


class CompiledAscent:
    """`Ascent` in compiled code, block by block on several threads."""

    def __init__(
        self, bound: RewardTerms, data: TrainingData, logged: BanditLog, score: FloatArray, n_jobs: int
    ) -> None:
        self.score, self.gradient = score, np.empty_like(score, order="F")
        self._weight, self._curvature = _plain(bound.weight), _plain(bound.curvature)
        none = np.zeros((0, 0))
        self._terms = Terms(
            _plain(bound.linear), _plain(bound.log), none if bound.dense is None else _plain(bound.dense.T)
        )
        self._largest_inverse = float(1.0 / logged.propensity.min())
        mask = data.action_mask
        self._outcomes = Outcomes(
            np.require(data.action_idx, np.int32, ["C", "W"]),
            _plain(data.log.reward / data.log.propensity),
            _plain(logged.propensity.min() / logged.propensity),
            _plain(logged.reward),
            np.zeros((0, 0), bool) if mask is None else np.require(mask.T, bool, ["C", "W"]),
        )
        self._n_jobs = n_jobs if score.size >= MIN_PARALLEL else 1
        self.standing = self._look(np.zeros_like(score.T[:, :0]), 0.0)

    def measure(self, prediction: FloatArray) -> Sums:
        """Return what the step size along a prediction is computed from; ineligible actions are set to zero in it."""
        values = _by_action(prediction)
        arguments = (self.gradient.T, values, self._weight, self._curvature, self._outcomes.mask)
        totals = self._each_block(kernel.N_MEASURED, lambda *block: kernel.measure_block(*arguments, *block))
        slope, norm, bend = (_in_order(totals[:, column]) / len(prediction) for column in range(3))
        return Sums(slope, norm, bend, float(totals[:, kernel.MAX_PREDICTION].max()))

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and bring gradient and standing up to date."""
        self.standing = self._look(_by_action(prediction), size)

    def _look(self, prediction: FloatArray, size: float) -> Standing:
        def move(start: int, stop: int, totals_out: FloatArray) -> None:
            kernel.move_block(
                float(size),
                prediction,
                self._terms,
                self._outcomes,
                start,
                stop,
                self.score.T,
                self.gradient.T,
                totals_out,
            )

        totals = self._each_block(kernel.N_MOVED, move)
        sums, n_samples = [_in_order(column) for column in totals.T], len(self.score)
        weight, square = sums[kernel.WEIGHT], sums[kernel.WEIGHT_SQUARE]
        return Standing(
            risk=-sums[kernel.VALUE] / n_samples,
            empirical_risk=-sums[kernel.EMPIRICAL] / n_samples,
            surrogate_risk=-sums[kernel.SURROGATE] / n_samples,
            gradient_norm=float(np.sqrt(sums[kernel.GRADIENT_SQUARE])) / n_samples,
            largest_gradient=float(totals[:, kernel.MAX_GRADIENT].max()),
            mean_importance_weight=weight * self._largest_inverse / n_samples,
            effective_sample_size=weight**2 / square if square > 0.0 else 0.0,
            snips_value=sums[kernel.WEIGHT_REWARD] / weight if weight > 0.0 else float("nan"),
        )

    def _each_block(self, n_columns: int, work: Callable[..., Any]) -> FloatArray:
        """Do the work of every block; return its totals, one row per block."""
        n_samples, n_rows = len(self.score), kernel.block_rows(self.score.shape[1])
        starts = range(0, n_samples, n_rows)
        totals = np.empty((len(starts), n_columns))

        def run(first: int) -> None:
            for number in range(first, len(starts), self._n_jobs):
                work(starts[number], min(starts[number] + n_rows, n_samples), totals[number])

        if self._n_jobs == 1:
            run(0)
        else:
            with Threads(self._n_jobs) as threads:
                threads.each(run, range(self._n_jobs))
        return totals


def _plain(values: AnyArray) -> FloatArray:
    """Return contiguous, writeable float64: for anything else numba would compile anew."""
    return np.require(values, np.float64, ["C", "W"])


def _by_action(prediction: FloatArray) -> FloatArray:
    return _plain(prediction.T)


def _in_order(values: FloatArray) -> float:
    """Return a sum in one order, whatever the number of values."""
    return float(np.add.accumulate(values)[-1])


class PlainAscent:
    """`Ascent` in numpy, for objectives of any form."""

    def __init__(self, bound: BoundObjective, data: TrainingData, logged: BanditLog, score: FloatArray) -> None:
        self.score = score
        self._bound, self._data, self._logged = bound, data, logged
        self._look()

    def measure(self, prediction: FloatArray) -> Sums:
        """Return what the step size along a prediction is computed from."""
        eligible = self._eligible(prediction)
        square_norm = (eligible**2).sum(axis=1)
        return Sums(
            float((self.gradient * eligible).sum() / len(eligible)),
            float(np.mean(self._bound.weight * square_norm)),
            float(np.mean(self._bound.curvature * square_norm)),
            float(np.abs(eligible).max()),
        )

    def move(self, prediction: FloatArray, size: float) -> None:
        """Add ``size · prediction`` to the scores, and bring gradient and standing up to date."""
        self.score += size * self._eligible(prediction)
        self._look()

    def _eligible(self, prediction: FloatArray) -> FloatArray:
        mask = self._data.action_mask
        return prediction if mask is None else np.where(mask, prediction, 0.0)

    def _look(self) -> None:
        log_prob = log_softmax(self.score, self._data.action_mask)
        self.gradient = self._bound.gradient(log_prob)
        logged = self._data.logged(log_prob)
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
