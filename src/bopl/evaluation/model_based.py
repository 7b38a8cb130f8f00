"""Estimators with a reward model: the direct method, doubly robust and its kin.

``q`` is the reward model, ``q_pi(x) = sum_a pi(a | x) q(x, a)``, ``e_i = r_i - q(x_i, a_i)`` the residual and ``d_i``
the uplift the model sees (`Terms.modelled_uplift`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from bopl._settings import check_number
from bopl._typing import BoolArray, FloatArray
from bopl.evaluation.estimator import SNIPS, Estimator, MeanEstimator, Need
from bopl.evaluation.sample_terms import Pilot, Terms

MODEL_NEEDS = frozenset({Need.REWARD_MODEL, Need.PROPENSITY})
CORRECTION = SNIPS()  # of the residuals, by which `SelfNormalisedDR` corrects the model
GRID_SIZE = 30  # settings that are compared when one is chosen from the data


@dataclass(frozen=True)
class DirectMethod(MeanEstimator):
    """``mean(q_pi)``: what the reward model says, unchecked by the rewards; its bias shows in no interval."""

    name: ClassVar[str] = "dm"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REWARD_MODEL})
    sharpened_by: ClassVar[frozenset[Need]] = frozenset({Need.LOGGING_DISTRIBUTION})
    is_unbiased: ClassVar[bool] = False
    carries_verdict: ClassVar[bool] = False
    priority: ClassVar[int] = 90
    title: ClassVar[str] = "Direct method"
    about: ClassVar[str] = (
        "What a reward model predicts for the new policy's choices. As good as that model, and the interval does not "
        "know about its errors: it carries no verdict."
    )

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``(q_pi, d)``."""
        return np.column_stack([terms.modelled[0], terms.modelled_uplift])


class CorrectedMean(MeanEstimator):
    """``mean(q_pi + v(w) e)``: the reward model corrected by residuals with modified weights ``v(w)``.

    The uplift is ``mean(d + (v(w) - v(1)) e)``: the logging policy's weights are all 1.
    """

    needs: ClassVar[frozenset[Need]] = MODEL_NEEDS
    sharpened_by: ClassVar[frozenset[Need]] = frozenset({Need.LOGGING_DISTRIBUTION})

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``(q_pi + v(w) e, d + (v(w) - v(1)) e)``."""
        policy_reward_hat, residual = terms.modelled
        weight, at_one = self.modified(terms.importance_weight), float(self.modified(np.ones(1))[0])
        return np.column_stack(
            [policy_reward_hat + weight * residual, terms.modelled_uplift + (weight - at_one) * residual]
        )


@dataclass(frozen=True)
class DoublyRobust(CorrectedMean):
    """``mean(q_pi + w e)`` (Dudík, Langford and Li, 2011): unbiased whatever the model, precise if it is good."""

    name: ClassVar[str] = "dr"
    is_monotone_in_weight: ClassVar[bool] = True
    priority: ClassVar[int] = 5
    is_default: ClassVar[bool] = True
    title: ClassVar[str] = "Doubly robust"
    about: ClassVar[str] = (
        "A reward model's prediction, corrected by the rewards that were logged. Unbiased whenever the propensities "
        "are right."
    )


@dataclass(frozen=True)
class SwitchDR(CorrectedMean):
    """SWITCH-DR: ``mean(q_pi + w 1{w <= threshold} e)`` (Wang, Agarwal and Dudík, 2017).

    Parameters
    ----------
    threshold : float of at least 1, optional
        Larger weights are left to the reward model. By default chosen as Wang et al. do, by the least sum of
        estimated variance and squared bound of the bias (`bounded_mse`); that takes the logging policy's probabilities
        of all actions, without which it stays at infinity: DR.
    """

    threshold: float | None = None

    name: ClassVar[str] = "switch_dr"
    is_unbiased: ClassVar[bool] = False
    clips_weights: ClassVar[bool] = True
    priority: ClassVar[int] = 35
    title: ClassVar[str] = "Switch doubly robust"
    about: ClassVar[str] = "Like doubly robust, but only the reward model counts where weights are large."
    needs_pilot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_number("threshold", self.threshold, low=1.0)

    def tuned(self, pilot: Pilot) -> SwitchDR:
        """Choose the threshold."""
        if self.threshold is not None:
            return self
        grid = np.unique(np.append(np.geomspace(1.0, pilot.largest_weight, GRID_SIZE), np.inf))
        return best_by_bounded_mse([replace(self, threshold=float(one)) for one in grid], pilot)

    def modified(self, importance_weight: FloatArray) -> FloatArray:
        """Return the weights, zero beyond the threshold."""
        return np.where(self.is_clipped(importance_weight), 0.0, importance_weight)

    def is_clipped(self, importance_weight: FloatArray) -> BoolArray:
        """Return which samples are left to the reward model."""
        return importance_weight > (np.inf if self.threshold is None else self.threshold)


@dataclass(frozen=True)
class ShrinkageDR(CorrectedMean):
    """DR with optimistic shrinkage, ``v(w) = shrinkage · w / (shrinkage + w²)`` (Su et al., 2020).

    Parameters
    ----------
    shrinkage : float in (0, inf], optional
        lambda of the paper: infinity is DR, 0 the direct method. By default chosen as theirs is, by the
        least sum of estimated variance and squared bound of the bias (`bounded_mse`); without the logging policy's
        probabilities of all actions it stays at infinity.
    """

    shrinkage: float | None = None

    name: ClassVar[str] = "dr_shrinkage"
    is_unbiased: ClassVar[bool] = False
    clips_weights: ClassVar[bool] = True
    priority: ClassVar[int] = 40
    title: ClassVar[str] = "Doubly robust with shrinkage"
    about: ClassVar[str] = "Like doubly robust, with large weights pulled towards zero: less noise, some bias."
    needs_pilot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.shrinkage is not None:
            check_number("shrinkage", self.shrinkage, low=0.0, low_open=True)

    def tuned(self, pilot: Pilot) -> ShrinkageDR:
        """Choose the shrinkage."""
        if self.shrinkage is not None:
            return self
        grid = np.append(np.geomspace(0.1, 100.0 * pilot.largest_weight**2, GRID_SIZE), np.inf)
        return best_by_bounded_mse([replace(self, shrinkage=float(one)) for one in grid], pilot)

    def modified(self, importance_weight: FloatArray) -> FloatArray:
        """Return the shrunk weights."""
        shrinkage = np.inf if self.shrinkage is None else self.shrinkage
        # Divided first: an infinite shrinkage leaves the weights as they are, and no square overflows.
        return importance_weight / (1.0 + importance_weight * (importance_weight / shrinkage))


@dataclass(frozen=True)
class SelfNormalisedDR(Estimator):
    """``mean(q_pi) + sum(w e) / sum(w)`` (Thomas and Brunskill, 2016): the correction is self-normalised.

    Moments are ``(q_pi, d, (w - 1) e, w, e)``.
    """

    name: ClassVar[str] = "sndr"
    is_monotone_in_weight: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = MODEL_NEEDS
    sharpened_by: ClassVar[frozenset[Need]] = frozenset({Need.LOGGING_DISTRIBUTION})
    is_unbiased: ClassVar[bool] = False
    shifts_with_rewards: ClassVar[bool] = True
    priority: ClassVar[int] = 10
    title: ClassVar[str] = "Self-normalised doubly robust"
    about: ClassVar[str] = "Like doubly robust, with the correction divided by the sum of the weights."

    def moments(self, terms: Terms) -> FloatArray:
        """Return ``(q_pi, d, (w - 1) e, w, e)``."""
        policy_reward_hat, residual = terms.modelled
        correction = CORRECTION.moments(terms.with_reward(residual))
        return np.column_stack([policy_reward_hat, terms.modelled_uplift, correction])

    def value(self, mean: FloatArray) -> FloatArray:
        """Return ``mean(q_pi) + mean(w e) / mean(w)``."""
        return mean[..., 0] + CORRECTION.value(mean[..., 2:])

    def uplift(self, mean: FloatArray) -> FloatArray:
        """Return ``mean(d) + mean(w e) / mean(w) - mean(e)``, exactly zero where all weights are 1."""
        return mean[..., 1] + CORRECTION.uplift(mean[..., 2:])

    def value_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives in the five means."""
        return np.concatenate([[1.0, 0.0], CORRECTION.value_gradient(mean[2:])])

    def uplift_gradient(self, mean: FloatArray) -> FloatArray:
        """Return the derivatives in the five means."""
        return np.concatenate([[0.0, 1.0], CORRECTION.uplift_gradient(mean[2:])])


T = TypeVar("T", bound=CorrectedMean)


def best_by_bounded_mse(candidates: Sequence[T], pilot: Pilot) -> T:
    """Return the candidate of least `bounded_mse`; the last one, plain DR, where that cannot be computed."""
    if pilot.logging_prob is None:
        return candidates[-1]
    return min(candidates, key=lambda one: bounded_mse(one, pilot))


def bounded_mse(estimator: CorrectedMean, pilot: Pilot) -> float:
    """Return the estimated variance of the estimate plus the square of a bound of its bias.

    The bias is ``E[(v(w) - w) e]``. Its size is taken to be at most ``E_x sum_a pi(a | x) (1 - v(w)/w)``, the share of
    the policy's probability that is left to the reward model, times the root mean square of the residuals. The share
    comes from the two policies, not from the sample: the few samples with large weights could not tell their own
    frequency."""
    weight, share = pilot.every_weight
    share_left = float((share * (1.0 - estimator.modified(weight) / weight)).sum())
    residual = pilot.terms.modelled[1]
    bias_bound = share_left * float(np.sqrt((residual**2).mean()))
    return float(estimator.moments(pilot.terms)[:, 0].var()) / pilot.n_samples + bias_bound**2
