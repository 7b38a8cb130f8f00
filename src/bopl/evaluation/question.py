"""`Question`: what is asked of a log beside the value of each policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bopl._errors import UsageError, did_you_mean, quoted
from bopl.evaluation.interval import Interval
from bopl.evaluation.margin import Guard, Margin, parse_guards, parse_min_uplift


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
