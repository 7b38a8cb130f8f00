"""How much is enough: the smallest difference of interest, and guards on other rewards."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bopl._errors import UsageError, quoted

_GUARD = re.compile(r"^\s*(?P<reward>.+?)\s*(?P<sign>>=|<=)\s*(?P<margin>\S+)\s*$")


@dataclass(frozen=True)
class Margin:
    """A difference per decision, or a share of what is earned now."""

    size: float
    is_relative: bool = False  # whether the size is a share

    def absolute(self, base: float) -> float:
        """Return the difference per decision; ``base`` is what is earned now."""
        return self.size * abs(base) if self.is_relative else self.size

    def __str__(self) -> str:
        return f"{100.0 * self.size:+.4g}%" if self.is_relative else f"{self.size:+.4g}"


def parse_margin(name: str, given: object) -> Margin:
    """Return a margin from a number, or from text such as ``"0.001"`` or ``"1%"``."""
    if isinstance(given, Margin):
        return given
    text = str(given).strip()
    is_relative = text.endswith("%")
    try:
        size = math.nan if isinstance(given, bool) else float(text.removesuffix("%"))
    except ValueError:
        size = math.nan
    if not math.isfinite(size):
        raise UsageError(f"{name} must be a number, or a share such as '1%'; got {given!r}.")
    return Margin(size / 100.0 if is_relative else size, is_relative)


def parse_min_uplift(given: object) -> Margin:
    """Return the smallest uplift of interest; it cannot be negative."""
    margin = parse_margin("min_uplift", given)
    if margin.size < 0.0:
        raise UsageError(
            f"min_uplift must not be negative; got {given!r}. A reward that may fall a little is a guard: see guards."
        )
    return margin


@dataclass(frozen=True)
class Guard:
    """Another reward, and how much a policy may change it.

    Attributes
    ----------
    reward : str
        Name of the reward: a key of the log's ``other_rewards``.
    margin : Margin
        The change that is still allowed.
    is_cost : bool
        Whether the reward is one that must not rise, such as complaints, by more than the margin; else it must not
        change by less.

    Examples
    --------
    >>> from bopl.evaluation import Guard
    >>> print(Guard.parse("revenue >= -1%"), Guard.parse("complaints<=0.002"))
    revenue>=-1% complaints<=+0.002
    """

    reward: str
    margin: Margin
    is_cost: bool = False

    @classmethod
    def parse(cls, given: object) -> Guard:
        """Return a guard from text such as ``"revenue>=-1%"``, ``"complaints<=+0.5%"`` or ``"revenue>=-0.02"``."""
        if isinstance(given, Guard):
            return given
        found = _GUARD.match(given) if isinstance(given, str) else None
        if found is None:
            raise UsageError(
                f"a guard names another reward and the change that is allowed, such as 'revenue>=-1%' or "
                f"'complaints<=+0.5%'; got {given!r}."
            )
        margin = parse_margin(f"the margin of guard {given!r}", found["margin"])
        return cls(found["reward"], margin, found["sign"] == "<=")

    @property
    def sign(self) -> float:
        """1 for a reward, -1 for a cost: times this, more is better."""
        return -1.0 if self.is_cost else 1.0

    def __str__(self) -> str:
        return f"{self.reward}{'<=' if self.is_cost else '>='}{self.margin}"


def parse_guards(given: object) -> tuple[Guard, ...]:
    """Return guards from one or several."""
    if given is None:
        return ()
    if isinstance(given, str | Guard):
        given = (given,)
    if not isinstance(given, Iterable):
        raise TypeError(f"guards must be texts such as 'revenue>=-1%', or Guard objects; got {type(given).__name__}.")
    guards = tuple(Guard.parse(one) for one in given)
    names = [guard.reward for guard in guards]
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise UsageError(f"{quoted(repeated)} is guarded more than once; give one guard per reward.")
    return guards
