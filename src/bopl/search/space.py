"""The search space: a range for each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Int:
    """Integers from ``low`` to ``high``, both included; uniform in the logarithm if ``log``."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self)

    def draw(self, rng: np.random.Generator) -> int:
        """Return one number."""
        if not self.log:
            return int(rng.integers(self.low, self.high + 1))
        drawn = math.exp(rng.uniform(math.log(self.low - 0.5), math.log(self.high + 0.5)))
        return min(max(round(drawn), self.low), self.high)

    def distribution(self, optuna: Any) -> Any:
        """Return the range as an Optuna distribution."""
        return optuna.distributions.IntDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Float:
    """Numbers from ``low`` to ``high``; uniform in the logarithm if ``log``."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self)

    def draw(self, rng: np.random.Generator) -> float:
        """Return one number."""
        if self.log:
            return float(np.clip(math.exp(rng.uniform(math.log(self.low), math.log(self.high))), self.low, self.high))
        return float(rng.uniform(self.low, self.high))

    def distribution(self, optuna: Any) -> Any:
        """Return the range as an Optuna distribution."""
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of several values: numbers, text, booleans or None."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        if not values:
            raise ValueError("Choice needs at least one value.")
        object.__setattr__(self, "values", values)

    def draw(self, rng: np.random.Generator) -> Any:
        """Return one value."""
        return self.values[int(rng.integers(len(self.values)))]

    def distribution(self, optuna: Any) -> Any:
        """Return the values as an Optuna distribution."""
        return optuna.distributions.CategoricalDistribution(self.values)


Space = Mapping[str, Int | Float | Choice]


def draw_settings(space: Space, seed: int, number: int) -> dict[str, Any]:
    """Return configuration ``number`` of the random search with this seed, independent of earlier ones."""
    rng = np.random.default_rng([seed, number])
    return {name: space[name].draw(rng) for name in sorted(space)}


def draw_seed(seed: int, number: int) -> int:
    """Return the seed of configuration ``number`` of a search with this seed."""
    return int(np.random.default_rng([seed, number]).integers(2**32))


def _check_ends(found: Int | Float) -> None:
    if not found.low <= found.high:
        raise ValueError(f"a range must not end below its start; got {found}.")
    if found.log and found.low <= 0:
        raise ValueError(f"a range on a logarithmic scale must start above 0; got {found}.")
