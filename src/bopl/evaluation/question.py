"""`Question`: what is asked besides the value of each policy: margins, guards on other rewards, comparisons."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bopl._errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from bopl.evaluation.interval import Interval

_GUARD = re.compile(r"^\s*(?P<reward>.+?)\s*(?P<sign>>=|<=)\s*(?P<margin>\S+)\s*$")


@dataclass(frozen=True)
class Margin:
    """A difference per decision, or a share of what is earned now."""

    size: float
    is_relative: bool = False  # whether the size is a share

    def absolute(self, base: float) -> float:
        """Return the difference per decision; ``base`` is what is earned now."""
        return self.size * abs(base) if self.is_relative else self.size

    @property
    def share(self) -> float:
        """The share of what is earned now; 0 for a difference per decision."""
        return self.size if self.is_relative else 0.0

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
        Whether the reward is a cost, such as complaints: its change must not exceed the margin. The change of any
        other reward must not fall below it.

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
    if not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise TypeError(f"guards must be texts such as 'revenue>=-1%', or Guard objects; got {type(given).__name__}.")
    guards = tuple(Guard.parse(one) for one in given)
    names = [guard.reward for guard in guards]
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise UsageError(f"{quoted(repeated)} is guarded more than once; give one guard per reward.")
    return guards


@dataclass(frozen=True)
class Question:
    """What is asked of a log."""

    names: tuple[str, ...]  # the policies
    min_uplift: Margin  # smallest uplift of interest
    guards: tuple[Guard, ...] = ()
    # The policy that runs now, if it is not the logging policy: verdicts are on the difference to it.
    against: str | None = None
    is_head_to_head: bool = False  # whether every policy is compared with every other one
    is_simultaneous: bool = True  # whether the verdicts on several policies are to hold together

    @property
    def n_judged(self) -> int:
        """How many policies get a verdict: the one that runs now gets none."""
        return max(len(self.names) - (self.against is not None), 1)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Places of the policies that are compared with each other."""
        places = range(len(self.names))
        if self.against is not None:
            second = self.names.index(self.against)
            return [(first, second) for first in places if first != second]
        if not self.is_head_to_head:
            return []
        return [(first, second) for first in places for second in places if first < second]

    @property
    def is_plain(self) -> bool:
        """Whether nothing but values and uplifts is asked for."""
        return not self.guards and not self.pairs

    def confidence(self, confidence: float, n_answers: int) -> float:
        """Return the level of each of several answers that are to hold together (Bonferroni)."""
        return 1.0 - (1.0 - confidence) / n_answers if self.is_simultaneous else confidence

    def certainty(self, confidence: float, n_answers: int, what: str) -> str:
        """Return the level of several answers in words."""
        together = f" for all {n_answers} {what} together" if n_answers > 1 and self.is_simultaneous else ""
        return f"with {100.0 * confidence:.4g}% confidence{together}"

    def check(self, interval: Interval) -> None:
        """Raise one sentence if the kind of interval does not go with what is asked."""
        if interval.is_bound and not self.is_plain:
            raise UsageError(
                f"interval={interval.name!r} bounds values and uplifts; guards and comparisons between policies need "
                "'normal' or 'bootstrap'."
            )


def ask(
    names: Sequence[str],
    *,
    min_uplift: object = 0.0,
    guards: object = (),
    against: object = None,
    head_to_head: bool = False,
    simultaneous: bool = True,
) -> Question:
    """Return a checked question."""
    if against is not None and against not in names:
        raise UsageError(
            f"against={against!r} is not one of the policies, which are {quoted(list(names))}."
            f"{did_you_mean(str(against), list(names))}"
        )
    if against is not None and len(names) == 1:
        raise UsageError(f"there is no policy to compare with {against!r}: name another one.")
    if head_to_head and len(names) < 2:
        raise UsageError("a comparison needs at least two policies, or one and the policy it is compared with.")
    return Question(
        tuple(names),
        parse_min_uplift(min_uplift),
        parse_guards(guards),
        None if against is None else str(against),
        head_to_head,
        simultaneous,
    )
