"""What bounds assume of a log: in which range rewards lie, and how large a weight can be."""

from __future__ import annotations

from dataclasses import dataclass

from bopl.evaluation.evaluation_task import EvaluationSettings
from bopl.evaluation.interval import Interval


@dataclass(frozen=True)
class Assumptions:
    """What bounds rest on."""

    reward_range: tuple[float, float]  # no reward lies outside
    max_weight: float  # no importance weight is larger

    def notes(self, interval: Interval, settings: EvaluationSettings) -> list[str]:
        """Return what is assumed, as sentences; nothing for intervals that are not bounds."""
        if not interval.is_bound:
            return []
        (low, high), given = self.reward_range, settings.reward_range is not None
        notes = [
            f"The bounds hold for rewards in [{low:g}, {high:g}] "
            f"({'given' if given else 'assumed, from the rewards seen'})."
        ]
        if interval.needs_min_propensity:
            origin = "given" if settings.min_propensity is not None else "assumed: the smallest propensity seen"
            notes.append(f"They hold for propensities of at least {1.0 / self.max_weight:.4g} ({origin}).")
        return notes


def find_assumptions(settings: EvaluationSettings, seen: tuple[float, float], min_propensity: float) -> Assumptions:
    """Return the range of rewards and the largest weight: as given, else taken from the samples.

    Parameters
    ----------
    seen : (float, float)
        Smallest and largest reward of the samples. Where both lie in [0, 1], so do all rewards by default.
    min_propensity : float
        Smallest propensity of the samples.
    """
    low, high = seen
    limits = settings.reward_range
    if limits is None:
        limits = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else seen
    elif low < limits[0] or high > limits[1]:
        raise ValueError(
            f"reward_range={limits} does not hold the rewards of the log, which lie in [{low:g}, {high:g}]."
        )
    given = settings.min_propensity
    if given is not None and not 0.0 < given <= min_propensity * (1.0 + 1e-9):
        raise ValueError(
            f"min_propensity={given:g} must be positive and at most the smallest propensity of the log, "
            f"{min_propensity:g}."
        )
    return Assumptions(limits, 1.0 / (min_propensity if given is None else given))
