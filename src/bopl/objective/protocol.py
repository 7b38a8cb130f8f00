"""The protocols of an objective: an estimate of the policy's reward, bound to the samples of one log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, cast

from bopl._exact import Limbs
from bopl._settings import check_choice
from bopl._typing import FloatArray
from bopl.objective.training_data import TrainingData
from bopl.objective.weight import Plain, Weight

SMOOTHNESS = ("sharp", "paper")


@dataclass(frozen=True)
class StepTarget:
    """What a learner needs to fit one boosting step.

    Attributes
    ----------
    gradient : ndarray of shape (n_samples, n_actions)
        ``G[i, a]``: ascent direction of sample i's estimated reward in ``F[i, a]``. Every row sums to zero.
    weight : ndarray of shape (n_samples,)
        Non-negative regression weight ``w[i]`` of the base-learner reduction: labels are ``G / w``.
    largest : float, optional
        ``max|G|``, if it is known.
    """

    gradient: FloatArray
    weight: FloatArray
    largest: float | None = None


class BoundObjective(Protocol):
    """An objective bound to its samples: whatever is constant over the rounds is computed once.

    Attributes
    ----------
    weight : ndarray of shape (n_samples,)
        Non-negative regression weight of each sample.
    curvature : ndarray of shape (n_samples,)
        ``s[i]``: the risk of sample i is ``s[i]``-smooth in its scores.
    """

    @property
    def weight(self) -> FloatArray:
        """Regression weights."""
        ...

    @property
    def curvature(self) -> FloatArray:
        """Smoothness of each sample."""
        ...

    def gradient(self, log_prob: FloatArray) -> FloatArray:
        """Return the ascent direction of every sample's estimated reward in its scores, (n_samples, n_actions).

        Parameters
        ----------
        log_prob : ndarray of shape (n_samples, n_actions)
            Log-probabilities of all actions; -inf where an action is not eligible.
        """
        ...

    def risk(self, log_prob: FloatArray) -> float:
        """Return the mean risk (negative estimated reward) of a policy from its log-probabilities of all actions."""
        ...

    def optimal_risk(self) -> float:
        """Return the infimum of the risk over all policies, or a lower bound of it; needs contexts."""
        ...


class Objective(Protocol):
    """Settings of an objective: a frozen dataclass, so that its fields can be saved, compared and resumed.

    To add one, write a class with these traits and `bind` in a file of this folder, and add it to `OBJECTIVES`. If the
    estimate has the form of `bopl.objective.RewardTerms`, ``bind`` returns these, and that is all.
    """

    name: ClassVar[str]
    #: Name of its risk in plots and reports.
    title: ClassVar[str]
    #: Whether it requires `TrainingData.reward_estimate`.
    needs_reward_model: ClassVar[bool]

    def bind(self, data: TrainingData) -> BoundObjective:
        """Return the objective of these samples."""
        ...


class PartObjective(Protocol):
    """Binds an objective to parts of a log."""

    def bind(self, data: TrainingData) -> BoundObjective:
        """Return the objective of some samples of the log."""
        ...


class RowWise:
    """Base class of objectives whose terms of a sample depend on that sample, and on a few sums over the whole log.

    They can be boosted over a log in pieces. Your own objective may inherit it if ``bind`` returns
    `bopl.objective.RewardTerms`; if it needs no sums, that is all.
    """

    # Pieces are bound one by one, wherever they are: what depends on the whole log is summed first, exactly, and given
    # to all of them.
    def sums_of(self, data: TrainingData) -> Limbs | None:
        """Return sums over some samples, exact so that those of several parts can be added; None if there are none."""
        return None

    def for_parts(self, sums: Limbs | None) -> PartObjective:
        """Return what binds the parts of a log, given the sums over all of it."""
        return cast(PartObjective, self)


def check_options(weight: Weight, smoothness: str) -> None:
    """Raise if a setting that objectives share is invalid."""
    if not callable(weight) or isinstance(weight, type):
        raise TypeError(f"weight must be a weight such as bopl.objective.Clipped(0.05); got {weight!r}.")
    check_choice("smoothness", smoothness, SMOOTHNESS)


@dataclass(frozen=True)
class OfWeightedReward(RowWise):
    """Base class of objectives that are functions of ``v(r, p)``, the weighted reward of the logged action."""

    needs_reward_model: ClassVar[bool] = False

    weight: Weight = field(default_factory=Plain)
    smoothness: str = "sharp"

    def __post_init__(self) -> None:
        check_options(self.weight, self.smoothness)

    def value(self, data: TrainingData) -> FloatArray:
        """Return ``v(r, p)``, times the sample weight if there is one, of shape (n_samples,)."""
        value = self.weight(data.log.reward, data.log.propensity)
        return value if data.sample_weight is None else value * data.sample_weight
