"""How the propensity weights a reward: plain ``r/p``, or one of its regularised forms.

All of them are per-sample numbers ``v = v(r, p)``, so that an objective stays linear in the policy (or in its
logarithm): gradient, curvature, optimal risk and certificate follow from v alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bopl._registry import Registry
from bopl._settings import check_number
from bopl._typing import FloatArray


class Weight(Protocol):
    """From rewards (or residuals of a reward model) to weighted rewards.

    To add one, write a frozen dataclass with a ``name`` here, and add it to `WEIGHTS`.
    """

    name: ClassVar[str]

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``v(r, p)``, with the sign of the reward."""
        ...


@dataclass(frozen=True)
class Plain:
    """``r / p``: unbiased; rare actions have large weights."""

    name: ClassVar[str] = "plain"

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``r / p``."""
        return reward / propensity


@dataclass(frozen=True)
class Clipped:
    """``r / max(p, tau)``: no weight above ``1/tau``.

    Parameters
    ----------
    tau : float in [0, 1], default=0.05
        Smaller propensities count as this one; 0 is plain.
    """

    name: ClassVar[str] = "clipped"
    tau: float = 0.05

    def __post_init__(self) -> None:
        check_number("tau", self.tau, low=0.0, high=1.0)

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``r / max(p, tau)``."""
        return reward / np.maximum(propensity, self.tau)


@dataclass(frozen=True)
class ImplicitExploration:
    """``r / (p + gamma)``: shrinks every weight, the largest most.

    Parameters
    ----------
    gamma : float of at least 0, default=0.05
        Constant added to every propensity; 0 is plain.
    """

    name: ClassVar[str] = "implicit_exploration"
    gamma: float = 0.05

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, low=0.0)

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``r / (p + gamma)``."""
        return reward / (propensity + self.gamma)


@dataclass(frozen=True)
class ExponentialSmoothing:
    """``r / p^alpha``: 1 is plain, 0 ignores the propensity (with `Surrogate`, the reward-weighted likelihood).

    Parameters
    ----------
    alpha : float in [0, 1], default=0.5
        Exponent of the propensity: 1 is plain, 0 ignores it.
    """

    name: ClassVar[str] = "exponential_smoothing"
    alpha: float = 0.5

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0, high=1.0)

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``r / p^alpha``."""
        return reward / propensity**self.alpha


@dataclass(frozen=True)
class LogSmoothing:
    """``log(1 + lambda · |r|/p) / lambda`` with the sign of r: large weights grow like a logarithm.

    Parameters
    ----------
    lam : float above 0, default=0.1
        lambda; near 0 it is plain.
    """

    name: ClassVar[str] = "log_smoothing"
    lam: float = 0.1

    def __post_init__(self) -> None:
        check_number("lam", self.lam, low=0.0, low_open=True)

    def __call__(self, reward: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return ``sgn(r) · log(1 + lambda · |r|/p) / lambda``."""
        # log1p: for small lambda · |r|/p the sum with 1 would round the reward away.
        return np.sign(reward) * np.log1p(self.lam * np.abs(reward) / propensity) / self.lam


WEIGHTS: Registry[type] = Registry(
    "bopl.weights",
    {kind.name: kind for kind in (Plain, Clipped, ImplicitExploration, ExponentialSmoothing, LogSmoothing)},
)


def register_weight(kind: type) -> type:
    """Register your own weight under its ``name``: for `parse_weight`, model files and checkpoints."""
    WEIGHTS[kind.name] = kind  # type: ignore[attr-defined]
    return kind
