"""What is done with each piece once it is read: records that can be sent to another machine and compared."""

from __future__ import annotations

from dataclasses import dataclass

from bopl.log.bandit_log import BanditLog


@dataclass(frozen=True)
class UniformPropensity:
    """Say that the logging policy chose among the eligible actions with equal probability."""

    def __call__(self, log: BanditLog) -> BanditLog:
        """Return a piece with these propensities."""
        return log.with_propensity("uniform")


@dataclass(frozen=True)
class ExactPropensity:
    """Say whether the propensities are exact, however few digits they have."""

    exact_propensity: bool

    def __call__(self, log: BanditLog) -> BanditLog:
        """Return a piece with that said."""
        return log.with_exact_propensity(self.exact_propensity)


@dataclass(frozen=True)
class Translation:
    """Add a constant to every reward."""

    reward_translation: float

    def __call__(self, log: BanditLog) -> BanditLog:
        """Return a piece with translated rewards."""
        return log.translated(self.reward_translation)


@dataclass(frozen=True)
class WithoutColumns:
    """Leave out context columns."""

    columns: tuple[str | int, ...]

    def __call__(self, log: BanditLog) -> BanditLog:
        """Return a piece without them."""
        return log.without_columns(self.columns)
