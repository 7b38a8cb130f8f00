"""`TrainingData`: everything an objective knows about the samples, in one record that is permuted as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bopl._native import unmasked
from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log import BanditLog
from bopl.log.check import float_column


@dataclass(frozen=True)
class TrainingData:
    """The samples of a fit, as objectives see them.

    Whatever belongs to a sample is a field of this record, so that nothing has to be aligned by hand: a
    learner that keeps its samples in another order gets ``data.take(order)``, and so does the objective.

    Attributes
    ----------
    log : BanditLog
        Rewards are translated. After `take` it has no contexts.
    reward_estimate : ndarray of shape (n_samples, n_actions), optional
        Estimated reward of every action, computed without the sample itself; on the scale of the log's rewards.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts; the mean is 1.
    order : ndarray of int, shape (n_samples,), optional
        The original row at each position; None if the order is that of the original log.
    """

    log: BanditLog
    reward_estimate: FloatArray | None = None
    sample_weight: FloatArray | None = None
    order: AnyArray | None = None

    def __post_init__(self) -> None:
        shape = (self.log.n_samples, self.log.n_actions)
        if self.reward_estimate is not None and self.reward_estimate.shape != shape:
            raise ValueError(f"reward_estimate must have shape {shape}; it has shape {self.reward_estimate.shape}.")
        if self.sample_weight is not None and self.sample_weight.shape != shape[:1]:
            raise ValueError(
                f"sample_weight must have one value per sample, {shape[0]}; it has shape {self.sample_weight.shape}."
            )

    def take(self, order: AnyArray | None) -> TrainingData:
        """Return the outcomes in another order, without contexts; all fields together.

        Parameters
        ----------
        order : ndarray of int, shape (n_samples,), optional
            The row of this data at each position; None leaves the order as it is.
        """
        if order is None:
            return replace(self, log=self.log.outcomes())
        estimate, weight = self.reward_estimate, self.sample_weight
        return TrainingData(
            self.log.outcomes(order),
            None if estimate is None else rows_in_order(estimate, order),
            None if weight is None else weight[order],
            order if self.order is None else self.order[order],
        )

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.log.n_samples

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.log.n_actions

    @property
    def action_idx(self) -> IntArray:
        """Position of the logged action, of shape (n_samples,)."""
        return self.log.action_idx

    @property
    def action_mask(self) -> BoolArray | None:
        """Eligible actions, of shape (n_samples, n_actions); None if all are."""
        return self.log.action_mask

    def logged(self, matrix: FloatArray) -> FloatArray:
        """Return a matrix's entries at the logged actions, of shape (n_samples,)."""
        return logged_entries(matrix, self.action_idx)

    def require_reward_estimate(self, owner: str) -> FloatArray:
        """Return the reward estimates, or raise an error that says what needs them."""
        if self.reward_estimate is None:
            raise ValueError(
                f"{owner} needs estimates of the reward of every action; fit it through BoostedPolicy, which "
                "cross-fits a reward model, or put reward_estimate into TrainingData."
            )
        return self.reward_estimate


def rows_in_order(matrix: FloatArray, order: AnyArray) -> FloatArray:
    """Return the rows of a matrix in another order, column by column in memory, as scores and gradients are stored."""
    moved, order = np.empty(matrix.shape, matrix.dtype, order="F"), order.astype(np.intp, copy=False)
    for column in range(matrix.shape[1]):  # nothing as large as the matrix is made beside it
        np.take(matrix[:, column], order, out=moved[:, column], mode="clip")
    return moved


def check_sample_weight(sample_weight: object, n_samples: int) -> FloatArray | None:
    """Return sample weights with mean 1, or raise what is wrong with them; None stays None."""
    if sample_weight is None:
        return None
    if (shape := np.shape(unmasked(sample_weight))) != (n_samples,):
        raise ValueError(f"sample_weight must have one value per sample, {n_samples}; it has shape {shape}.")
    weight = float_column(sample_weight, "sample_weight")
    wrong = ~(np.isfinite(weight) & (weight >= 0.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"sample_weight must be finite and not negative; {int(wrong.sum())} of {n_samples} values are not, the "
            f"first at row {row} with {weight[row]:g}."
        )
    # Mean 1, so that risks, min_child_weight and certificates keep their scale whatever weights are passed.
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        raise ValueError("all sample weights are zero: there is nothing to learn from.")
    scaled = weight / largest  # the sum of huge weights would overflow
    return scaled / scaled.mean()
