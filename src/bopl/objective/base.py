"""What an objective is: the value to optimise, seen from the current scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bopl._typing import FloatArray
from bopl.log import BanditLog


@dataclass(frozen=True)
class StepTarget:
    """What one boosting step needs to know about the objective at the current scores ``F``.

    Attributes
    ----------
    gradient : ndarray of shape (n_samples, n_actions)
        ``G[i, a]``: ascent direction of sample i's estimated reward in ``F[i, a]``. Every row sums to zero.
    weight : ndarray of shape (n_samples,)
        Non-negative regression weight ``w[i]`` of the base-learner reduction: labels are ``G / w``.
    curvature : ndarray of shape (n_samples,)
        ``s[i]``: the risk of sample i is ``s[i]``-smooth in ``F[i]``.
    log_prob : ndarray of shape (n_samples,)
        Natural logarithm of the current policy's probability of the logged action.
    """

    gradient: FloatArray
    weight: FloatArray
    curvature: FloatArray
    log_prob: FloatArray


class Objective(Protocol):
    """An estimate of a policy's risk (negative reward) that is smooth in the scores.

    To add one: a file in this folder with a class of these three methods, and a line in the table of `get_objective`.
    The step size, the certificate and the history need nothing else.
    """

    @property
    def name(self) -> str:
        """Name under which the objective is asked for."""
        ...

    def step_target(self, log: BanditLog, score: FloatArray) -> StepTarget:
        """Return gradient, weights and curvature at the scores, of shape (n_samples, n_actions).

        The log of a fit has no contexts (`BanditLog.outcomes`): an objective sees them through the scores alone.
        """
        ...

    def risk(self, log: BanditLog, log_prob: FloatArray) -> float:
        """Return the objective's risk of a policy from its log-probabilities of the logged actions."""
        ...

    def optimal_risk(self, log: BanditLog) -> float:
        """Return the infimum of the risk over all policies, or a lower bound of it."""
        ...
