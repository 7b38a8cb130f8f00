"""What runs now, what is tried beside it, and since which promotion: read off the rows of promotions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bopl._errors import UsageError
from bopl.serving.record import UNIFORM, PromotionRow
from bopl.serving.settings import LoopSettings


@dataclass(frozen=True)
class Standing:
    """Where a loop stands.

    Attributes
    ----------
    promotions : tuple of PromotionRow
        All of them, the oldest first; the last is in force.
    """

    promotions: tuple[PromotionRow, ...]

    @classmethod
    def of(cls, promotions: Sequence[PromotionRow]) -> Standing:
        """Return where a loop with these promotions stands; raise if it has not begun."""
        if not promotions:
            raise UsageError("nothing was ever promoted here; begin the loop with `bopl serve FOLDER`.")
        return cls(tuple(promotions))

    @property
    def now(self) -> PromotionRow:
        """The promotion in force."""
        return self.promotions[-1]

    @property
    def canary(self) -> str | None:
        """Id of the policy that is tried on a part of the traffic; None if there is none."""
        return self.now.policy if self.now.share < 1.0 else None

    @property
    def running(self) -> str:
        """Id of the policy that has the rest of the traffic, or all of it."""
        return self.now.policy if self.canary is None else self.now.baseline

    @property
    def before(self) -> str | None:
        """Id of the policy that the running one has replaced and is still compared with; None if there is none."""
        has_one = self.canary is None and self.now.baseline != self.now.policy
        return self.now.baseline if has_one else None

    @property
    def served(self) -> frozenset[str]:
        """Ids of all policies that ever had traffic: what replays need, and what is never tried a second time."""
        return frozenset(name for row in self.promotions for name in (row.policy, row.baseline))

    @property
    def trial(self) -> tuple[PromotionRow, ...]:
        """The promotions of the policy in force over the baseline in force, without a break."""
        return self._back_while(lambda row: (row.policy, row.baseline) == (self.now.policy, self.now.baseline))

    @property
    def ramp(self) -> tuple[PromotionRow, ...]:
        """Those of the trial with the share in force."""
        return self._back_while(
            lambda row: (row.policy, row.baseline, row.share) == (self.now.policy, self.now.baseline, self.now.share)
        )

    def _back_while(self, is_part: Any) -> tuple[PromotionRow, ...]:
        found: list[PromotionRow] = []
        for row in reversed(self.promotions):
            if not is_part(row):
                break
            found.insert(0, row)
        return tuple(found)

    # -- What may come next -----------------------------------------------------------------------------------------

    def next_share(self, ramp: Sequence[float]) -> float:
        """Return the share after the one in force."""
        return next((share for share in ramp if share > self.now.share), 1.0)

    def telling_share(self, ramp: Sequence[float]) -> float | None:
        """Return the share of a ramp, below the one in force, that tells two policies apart soonest; None without one.

        That is the one nearest to a half, where neither of them is rarely seen.
        """
        lower = [share for share in ramp if share < self.now.share]
        return min(lower, key=lambda share: abs(share - 0.5), default=None)

    def promotion_of(
        self, policy: str, share: float, settings: LoopSettings, reason: str, **facts: Any
    ) -> PromotionRow:
        """Return the row that serves a policy at a share, over what runs now."""
        baseline = self.running if policy != self.running else self.now.baseline
        if policy == self.canary:
            baseline = self.now.baseline
        return self._row(policy, share, baseline, settings, reason, facts)

    def rollback_of(self, settings: LoopSettings, reason: str, **facts: Any) -> PromotionRow:
        """Return the row that gives all traffic back to what ran before."""
        target = self.now.baseline
        if target == self.now.policy:
            raise UsageError(
                f"there is nothing to roll back to: {_name(target)} has replaced no other policy. Promote one by "
                "its id."
            )
        return self._row(target, 1.0, target, settings, reason, facts)

    def _row(
        self, policy: str, share: float, baseline: str, settings: LoopSettings, reason: str, facts: dict[str, Any]
    ) -> PromotionRow:
        known = list(dict.fromkeys([*settings.actions, *(self.now.actions or ())]))
        row = PromotionRow(policy, share, baseline, settings.exploration, settings.min_propensity, reason)
        return replace(row, actions=known or None, **facts)


def _name(policy: str) -> str:
    return "the uniform policy" if policy == UNIFORM else f"policy {policy}"
